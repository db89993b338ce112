// The dead letters that a group has not settled, one after the other. Several processes may do it at once: each letter goes to one.
import type { Broker, ReadMessage } from '../broker/broker.ts'
import { pause } from '../wait.ts'
import { untilAvailable } from './runner/retry.ts'

/** Milliseconds between two looks whether other processes have settled the rest. */
const lookMs = 1000

interface LetterGroup {
  readonly broker: Broker
  readonly topic: string
  readonly group: string
}

/** The group that records which letters were replayed, or dealt with otherwise; every topic of dead letters has its own. */
export const replayGroup = (topic: string, space: string) =>
  `${space}.dead-replay.${topic.slice(space.length + 1)}`

/**
 * Settles each letter after `handle` has resolved for it. `handle` returns false for a letter that its own work has brought back: then
 * all that waited before are settled, and it ends.
 */
export async function settleLetters(
  { broker, topic, group }: LetterGroup,
  handle: (letter: ReadMessage) => Promise<boolean>,
  signal: AbortSignal,
): Promise<void> {
  const { total } = await broker.lag(group, topic)
  if (total === 0) return
  const over = new AbortController()
  const stop = AbortSignal.any([signal, over.signal])
  const watching = untilSettled({ broker, topic, group }, stop).finally(() => over.abort())
  watching.catch(() => undefined) // awaited below
  let taken = 0
  try {
    const subscription = { group, topic, maxInFlight: 1, from: 'earliest', ordering: 'none' } as const
    for await (const letter of broker.consume(subscription, stop)) {
      if (!(await handle(letter))) {
        over.abort()
        await letter.retryLater(0)
        continue
      }
      await letter.ack()
      if (++taken >= total) over.abort()
    }
  } finally {
    over.abort()
  }
  await watching
}

/** Resolves when the group has settled everything, or when `signal` aborts. */
async function untilSettled({ broker, topic, group }: LetterGroup, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await pause(lookMs, signal)
    if (signal.aborted) return
    const lag = await untilAvailable(() => broker.lag(group, topic), { signal, onFailure() {} }).catch(
      (thrown) => {
        if (!signal.aborted) throw thrown
      },
    )
    if (lag?.total === 0) return
  }
}
