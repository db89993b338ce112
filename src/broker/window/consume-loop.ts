// The loop of every consumer: yields the messages of its member, until its signal has aborted and nothing is in flight, or until
// the member has failed.
import type { GraphmillError } from '../../errors.ts'
import type { Delivery } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { createWake } from './wake.ts'

/** One member of a group, for as long as an iteration lasts. */
export interface Member {
  /** Set when the member ended with an error that waiting cannot fix. */
  readonly failure: GraphmillError | undefined
  /** Messages that handlers have. */
  readonly outstanding: number
  /** The next delivery, if one may be handed out now. */
  next(): Delivery | undefined
  /** Hands out nothing more, and drops everything that no handler has. */
  drain(): void
  /**
   * Commits what was settled, drops everything else and leaves the group. Called again, it returns the first promise.
   * Never rejects.
   */
  leave(): Promise<void>
}

export interface MemberOptions {
  readonly lookup: TopicLookup
  /** Aborts when the broker object is closed. */
  readonly closing: AbortSignal
  /** Called whenever something has changed. */
  readonly wake: () => void
}

export interface ConsumeOptions {
  /** Aborts when the consumer is to end gracefully. */
  readonly signal: AbortSignal
  /** Aborts when the broker object is closed. */
  readonly closing: AbortSignal
  /** The members of one broker object: its `close()` waits until all of them have left. */
  readonly members: Set<Member>
}

/** `join` makes the member; it calls `wake` whenever `next`, `failure` or `outstanding` may have changed. */
export async function* consumeLoop(
  join: (wake: () => void) => Member,
  { signal, closing, members }: ConsumeOptions,
): AsyncGenerator<Delivery, void, undefined> {
  if (signal.aborted || closing.aborted) return
  const wake = createWake()
  const member = join(wake.notify)
  const drain = () => member.drain()
  const close = () => {
    void member.leave()
    wake.notify()
  }
  members.add(member)
  signal.addEventListener('abort', drain, { once: true })
  closing.addEventListener('abort', close, { once: true })
  try {
    while (!closing.aborted) {
      if (member.failure !== undefined) throw member.failure
      const delivery = member.next()
      if (delivery !== undefined) yield delivery
      else if (signal.aborted && member.outstanding === 0) return
      else await wake.wait()
    }
  } finally {
    signal.removeEventListener('abort', drain)
    closing.removeEventListener('abort', close)
    await member.leave()
    members.delete(member)
  }
}
