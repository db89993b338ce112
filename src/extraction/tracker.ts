// What is known of the documents of an extraction: by the entries on `progress`, and by what happened when they were loaded.
import { type ErrorCode, errorTable, GraphmillError } from '../errors.ts'
import type { Circuits } from '../flow/runner/circuits.ts'
import type { Prices } from '../llm/limits/prices.ts'
import type { RateLimiter } from '../llm/limits/rate-limiter.ts'
import type { Llm } from '../llm/llm.ts'
import type { Message } from '../messages/envelope.ts'
import type { DocumentStatus } from '../progress/document-status.ts'
import { createProgressAggregate } from '../progress/progress-aggregate.ts'
import { createTokenUsage } from '../progress/token-usage.ts'
import type { FailedEvent } from './events.ts'
import {
  countsOf,
  type DocumentResult,
  type ExtractionProgress,
  type ExtractionSummary,
  type FailedSource,
  resultOf,
  summaryOf,
  type Waiting,
} from './summary.ts'

export interface TrackerOptions {
  readonly llm: Llm
  readonly prices: Prices
  readonly circuits: Circuits
  readonly rateLimiter: RateLimiter
}

export type Tracker = ReturnType<typeof createTracker>

export function createTracker({ llm, prices, circuits, rateLimiter }: TrackerOptions) {
  const aggregate = createProgressAggregate()
  const tokenUsage = createTokenUsage()
  const names = new Map<string, Set<string>>()
  const failed: FailedSource[] = []
  /** The last result that was reported of each document that has ended. */
  const reported = new Map<string, string>()
  const begunAt = performance.now()
  let ended: { readonly seconds: number; readonly whole: boolean } | undefined
  let limited = false

  const counted = () => ({
    statuses: aggregate.documents(),
    usage: tokenUsage.rows(),
    prices,
    isFree: llm.isLocal === true,
    seconds: ended?.seconds ?? secondsSince(begunAt),
  })

  function waiting(): Waiting[] {
    const open = circuits.open().map((key) => ({
      resource: resourceOf(key),
      error: circuits.reason(key)!,
      retryInMs: undefined,
    }))
    const pause = rateLimiter.paused()
    if (!pause) return open
    return [...open, { resource: resourceOf(llm.circuit), error: pause.error, retryInMs: pause.leftMs }]
  }

  return {
    documents: () => aggregate.documents(),
    usage: () => tokenUsage.rows(),
    titleOf: (documentId: string) => aggregate.status(documentId)?.title || documentId,
    add(message: Message<'Progress'>): void {
      aggregate.add(message)
      tokenUsage.add(message)
    },
    loaded(documentId: string, name: string): void {
      names.set(documentId, (names.get(documentId) ?? new Set()).add(name))
    },
    notLoaded(name: string, { code, message, remedy }: GraphmillError): void {
      failed.push({ name, code, message, remedy })
    },
    limit(): void {
      limited = true
    },
    /** Whether all documents that were loaded have ended. */
    hasEnded: () => aggregate.documents().every(isOver),
    end(whole: boolean): void {
      ended = { seconds: secondsSince(begunAt), whole }
    },
    /** The documents that have ended, and were not reported so before. */
    newResults(): DocumentResult[] {
      const results = aggregate
        .documents()
        .filter((status) => names.has(status.documentId) && isOver(status))
        .map((status) => resultOf(status, names))
      return results.filter((result) => {
        const text = JSON.stringify([result.state, result.units, result.error])
        const isNew = reported.get(result.documentId) !== text
        reported.set(result.documentId, text)
        return isNew
      })
    },
    /** What a message on `progress` says is missing. */
    deathOf({ documentId, chunkId, payload }: Message<'Progress'>): FailedEvent | undefined {
      if (payload.kind !== 'dead') return undefined
      const { type = 'unexpected', message = 'it was given up' } = payload.error ?? {}
      const code = Object.hasOwn(errorTable, type) ? (type as ErrorCode) : 'unexpected'
      const [name = documentId] = names.get(documentId) ?? []
      const error = new GraphmillError(code, message)
      return { type: 'failed', name, documentId, chunkId, unit: payload.unit, error }
    },
    progress(): ExtractionProgress {
      const sources = counted()
      const over = sources.statuses.filter(isOver)
      const documents = {
        loaded: names.size,
        ended: over.filter(({ documentId }) => names.has(documentId)).length,
        failed: failed.length + over.filter((each) => names.has(each.documentId) && hasFailed(each)).length,
      }
      return { documents, ...countsOf(sources), waiting: waiting() }
    },
    summary: (): ExtractionSummary =>
      summaryOf({ ...counted(), names, failed: [...failed], limited, ended: ended?.whole === true }),
  }
}

const secondsSince = (begunAt: number) => Math.round(performance.now() - begunAt) / 1000

const isOver = ({ state }: DocumentStatus) => state !== 'queued' && state !== 'running'

const hasFailed = ({ state }: DocumentStatus) => state === 'failed'

/** The name of the resource of a circuit, for people. */
const resourceOf = (circuit: string) => circuit.replace(/^\w+:/, '')
