// Servers with a hard limit, in simulated time: each takes a call or refuses it, as the servers of the world count.
import type { SimulatedTime } from './simulated-time.ts'

export interface HardLimit {
  /** Undefined: taken; else the Retry-After in milliseconds, or null for none. */
  arrive(tokens: number): number | null | undefined
  leave(): void
  /** How much of the limit was used so far, as a share of what might have been, in milliseconds. */
  used(): number
}

export type Limit = (time: SimulatedTime) => HardLimit

/** What a refusal says: the seconds to wait, rounded up as servers do, or nothing. */
export type Hint = 'seconds' | 'none'

/** So many calls at once; `retryAfter` is in milliseconds. */
export const atOnce =
  (most: number, retryAfter: number | null = null): Limit =>
  (time) => {
    let running = 0
    let area = 0
    let seenAt = 0
    const see = () => {
      area += running * (time.now() - seenAt)
      seenAt = time.now()
    }
    return {
      arrive() {
        see()
        if (running >= most) return retryAfter
        running += 1
        return undefined
      },
      leave() {
        see()
        running--
      },
      used() {
        see()
        return area / most
      },
    }
  }

export interface WindowOptions {
  readonly windowMs?: number
  readonly hint?: Hint
  readonly count?: 'calls' | 'tokens'
}

/** So many calls or tokens in any window of a minute, or of `windowMs`. */
export const inWindow =
  (most: number, { windowMs = 60_000, hint = 'seconds', count = 'calls' }: WindowOptions = {}): Limit =>
  (time) => {
    const log: { readonly at: number; readonly amount: number }[] = []
    let sum = 0
    let total = 0
    return {
      arrive(tokens) {
        while (log[0] && log[0].at <= time.now() - windowMs) sum -= log.shift()!.amount
        const amount = count === 'calls' ? 1 : tokens
        if (sum + amount > most) return hintOf(hint, log[0]!.at + windowMs - time.now())
        log.push({ at: time.now(), amount })
        sum += amount
        total += amount
        return undefined
      },
      leave() {},
      used: () => (total / most) * windowMs,
    }
  }

/** So many calls in each minute of the clock. */
export const inMinute =
  (most: number, hint: Hint = 'seconds'): Limit =>
  (time) => {
    let minute = -1
    let sum = 0
    let total = 0
    return {
      arrive() {
        const current = Math.floor(time.now() / 60_000)
        if (current !== minute) sum = 0
        minute = current
        if (sum >= most) return hintOf(hint, (current + 1) * 60_000 - time.now())
        sum += 1
        total += 1
        return undefined
      },
      leave() {},
      used: () => (total / most) * 60_000,
    }
  }

/** A bucket of so many calls that is filled up evenly by `perMinute`. */
export const bucket =
  (perMinute: number, capacity: number, hint: Hint = 'seconds'): Limit =>
  (time) => {
    let level = capacity
    let filledAt = 0
    let total = 0
    return {
      arrive() {
        level = Math.min(capacity, level + ((time.now() - filledAt) * perMinute) / 60_000)
        filledAt = time.now()
        if (level < 1) return hintOf(hint, ((1 - level) / perMinute) * 60_000)
        level -= 1
        total += 1
        return undefined
      },
      leave() {},
      used: () => (total / perMinute) * 60_000,
    }
  }

/** Refuses that share of the calls whatever it is asked, and the others as `limit` does. `retryAfter` is in milliseconds. */
export const atRandom =
  (share: number, limit: Limit, retryAfter: number | null = null): Limit =>
  (time) => {
    const server = limit(time)
    return {
      ...server,
      arrive: (tokens) => (time.random() < share ? retryAfter : server.arrive(tokens)),
    }
  }

/** One limit until `at`, and then another. Both count what is used of them. */
export const changing =
  (before: Limit, after: Limit, at: number): Limit =>
  (time) => {
    const servers = [before(time), after(time)] as const
    const now = () => (time.now() < at ? servers[0] : servers[1])
    return {
      arrive: (tokens) => now().arrive(tokens),
      leave: () => now().leave(),
      used: () => servers[0].used() + servers[1].used(),
    }
  }

const hintOf = (hint: Hint, ms: number) => (hint === 'none' ? null : Math.ceil(ms / 1000) * 1000)
