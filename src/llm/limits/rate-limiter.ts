// Says when the next call of a model may start. Flows and lanes take turns, so that a flow with ten requests never waits behind
// one with ten thousand. It keeps the configured limits, this replica's part of shared ones, and those learned from the server's
// refusals.
import { GraphmillError } from '../../errors.ts'
import { longestTimerMs } from '../../wait.ts'
import type { Usage } from '../llm.ts'
import { createAdaptiveLimiter } from './adaptive-limiter.ts'
import type { SharedLimits } from './shared-limits.ts'
import { createTokenBucket } from './token-bucket.ts'

/** Who makes a call. Callers take turns. */
export interface Caller {
  readonly workspace: string
  readonly flow: string
  /** `prompt`, `prompt-live`, … */
  readonly lane: string
}

export interface SlotRequest extends Caller {
  /** The tokens of the call, by `estimateTokens`. Default 0. */
  readonly tokens?: number
  readonly signal: AbortSignal
}

/** How a call ended: with the reported tokens (null for unknown), refused for its rate, or failed otherwise. */
export type CallOutcome =
  | { readonly type: 'done'; readonly tokens: number | null; readonly usage?: Usage }
  | { readonly type: 'limited'; readonly error: GraphmillError }
  | { readonly type: 'failed' }

export interface Slot {
  /** The server accepted the call: its reply has begun. */
  accepted(): void
  /** The model has ended: the next call may have the slot. Does nothing the second time. */
  release(outcome: CallOutcome): void
}

/** A time without calls after a refusal. */
export interface Pause {
  /** Differs from pause to pause. */
  readonly id: number
  /** The last refusal. */
  readonly error: GraphmillError
  /** Milliseconds until the next call may start. */
  readonly leftMs: number
}

/** Says when the next call of a model may start. */
export interface RateLimiter {
  /** Resolves when the call may start. Rejects with the signal's reason when it aborts first, and with `budget_exhausted`. */
  acquire(wanted: SlotRequest): Promise<Slot>
  /** Calls that are running, and those that wait. */
  readonly running: number
  readonly waiting: number
  /** The pause that calls wait for now, if any. */
  paused(): Pause | undefined
}

/** The limits of the calls of a model. */
export interface RateLimiterOptions {
  /** The most calls at once. Default 64. */
  readonly concurrency?: number
  /** Default: none but what the server's refusals show. */
  readonly requestsPerMinute?: number | undefined
  readonly tokensPerMinute?: number | undefined
  /** The limits per minute are shared with other replicas, and what else this limits. */
  readonly shared?: SharedLimits | undefined
  readonly clock?: RateLimiterClock
  /** Called once for each pause of more than 10 s. */
  readonly onPause?: (pause: Pause) => void
}

export interface RateLimiterClock {
  /** Milliseconds that never go back. */
  now(): number
  /** Calls `run` after `ms` milliseconds, unless the returned function is called before. */
  after(ms: number, run: () => void): () => void
}

/** Longer pauses are reported, in milliseconds. */
const longPauseMs = 10_000

const processClock: RateLimiterClock = {
  now: () => performance.now(),
  after(ms, run) {
    // A longer time would end at once. After an early end the limiter sets another timer.
    const timer = setTimeout(run, Math.min(ms, longestTimerMs))
    return () => clearTimeout(timer)
  },
}

interface Waiter {
  readonly wanted: SlotRequest
  readonly resolve: (slot: Slot) => void
  readonly reject: (reason: unknown) => void
}

/** There is one limiter per process and model. Throws `configuration_invalid` for a limit that is not above 0. */
export function createRateLimiter(options: RateLimiterOptions = {}): RateLimiter {
  const { concurrency = 64, requestsPerMinute, tokensPerMinute, clock = processClock, onPause } = options
  const { shared } = options
  for (const limit of [concurrency, requestsPerMinute, tokensPerMinute])
    if (limit !== undefined && !(limit > 0))
      throw new GraphmillError('configuration_invalid', 'Concurrency and limits per minute must be above 0.')
  const limiter = createAdaptiveLimiter(Math.max(1, Math.floor(concurrency)))
  const bucketOf = (perMinute: number | undefined) =>
    perMinute === undefined ? undefined : createTokenBucket(shared ? 0 : perMinute)
  const requests = bucketOf(requestsPerMinute)
  const tokens = bucketOf(tokensPerMinute)
  /** By caller. The first one is served next, and then goes to the end. */
  const queues = new Map<string, Set<Waiter>>()
  let running = 0
  let waiting = 0
  let waitsSince = 0
  /** The moving average of tokens by which calls exceed their estimates. */
  let excess = 0
  let stopTimer: (() => void) | undefined
  /** The last refusal, and the number of pauses so far. */
  let refusal: GraphmillError | undefined
  let pauses = 0
  /** The last pause that was reported. */
  let reported = 0

  function acquire(wanted: SlotRequest): Promise<Slot> {
    const { promise, resolve, reject } = Promise.withResolvers<Slot>()
    const { signal } = wanted
    if (signal.aborted) return Promise.reject(signal.reason)
    const key = JSON.stringify([wanted.workspace, wanted.flow, wanted.lane])
    const leave = () => {
      const queue = queues.get(key)
      if (!queue?.delete(waiter)) return
      if (queue.size === 0) queues.delete(key)
      waiting -= 1
      reject(signal.reason)
      serve()
    }
    const settle =
      <T>(act: (value: T) => void) =>
      (value: T) => {
        signal.removeEventListener('abort', leave)
        act(value)
      }
    const waiter: Waiter = { wanted, resolve: settle(resolve), reject: settle(reject) }
    const queue = queues.get(key) ?? new Set()
    queues.set(key, queue.add(waiter))
    if (waiting++ === 0) waitsSince = clock.now()
    signal.addEventListener('abort', leave, { once: true })
    serve()
    return promise
  }

  /** Starts the calls that may start now, and sets a timer for the next one. */
  function serve(): void {
    stopTimer?.()
    stopTimer = undefined
    while (limiter.hasRoom(running)) {
      const [turn] = queues
      if (!turn) return
      const [key, queue] = turn
      const [waiter] = queue
      const now = clock.now()
      if (!sharesAllow(now)) return
      const cost = (waiter!.wanted.tokens ?? 0) + excess
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
      waiter!.resolve(start(waiter!.wanted, cost, now))
    }
  }

  /** Whether the part of this replica allows a call now. Otherwise the calls wait for a larger one, or fail. */
  function sharesAllow(now: number): boolean {
    if (!shared) return true
    const share = shared.share()
    if (requestsPerMinute) requests?.setLimit(share * requestsPerMinute, now)
    if (tokensPerMinute) tokens?.setLimit(share * tokensPerMinute, now)
    const exhausted = shared.exhausted()
    if (exhausted) {
      const waiters = [...queues.values()].flatMap((queue) => [...queue])
      queues.clear()
      waiting = 0
      for (const { reject } of waiters) reject(exhausted)
      return false
    }
    if (share > 0 && running < shared.room() && shared.admits()) return true
    shared.needed()
    return false
  }

  function start(wanted: SlotRequest, cost: number, now: number): Slot {
    requests?.spend(1, now)
    const withdrawal = tokens?.spend(cost, now)
    const begun = limiter.started(now, running)
    const spent = shared?.begin(cost)
    let taken = false
    let held = true

    function accepted(): void {
      if (taken) return
      taken = true
      limiter.accepted(begun, clock.now())
      serve()
    }

    function release(outcome: CallOutcome): void {
      if (!held) return
      held = false
      running -= 1
      limiter.ended(begun)
      spent?.(outcome.type === 'done' ? { accepted: true, usage: outcome.usage } : { accepted: taken })
      if (outcome.type === 'limited') {
        if (limiter.pause(clock.now()) === 0) pauses++
        refusal = outcome.error
        limiter.refused(begun, clock.now(), running, refusal.retryAfterMs)
        withdrawal?.correct(0, clock.now())
        reportPause()
      }
      if (outcome.type === 'done') {
        settle(outcome.tokens)
        accepted()
      }
      serve()
    }

    function settle(actual: number | null): void {
      if (actual === null) return
      withdrawal?.correct(actual, clock.now())
      excess = Math.max(0, excess + (actual - (wanted.tokens ?? 0) - excess) / 10)
    }

    return { accepted, release }
  }

  function paused(): Pause | undefined {
    const leftMs = limiter.pause(clock.now())
    return refusal && leftMs > 0 ? { id: pauses, error: refusal, leftMs } : undefined
  }

  function reportPause(): void {
    const pause = paused()
    if (!pause || pause.id === reported || pause.leftMs <= longPauseMs) return
    reported = pause.id
    onPause?.(pause)
  }

  shared?.attach({
    get running() {
      return running
    },
    get waiting() {
      return waiting
    },
    get waitsSince() {
      return waiting > 0 ? waitsSince : Number.POSITIVE_INFINITY
    },
    get nextTokens() {
      const tokensOf = ([waiter]: Set<Waiter>) => waiter?.wanted.tokens ?? 0
      return Math.max(0, ...[...queues.values()].map(tokensOf)) + excess
    },
    serve,
  })
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
