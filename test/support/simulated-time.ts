// Time that passes only when nothing is left to do: hours of waiting in milliseconds, the same way every time.
import type { RateLimiterClock } from '../../src/llm/limits/rate-limiter.ts'

export interface SimulatedTime extends RateLimiterClock {
  wait(ms: number): Promise<void>
  /** Lets time pass until `ms`, or until nothing is planned any more. */
  runUntil(ms: number): Promise<void>
  /** A number in [0, 1), the next of a fixed sequence. */
  random(): number
}

export function simulatedTime(): SimulatedTime {
  let now = 0
  let seed = 7
  const planned: { at: number; run: () => void }[] = []

  function after(ms: number, run: () => void): () => void {
    const entry = { at: now + Math.max(0, ms), run }
    const place = planned.findLastIndex(({ at }) => at <= entry.at)
    planned.splice(place + 1, 0, entry)
    return () => {
      const index = planned.indexOf(entry)
      if (index >= 0) planned.splice(index, 1)
    }
  }

  /** Lets everything go on that waits for nothing but a promise that is settled. */
  async function settle(): Promise<void> {
    for (let turn = 0; turn < 20; turn++) await undefined
  }

  return {
    now: () => now,
    after,
    wait: (ms) => new Promise((resolve) => void after(ms, resolve)),
    async runUntil(ms) {
      for (;;) {
        await settle()
        const next = planned[0]
        if (!next || next.at > ms) return
        planned.shift()
        now = next.at
        next.run()
      }
    },
    random() {
      seed = (seed * 1103515245 + 12345) % 2147483648
      return seed / 2147483648
    },
  }
}
