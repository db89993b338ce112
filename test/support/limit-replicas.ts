// Replicas that share the limits of a model, in simulated time: their leases go through one ordered topic with delays, and a model
// server counts their calls. Their clocks have nothing in common.
import { createRateLimiter } from '../../src/llm/limits/rate-limiter.ts'
import { createSharedLimits, type SharedLimitsOptions } from '../../src/llm/limits/shared-limits.ts'
import type { LimitLease } from '../../src/messages/generated.ts'
import type { SimulatedTime } from './simulated-time.ts'

export interface ReplicaOptions extends Omit<SharedLimitsOptions, 'replica' | 'model'> {
  /** Calls that are always wanted at once. */
  readonly callers: number
  /** The longest call, in milliseconds. */
  readonly longest: number
  /** The estimated tokens of a call; it takes up to 20% more or less. */
  readonly tokens?: number
  /** This replica's clocks are ahead by so many milliseconds. */
  readonly skew?: number
}

export interface CountedCall {
  readonly at: number
  readonly replica: string
  /** Calls that run at the server, this one included. */
  readonly running: number
  readonly tokens: number
}

const never = new AbortController().signal
const model = 'openai http://model m'

export function limitReplicas(time: SimulatedTime, slowest = 300) {
  const topic: LimitLease[] = []
  const readers = new Map<string, (lease: LimitLease) => void>()
  const calls: CountedCall[] = []
  const published: { readonly at: number; readonly replica: string }[] = []
  let running = 0
  let appended = 0

  function append(lease: LimitLease): void {
    published.push({ at: time.now(), replica: lease.replica })
    appended = Math.max(appended, time.now() + slowest * time.random())
    time.after(appended - time.now(), () => {
      topic.push(lease)
      for (const read of readers.values()) read(lease)
    })
  }

  function join(replica: string, options: ReplicaOptions) {
    const { callers, longest, tokens = 0, skew = 0, ...limits } = options
    const clock = { now: () => time.now() + skew, after: time.after }
    const { random } = time
    const holder = createSharedLimits({
      ...limits,
      ...{ replica, model, random, now: clock.now, time: options.time ?? clock.now },
    })
    const { requestsPerMinute, tokensPerMinute } = limits
    const limiter = createRateLimiter({ requestsPerMinute, tokensPerMinute, shared: holder.limits, clock })
    let lives = true
    let wants = true
    let readUntil = 0
    const inFlight = new Set<() => void>()
    const tick = () => {
      const lease = lives ? holder.next() : undefined
      if (lease) append({ signature: '', ...lease } as LimitLease)
    }
    const read = (lease: LimitLease) => {
      readUntil = Math.max(readUntil, time.now() + slowest * random())
      time.after(readUntil - time.now(), () => lives && holder.heard(lease))
    }
    holder.onNeeded = tick
    for (const lease of topic) read(lease)
    readers.set(replica, read)
    const everyTick = () => {
      tick()
      if (lives) time.after(500, everyTick)
    }
    everyTick()

    async function call(): Promise<void> {
      const slot = await limiter.acquire({ workspace: 'w', flow: 'f', lane: 'prompt', tokens, signal: never })
      if (!lives) return
      running++
      const used = Math.round(tokens * (0.8 + 0.4 * random()))
      calls.push({ at: time.now(), replica, running, tokens: used })
      let ended = false
      const end = () => {
        if (!ended) running--
        ended = true
      }
      inFlight.add(end)
      await time.wait(longest * (0.1 + 0.9 * random()))
      inFlight.delete(end)
      end()
      const usage = { promptTokens: used, completionTokens: 0, totalTokens: used }
      if (lives) slot.release({ type: 'done', tokens: used, usage })
    }

    async function caller(): Promise<void> {
      while (lives && wants)
        await call().catch((error) => time.wait(Math.max(1, error.retryAfterMs ?? Number.NaN) || 1000))
    }
    const done = Promise.all(Array.from({ length: callers }, caller))

    return {
      holder,
      /** SIGTERM: finishes what is in flight, and says so. */
      async leave() {
        wants = false
        await done
        append({ signature: '', ...holder.last() } as LimitLease)
        lives = false
        readers.delete(replica)
      },
      /** SIGKILL: the server ends its calls. */
      kill() {
        lives = false
        readers.delete(replica)
        for (const end of inFlight) end()
      },
      pause() {
        wants = false
      },
    }
  }

  return {
    join,
    calls,
    published,
    append,
    /** The most of a sum in any 60 seconds. */
    mostInMinute(amountOf: (call: CountedCall) => number): number {
      const minute = slidingSum(calls, amountOf)
      return Math.max(0, ...calls.map(({ at }) => minute(at - 60_000, at)))
    },
    /** The least of a sum in so many milliseconds between two times. */
    leastIn(ms: number, amountOf: (call: CountedCall) => number, from: number, to: number): number {
      const window = slidingSum(calls, amountOf)
      let least = Number.POSITIVE_INFINITY
      for (let start = from; start + ms <= to; start += 1000)
        least = Math.min(least, window(start, start + ms))
      return least
    },
  }
}

/** The sum after a time and up to another; both may only grow from one question to the next. */
function slidingSum(calls: readonly CountedCall[], amountOf: (call: CountedCall) => number) {
  let sum = 0
  let [first, next] = [0, 0]
  return (after: number, until: number) => {
    while (calls[next] && calls[next]!.at <= until) sum += amountOf(calls[next++]!)
    while (first < next && calls[first]!.at <= after) sum -= amountOf(calls[first++]!)
    return sum
  }
}
