// A member of a group on Kafka, in one session of kafkajs after another. Its window outlives the sessions, and with it the
// messages in flight.
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
import { backoffMs } from '../../backoff.ts'
import type { GraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import type { Delivery, Subscription } from '../broker.ts'
import type { Member, MemberOptions } from '../window/consume-loop.ts'
import { InFlightWindow } from '../window/in-flight-window.ts'
import { createClient, impatient, type KafkaSettings, kafkaError, refusesSessionTimeout } from './client.ts'
import { leaveFor } from './leave-group.ts'
import { KafkaSession } from './session.ts'

/** The default of Kafka's own clients. */
const kafkaSessionTimeoutMs = 45_000
const longestBackoffMs = 5000
/** How often the last commit is tried: a rebalance may be under way. */
const lastCommits = 10
const betweenLastCommitsMs = 200
/** What leaving may take on behalf of a session that could not leave. */
const leaveTimeoutMs = 3000

export class KafkaMember implements Member {
  #settings: KafkaSettings
  readonly #subscription: Subscription
  readonly #options: MemberOptions
  readonly #window: InFlightWindow
  /** Aborts when no session is wanted any more. */
  readonly #leaving = new AbortController()
  readonly #running: Promise<void>
  #session: KafkaSession | undefined
  #left: Promise<void> | undefined
  failure: GraphmillError | undefined

  constructor(settings: KafkaSettings, subscription: Subscription, options: MemberOptions) {
    this.#settings = settings
    this.#subscription = subscription
    this.#options = options
    this.#window = new InFlightWindow(subscription, {
      changed: () => {
        options.wake()
        this.#session?.update()
      },
      store: () => this.#store(),
    })
    this.#running = this.#run()
  }

  get outstanding(): number {
    return this.#window.outstanding
  }

  next(): Delivery | undefined {
    return this.#window.next()
  }

  drain(): void {
    this.#window.drain()
  }

  leave(): Promise<void> {
    this.#left ??= this.#end(this.#options.closing.aborted ? 1 : lastCommits)
    return this.#left
  }

  async #run(): Promise<void> {
    const { promise: toLeave, resolve } = Promise.withResolvers<undefined>()
    this.#leaving.signal.addEventListener('abort', () => resolve(undefined), { once: true })
    for (let failures = 0; ; failures++) {
      const session = this.#open()
      const error = await Promise.race([session.ended, toLeave])
      if (error === undefined) return
      if (session.joined) failures = 0
      await session.close()
      if (this.#takesLongerSessions(error)) continue
      if (isHopeless(error) && !(await this.#options.lookup.contradicts(error, this.#subscription.topic))) {
        this.failure = error
        return this.#options.wake()
      }
      await this.#backOff(error, failures)
      if (this.#leaving.signal.aborted) return
    }
  }

  /** A cluster may allow no session timeout as short as ours, but surely the default of Kafka's own clients. */
  #takesLongerSessions(err: GraphmillError): boolean {
    const { sessionTimeoutMs, log } = this.#settings
    if (sessionTimeoutMs >= kafkaSessionTimeoutMs || !refusesSessionTimeout(err)) return false
    this.#settings = { ...this.#settings, sessionTimeoutMs: kafkaSessionTimeoutMs }
    const text = 'the cluster allows no session timeout this short: after a crash, others take over later'
    log.warn({ err, refusedMs: sessionTimeoutMs, sessionTimeoutMs: kafkaSessionTimeoutMs }, text)
    return true
  }

  #open(): KafkaSession {
    const { lookup } = this.#options
    const before = this.#session?.membership
    this.#session = new KafkaSession(this.#settings, this.#subscription, {
      window: this.#window,
      lookup,
      before,
    })
    return this.#session
  }

  async #backOff(err: GraphmillError, failures: number): Promise<void> {
    const { group, topic } = this.#subscription
    // The first failure is normal: a coordinator that was just elected is still loading.
    const level = failures === 0 ? 'debug' : 'warn'
    this.#settings.log[level]({ group, topic, err }, 'kafka consumer begins again')
    await pause(backoffMs(failures, { firstMs: 200, mostMs: longestBackoffMs }), this.#leaving.signal)
  }

  async #store(): Promise<void> {
    try {
      await this.#session?.store()
    } catch (thrown) {
      throw kafkaError(thrown, this.#subscription.topic)
    }
  }

  /** Tries to commit at most `commits` times. */
  async #end(commits: number): Promise<void> {
    const isGone = this.failure?.code === 'topic_missing'
    this.#window.release()
    for (let attempt = 0; attempt < commits && !isGone && this.#window.commits().size > 0; attempt++) {
      await (attempt === 0 ? turn() : delay(betweenLastCommitsMs))
      await this.#session?.commit()
    }
    this.#leaving.abort()
    // When the topic is gone, messages that handlers have are not reassigned.
    if (isGone) this.#window.drain()
    else this.#window.own([])
    const hasLeft = await this.#session?.close()
    await this.#running
    const membership = this.#session?.membership
    if (!hasLeft && membership !== undefined) await this.#leaveAfterAll(membership.memberId)
  }

  async #leaveAfterAll(memberId: string): Promise<void> {
    const client = createClient(this.#settings, impatient)
    const signal = AbortSignal.timeout(leaveTimeoutMs)
    const member = { group: this.#subscription.group, memberId }
    const left = leaveFor(client.kafka, member, { log: this.#settings.log, signal })
    await Promise.race([left, delay(leaveTimeoutMs, undefined, { ref: false })])
    client.abandon()
  }
}

function isHopeless({ code, retry }: GraphmillError): boolean {
  return code === 'topic_missing' || code === 'topic_name_invalid' || retry === 'operator'
}
