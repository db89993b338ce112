// A run's place in the cache: what it finds there when it begins, and what it leaves there. A run that is over is replayed as
// the same run; one that was interrupted makes a new run begin with the calls that were already answered.
import { hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { flatJson } from '../../llm/cache/canonical.ts'
import { type RunEntry, runKey } from '../../llm/cache/entry.ts'
import type { ReplyCache } from '../../llm/cache/reply-cache.ts'
import type { CompletionRequest, Llm } from '../../llm/llm.ts'
import type { Prompt } from '../catalogue/catalogue.ts'

export interface Run {
  readonly id: string
  /** Milliseconds since 1970 UTC. */
  readonly startedAt: number
}

/** The calls of a run, and how they were made. */
export type Remembered = Pick<RunEntry, 'calls' | 'unaided'>

export interface RunPlace {
  readonly cache: ReplyCache
  readonly workspace: string
  readonly prompt: Prompt
  readonly llm: Llm
  readonly request: CompletionRequest
  readonly signal: AbortSignal
}

export interface RunRecord {
  /** What is there: of a run that is over, or was interrupted. */
  readonly found: RunEntry | undefined
  /** Whether `found` is the whole of a run, read as this one would be. */
  readonly isOver: boolean
  /** Remembers the calls of `run` so far. Never throws, and holds nobody up. */
  remember(run: Run, made: Remembered): void
  /** Remembers that `run` is over; resolves when that is stored. */
  complete(run: Run, made: Remembered, cut: RunEntry['cut']): Promise<void>
  /** Lets the next equal request in, when all that is remembered is stored. May be called again. */
  leave(): Promise<void>
}

/** Waits for equal requests of this process that are at work, then looks into the cache. */
export async function openRecord(place: RunPlace): Promise<RunRecord> {
  const { cache, workspace, prompt, llm, request, signal } = place
  const key = runKey(workspace, llm, request)
  const form = hash('sha256', flatJson([prompt.responseType, prompt.jsonSchema]), 'hex').slice(0, 32)
  const leave = await cache.turn(key, signal)
  const found = await cache.get(key)
  let storing = Promise.resolve()
  let latest: RunEntry | undefined

  // Whoever stores takes the latest there is; a run that is over at once after its only call is stored once.
  function store(entry: RunEntry, ready: () => Promise<unknown>): Promise<void> {
    latest = entry
    storing = storing.then(ready).then(async () => {
      const next = latest
      latest = undefined
      if (next) await cache.put(key, next)
    })
    return storing
  }

  return {
    found,
    isOver: found?.form === form,
    remember({ id, startedAt }, made) {
      void store({ run: { id, startedAt }, ...made }, nextTurn)
    },
    complete: ({ id, startedAt }, made, cut) =>
      store({ run: { id, startedAt }, ...made, form, ...(cut && { cut }) }, async () => undefined),
    async leave() {
      await storing
      leave()
    },
  }
}
