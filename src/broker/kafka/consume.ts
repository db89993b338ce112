// Consuming from Kafka: a member of a group for as long as the iteration lasts, in one session of kafkajs after another,
// and a window that hands out what they fetch. What is in hand outlives a session.
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import { backoffMs } from '../../backoff.ts'
import type { GraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import type { Delivery, Subscription } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { createInFlightWindow, type InFlightWindow } from '../window/in-flight-window.ts'
import { createWake } from '../window/wake.ts'
import { createClient, impatient, type KafkaSettings, kafkaError } from './client.ts'
import { leaveFor } from './leave-group.ts'
import { type KafkaSession, openSession } from './session.ts'

const longestBackoffMs = 5000
/** How often the last commit is tried: a rebalance may be under way. */
const lastCommits = 10
const betweenLastCommitsMs = 200
/** What leaving may take for a session that could not. */
const leaveTimeoutMs = 3000

/** The lives of all that a broker object consumes, for its `close()`. */
export type OpenMembers = Set<() => Promise<void>>

export interface ConsumeOptions {
  readonly signal: AbortSignal
  readonly closing: AbortSignal
  readonly open: OpenMembers
  readonly lookup: TopicLookup
}

export async function* consumeKafka(
  settings: KafkaSettings,
  subscription: Subscription,
  { signal, closing, open, lookup }: ConsumeOptions,
): AsyncGenerator<Delivery, void, undefined> {
  if (signal.aborted || closing.aborted) return
  const wake = createWake()
  let member: Member | undefined
  const changed = () => {
    wake.notify()
    member?.update()
  }
  const window = createInFlightWindow(subscription, changed, () => member!.store())
  member = joinGroup(settings, subscription, { window, lookup, failed: wake.notify })
  const leave = () => member.leave(closing.aborted ? 1 : lastCommits)
  const drain = () => window.drain()
  open.add(leave)
  signal.addEventListener('abort', drain, { once: true })
  closing.addEventListener('abort', wake.notify, { once: true })
  try {
    while (!closing.aborted) {
      if (member.failure !== undefined) throw member.failure
      const delivery = window.next()
      if (delivery !== undefined) yield delivery
      else if (signal.aborted && window.outstanding === 0) return
      else await wake.wait()
    }
  } finally {
    signal.removeEventListener('abort', drain)
    closing.removeEventListener('abort', wake.notify)
    await leave()
    open.delete(leave)
  }
}

interface Member {
  /** What waiting cannot mend. */
  readonly failure: GraphmillError | undefined
  /** The window has changed. */
  update(): void
  /** Commits at once. Rejects where the broker does not take it. */
  store(): Promise<void>
  /** Commits what was settled, trying so often, lets go of all that is in hand, and leaves. Never rejects. */
  leave(commits: number): Promise<void>
}

function joinGroup(
  settings: KafkaSettings,
  subscription: Subscription,
  { window, lookup, failed }: { window: InFlightWindow; lookup: TopicLookup; failed: () => void },
): Member {
  const leaving = new AbortController()
  let session: KafkaSession | undefined
  let failure: GraphmillError | undefined
  let left: Promise<void> | undefined
  const life = live()

  async function live(): Promise<void> {
    const toLeave = new Promise<undefined>((resolve) => {
      leaving.signal.addEventListener('abort', () => resolve(undefined), { once: true })
    })
    for (let failures = 0; ; failures++) {
      session = openSession(settings, subscription, { window, lookup, before: session?.memberId })
      const error = await Promise.race([session.ended, toLeave])
      if (error === undefined) return
      if (session.joined) failures = 0
      await session.close()
      if (isHopeless(error) && !(await isThereAfterAll(error))) {
        failure = error
        return failed()
      }
      const { group, topic } = subscription
      // Once is nothing: a coordinator that has just been chosen is still loading.
      settings.log[failures === 0 ? 'debug' : 'warn'](
        { group, topic, err: error },
        'kafka consumer begins again',
      )
      await pause(backoffMs(failures, { firstMs: 200, mostMs: longestBackoffMs }), leaving.signal)
      if (leaving.signal.aborted) return
    }
  }

  /** Whether a topic that a session took for missing is found by a look of its own. */
  async function isThereAfterAll({ code }: GraphmillError): Promise<boolean> {
    return code === 'topic_missing' && (await lookup.look(subscription.topic).catch(() => true))
  }

  async function end(commits: number): Promise<void> {
    const isGone = failure?.code === 'topic_missing'
    window.release()
    for (let attempt = 0; attempt < commits && !isGone && window.commits().size > 0; attempt++) {
      await (attempt === 0 ? turn() : delay(betweenLastCommitsMs))
      await session?.commit()
    }
    leaving.abort()
    // Nobody else is given what a handler has of a topic that is gone.
    if (isGone) window.drain()
    else window.own([])
    const hasLeft = await session?.close()
    await life
    if (!hasLeft && session?.memberId !== undefined) await leaveAfterAll(session.memberId)
  }

  async function leaveAfterAll(memberId: string): Promise<void> {
    const client = createClient(settings, impatient)
    const signal = AbortSignal.timeout(leaveTimeoutMs)
    const left = leaveFor(
      client.kafka,
      { group: subscription.group, memberId },
      { log: settings.log, signal },
    )
    await Promise.race([left, delay(leaveTimeoutMs, undefined, { ref: false })])
    client.abandon()
  }

  return {
    get failure() {
      return failure
    },
    update: () => session?.update(),
    async store() {
      try {
        await session?.store()
      } catch (thrown) {
        throw kafkaError(thrown, subscription.topic)
      }
    },
    leave(commits) {
      left ??= end(commits)
      return left
    },
  }
}

function isHopeless({ code, retry }: GraphmillError): boolean {
  return code === 'topic_missing' || code === 'topic_name_invalid' || retry === 'operator'
}
