// What the cache holds of a run: what the run finds there when it begins, and what it leaves there. A run that is over is
// replayed as the same run. After an interrupted one, a new run begins with the calls that were already answered.
import { hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { flatJson } from '../../llm/cache/canonical.ts'
import type { RunEntry } from '../../llm/cache/entry.ts'
import type { RunOwner } from '../../llm/cache/owners.ts'
import type { ReplyCache } from '../../llm/cache/reply-cache.ts'
import { runKey } from '../../llm/cache/run-key.ts'
import type { CompletionRequest, Llm } from '../../llm/llm.ts'
import type { Prompt } from '../catalogue/prompt.ts'

export interface Run {
  readonly id: string
  /** Milliseconds since 1970 UTC. */
  readonly startedAt: number
}

/** The calls of a run, and how they were made. */
export type RecordedRun = Pick<RunEntry, 'calls' | 'aid'>

/** Where replies are remembered, and whose they are. */
export interface RunCache {
  readonly replies: ReplyCache
  readonly workspace: string
  /** The document that the run is about. */
  readonly owner?: RunOwner | undefined
}

export interface RunRecordOptions extends RunCache {
  readonly prompt: Prompt
  readonly llm: Llm
  /** See `cacheKeyRequest`. */
  readonly request: CompletionRequest
  readonly signal: AbortSignal
}

export interface RunRecord {
  /** What is remembered of a run that is over, or that was interrupted. */
  readonly found: RunEntry | undefined
  /** Whether `found` is a whole run that was read as this one would be. */
  readonly isOver: boolean
  /** Remembers the calls of `run` so far. Never throws, and nobody waits for it. */
  remember(run: Run, calls: RecordedRun): void
  /** Remembers that `run` is over; resolves when that is stored. */
  complete(run: Run, calls: RecordedRun, cut: RunEntry['cut']): Promise<void>
  /** Lets the next equal request in when everything is stored. May be called again. */
  leave(): Promise<void>
}

/** Waits for equal requests of this process that are in work, then looks into the cache. */
export async function openRecord(options: RunRecordOptions): Promise<RunRecord> {
  const { replies, workspace, owner, prompt, llm, request, signal } = options
  const key = runKey(workspace, llm, request)
  const form = hash('sha256', flatJson([prompt.responseType, prompt.jsonSchema]), 'hex').slice(0, 32)
  const leave = await replies.turn(key, signal)
  const found = await replies.get(key, owner)
  let storing = Promise.resolve()
  let latest: RunEntry | undefined

  // Each store takes the latest entry, so a run that is over right after its only call is stored once.
  function store(entry: RunEntry, ready: () => Promise<unknown>): Promise<void> {
    latest = entry
    storing = storing.then(ready).then(async () => {
      const next = latest
      latest = undefined
      if (next) await replies.put(key, next, owner)
    })
    return storing
  }

  return {
    found,
    isOver: found?.form === form,
    remember({ id, startedAt }, calls) {
      void store({ run: { id, startedAt }, ...calls }, nextTurn)
    },
    complete: ({ id, startedAt }, calls, cut) =>
      store({ run: { id, startedAt }, ...calls, form, ...(cut && { cut }) }, async () => undefined),
    async leave() {
      await storing
      leave()
    },
  }
}
