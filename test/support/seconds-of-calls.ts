// How long a number of calls of 500 ms on average take through a rate limiter, in simulated time.
import { GraphmillError } from '../../src/errors.ts'
import { backoff } from '../../src/flow/runner/retry.ts'
import { createRateLimiter } from '../../src/llm/limits/rate-limiter.ts'
import type { Limit } from './hard-limit.ts'
import { simulatedTime } from './simulated-time.ts'

const caller = { workspace: 'w', flow: 'f', lane: 'prompt' }
const refused = (retryAfterMs: number | null) =>
  new GraphmillError('llm_rate_limited', 'slowly', retryAfterMs === null ? {} : { retryAfterMs })

/** The seconds that so many calls take; what is refused waits as the runner lets it wait. */
export async function secondsOf(limit: Limit, calls: number, onRefused = () => {}): Promise<number> {
  const time = simulatedTime()
  const server = limit(time)
  const rateLimiter = createRateLimiter({ clock: time })
  const signal = new AbortController().signal
  let last = 0
  let left = calls

  async function call(): Promise<void> {
    for (let failures = 0; ; failures++) {
      const slot = await rateLimiter.acquire({ ...caller, signal })
      await time.wait(10)
      const refusal = server.arrive(0)
      if (refusal === undefined) {
        await time.wait(490 * (0.6 + 0.8 * time.random()))
        server.leave()
        slot.release({ type: 'done', tokens: null })
        last = time.now()
        return
      }
      onRefused()
      slot.release({ type: 'limited', error: refused(refusal) })
      await time.wait(Math.max(refusal ?? 0, backoff(failures, time.random)))
    }
  }

  for (let n = 0; n < 200; n++)
    void (async () => {
      while (left-- > 0) await call()
    })()
  await time.runUntil(1e9)
  return last / 1000
}
