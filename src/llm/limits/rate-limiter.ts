// One governor stands before a model: it says when the next call may start, in turn over flows and lanes,
// so that a flow with ten requests never waits behind one with ten thousand. It keeps the limits that it was told
// and those that the server's refusals show.
import { GraphmillError } from '../../errors.ts'
import { longestTimerMs } from '../../wait.ts'
import { createAdaptiveLimiter } from './adaptive-limiter.ts'
import { createRateLimit } from './token-bucket.ts'

/** On whose behalf a call is made. */
export interface Caller {
  readonly workspace: string
  readonly flow: string
  /** `prompt`, `prompt-live`, … */
  readonly lane: string
}

export interface Ask extends Caller {
  /** What the call will cost at most, in tokens: see `estimateTokens`. Default 0. */
  readonly tokens?: number
  readonly signal: AbortSignal
}

/** How a call ended: with the tokens reported (null: unknown), refused for its rate, or failed in another way. */
export type Outcome =
  | { readonly type: 'done'; readonly tokens: number | null }
  | { readonly type: 'limited'; readonly error: GraphmillError }
  | { readonly type: 'failed' }

export interface Slot {
  /** The server took the call: its reply began. */
  accepted(): void
  /** The model has ended: the slot is free for the next call. A second call does nothing. */
  release(outcome: Outcome): void
}

/** A time in which no call starts because the server refused one. */
export interface Pause {
  /** The same for as long as the pause lasts, another for the next one. */
  readonly id: number
  /** The last refusal; it may ask for so long a wait itself. */
  readonly error: GraphmillError
  /** Milliseconds until the next call may start. */
  readonly leftMs: number
}

export interface RateLimiter {
  /** Resolves when the call may start. Rejects with the signal's reason when it aborts first. */
  acquire(ask: Ask): Promise<Slot>
  /** Calls that are running, and callers that wait. */
  readonly running: number
  readonly waiting: number
  /** What calls wait for now, where a refusal is the reason. */
  paused(): Pause | undefined
}

export interface RateLimiterOptions {
  /** The most calls at once. Default 64. */
  readonly concurrency?: number
  /** Default: only what the server's refusals show. */
  readonly requestsPerMinute?: number | undefined
  readonly tokensPerMinute?: number | undefined
  readonly clock?: RateLimiterClock
  /** Told once of each pause that is longer than 10 s. Default: nobody is. */
  readonly onPause?: (pause: Pause) => void
}

export interface RateLimiterClock {
  /** Milliseconds that never go back. */
  now(): number
  /** Calls `run` after `ms`; what it returns calls it off. */
  after(ms: number, run: () => void): () => void
}

/** Pauses from here on are worth a word, in milliseconds. */
const longPauseMs = 10_000

const processClock: RateLimiterClock = {
  now: () => performance.now(),
  after(ms, run) {
    // Longer times would be taken for none; whoever is called early looks again.
    const timer = setTimeout(run, Math.min(ms, longestTimerMs))
    return () => clearTimeout(timer)
  },
}

interface Waiter {
  readonly ask: Ask
  readonly resolve: (slot: Slot) => void
}

/** One governor per process and model. Throws `configuration_invalid` for a limit that is not above 0. */
export function createRateLimiter(options: RateLimiterOptions = {}): RateLimiter {
  const { concurrency = 64, requestsPerMinute, tokensPerMinute, clock = processClock, onPause } = options
  for (const limit of [concurrency, requestsPerMinute, tokensPerMinute])
    if (limit !== undefined && !(limit > 0))
      throw new GraphmillError('configuration_invalid', 'Concurrency and limits per minute must be above 0.')
  const limiter = createAdaptiveLimiter(Math.max(1, Math.floor(concurrency)))
  const requests = requestsPerMinute === undefined ? undefined : createRateLimit(requestsPerMinute)
  const tokens = tokensPerMinute === undefined ? undefined : createRateLimit(tokensPerMinute)
  /** By caller; the first caller is the next to be served, and goes to the end when it was. */
  const queues = new Map<string, Set<Waiter>>()
  let running = 0
  let waiting = 0
  /** Tokens by which calls exceeded their estimates lately. */
  let excess = 0
  let stopTimer: (() => void) | undefined
  /** The last refusal, and how many pauses there were. */
  let refusal: GraphmillError | undefined
  let pauses = 0
  /** The last pause that was told. */
  let told = 0

  function acquire(ask: Ask): Promise<Slot> {
    const { promise, resolve, reject } = Promise.withResolvers<Slot>()
    const { signal } = ask
    if (signal.aborted) return Promise.reject(signal.reason)
    const key = JSON.stringify([ask.workspace, ask.flow, ask.lane])
    const leave = () => {
      const queue = queues.get(key)
      if (!queue?.delete(waiter)) return
      if (queue.size === 0) queues.delete(key)
      waiting -= 1
      reject(signal.reason)
      serve()
    }
    const waiter: Waiter = {
      ask,
      resolve: (slot) => {
        signal.removeEventListener('abort', leave)
        resolve(slot)
      },
    }
    const queue = queues.get(key) ?? new Set()
    queues.set(key, queue.add(waiter))
    waiting += 1
    signal.addEventListener('abort', leave, { once: true })
    serve()
    return promise
  }

  /** Starts as many calls as may start now, and sees to it that the next one is looked at in time. */
  function serve(): void {
    stopTimer?.()
    stopTimer = undefined
    while (limiter.hasRoom(running)) {
      const [turn] = queues
      if (!turn) return
      const [key, queue] = turn
      const [waiter] = queue
      const now = clock.now()
      const cost = (waiter!.ask.tokens ?? 0) + excess
      const delay = Math.max(limiter.delay(now), requests?.delay(1, now) ?? 0, tokens?.delay(cost, now) ?? 0)
      if (delay > 0) {
        stopTimer = clock.after(delay, serve)
        return
      }
      queue.delete(waiter!)
      queues.delete(key)
      if (queue.size > 0) queues.set(key, queue)
      waiting -= 1
      running += 1
      waiter!.resolve(start(waiter!.ask, cost, now))
    }
  }

  function start(ask: Ask, cost: number, now: number): Slot {
    requests?.spend(1, now)
    const spending = tokens?.spend(cost, now)
    const begun = limiter.started(now, running)
    let taken = false
    let held = true

    function accepted(): void {
      if (taken) return
      taken = true
      limiter.accepted(begun, clock.now())
      serve()
    }

    function release(outcome: Outcome): void {
      if (!held) return
      held = false
      running -= 1
      limiter.ended(begun)
      if (outcome.type === 'limited') {
        if (limiter.pause(clock.now()) === 0) pauses++
        refusal = outcome.error
        limiter.refused(begun, clock.now(), running, refusal.retryAfterMs)
        spending?.correct(0, clock.now())
        tellPause()
      }
      if (outcome.type === 'done') {
        settle(outcome.tokens)
        accepted()
      }
      serve()
    }

    function settle(actual: number | null): void {
      if (actual === null) return
      spending?.correct(actual, clock.now())
      excess = Math.max(0, excess + (actual - (ask.tokens ?? 0) - excess) / 10)
    }

    return { accepted, release }
  }

  function paused(): Pause | undefined {
    const leftMs = limiter.pause(clock.now())
    return refusal && leftMs > 0 ? { id: pauses, error: refusal, leftMs } : undefined
  }

  function tellPause(): void {
    const pause = paused()
    if (!pause || pause.id === told || pause.leftMs <= longPauseMs) return
    told = pause.id
    onPause?.(pause)
  }

  return {
    acquire,
    paused,
    get running() {
      return running
    },
    get waiting() {
      return waiting
    },
  }
}
