// One life of a kafkajs consumer, from connecting to its end or crash: puts fetched messages into the window and commits
// what the window says.
import { setTimeout as delay } from 'node:timers/promises'
import type { Cluster, Consumer, ConsumerConfig, EachBatchPayload, KafkaMessage } from 'kafkajs'
import type { GraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import { defaultMaxHeldBytes, type Subscription } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import type { InFlightWindow } from '../window/in-flight-window.ts'
import { createPace, type Pace } from '../window/pace.ts'
import type { IncomingMessage } from '../window/partition-buffer.ts'
import {
  checkTopic,
  createClient,
  type KafkaClient,
  type KafkaSettings,
  kafkaError,
  patient,
} from './client.ts'
import { metadataOf } from './deaths.ts'
import { leaveFor } from './leave-group.ts'
import { readMessage } from './message.ts'
import { createPausedPartitions, type PausedPartitions } from './paused-partitions.ts'
import { Placement } from './placement.ts'
import { hookFetches, hookJoins, joinAgain, openConsumer, rejoinWhenCoordinatorIsLost } from './quirks.ts'
import { createStaticMembership, type StaticMembership } from './static-membership.ts'

const commitIntervalMs = 500
/**
 * When fetches bring few messages under load, they are this far apart. The first ones after a time with few do not wait. Waiting
 * in the broker (`minBytes`) would be paid by the first message, and this only by those that soon follow others.
 */
const underLoad = { everyMs: 25, burst: 20 }
const fewMessages = 64
/** If nothing was fetched or answered for this long, a session asks whether the topic still exists and the broker accepts us. */
const silenceMs = 2500
/** What disconnecting may take when the broker does not answer. */
const closeTimeoutMs = 3000
/** What joining may take while others hand over: kafkajs cannot leave before it has joined for the first time. */
const joinTimeoutMs = 5000
/** A topic that was just created may not be known to every broker. */
const missingAttempts = 4
const missingDelayMs = 300
/**
 * How long handlers may take to finish before their member joins a rebalance: unfinished work in a partition that
 * moves to another member is repeated there. The group waits for this member meanwhile, and gets no heartbeat from it.
 */
const longestHandOverMs = 2000
/** How long a member that cannot join tries again before a new session does: a coordinator may be loading the group. */
const joinAgainMs = 5000
const betweenJoinsMs = 200
/** How long a new member may take to join before its predecessor leaves: then both are in the same rebalance. */
const joinHeadStartMs = 200

export interface SessionOptions {
  readonly window: InFlightWindow
  readonly lookup: TopicLookup
  /** The membership of the session before, if it ever joined. */
  readonly before: Membership | undefined
}

/** Of a group: under which id, and in which generation what the window has was assigned. */
export interface Membership {
  readonly memberId: string
  readonly generation: number
}

export class KafkaSession {
  readonly #settings: KafkaSettings
  readonly #subscription: Subscription
  readonly #window: InFlightWindow
  readonly #before: Membership | undefined
  readonly #client: KafkaClient
  readonly #consumer: Consumer
  readonly #cluster: Cluster
  readonly #paused: PausedPartitions
  readonly #placement: Placement
  /** Undefined for a dynamic member. */
  readonly #static: StaticMembership | undefined
  readonly #over = Promise.withResolvers<GraphmillError>()
  readonly #closing = new AbortController()
  readonly #timers: readonly NodeJS.Timeout[]
  readonly #running: Promise<void>
  #memberId: string | undefined
  #generation: number
  /** When its first failed join was, if it has not joined since. */
  #unjoinedSince: number | undefined
  #hasCrashed = false
  /** Called when handlers have nothing. */
  #onIdle: (() => void) | undefined
  /** One attempt, under the current generation: the broker refuses it when that is over. */
  #commitOnce: EachBatchPayload['commitOffsetsIfNecessary'] | undefined
  /** While all partitions are paused, kafkajs has fetches that ask nobody. */
  #lastFetch = performance.now()
  #lastAnswer = this.#lastFetch

  constructor(settings: KafkaSettings, subscription: Subscription, options: SessionOptions) {
    this.#settings = settings
    this.#subscription = subscription
    this.#window = options.window
    this.#before = options.before
    this.#generation = options.before?.generation ?? 0
    const { window, lookup } = options
    this.#client = createClient(settings, patient, (partition) => this.#placement.again(partition))
    const { consumer, cluster } = openConsumer(
      this.#client.kafka,
      consumerConfig(settings, subscription),
      () => ({ generation: this.#generation, partitions: window.partitions, leaves: window.isDraining }),
    )
    this.#consumer = consumer
    this.#cluster = cluster
    const { groupInstanceId } = settings
    this.#static =
      groupInstanceId === undefined ? undefined : createStaticMembership(cluster, groupInstanceId)
    this.#paused = createPausedPartitions(consumer, subscription.topic)
    const [paused, closing] = [this.#paused, this.#closing.signal]
    const placement = { settings, subscription, window, lookup, consumer, cluster, paused, closing }
    this.#placement = new Placement(placement)
    this.#listen()
    this.#timers = [
      setInterval(() => void this.commit(), commitIntervalMs),
      setInterval(() => void this.#checkIfSilent(), silenceMs),
    ]
    this.#running = this.#run().catch((thrown: unknown) => this.#end(thrown))
  }

  /** Resolves with the error that ended it, unless it was closed. */
  get ended(): Promise<GraphmillError> {
    return this.#over.promise
  }

  /** Whether it ever was a member of the group. */
  get joined(): boolean {
    return this.#memberId !== undefined
  }

  /** Its membership, or that of the session before; undefined when neither ever joined. */
  get membership(): Membership | undefined {
    if (this.#memberId === undefined) return this.#before
    return { memberId: this.#memberId, generation: this.#generation }
  }

  /** The window has changed: resumes the partitions that want more. */
  update(): void {
    for (const partition of this.#paused)
      if (this.#window.wants(partition)) this.#paused.set(partition, false)
    if (this.#window.outstanding === 0) this.#onIdle?.()
  }

  /**
   * Commits what was settled and not committed yet. A failure is only logged; the next commit makes up for it.
   * Call it from a timer, not from a promise: between two generations of the group there is a gap of one promise.
   */
  async commit(): Promise<void> {
    const { topic, group } = this.#subscription
    await this.store().catch((err: unknown) =>
      this.#settings.log.debug({ group, topic, err }, 'kafka commit refused'),
    )
  }

  /** The same, but rejects when the commit is refused. */
  async store(): Promise<void> {
    const { topic } = this.#subscription
    const commits = this.#window.commits()
    if (commits.size === 0 || this.#memberId === undefined) return
    const partitions = [...commits].map(([partition, { offset, ...deaths }]) => ({
      partition,
      offset: String(offset),
      metadata: metadataOf(deaths),
    }))
    if (this.#commitOnce !== undefined) await this.#commitOnce({ topics: [{ topic, partitions }] })
    // Nothing was fetched yet in this session: messages in flight are from the one before.
    else await this.#consumer.commitOffsets(partitions.map((entry) => ({ topic, ...entry })))
    this.#window.committed(commits)
  }

  /** Leaves the group and disconnects. Resolves to false when it could not leave: then the group would wait for it. */
  async close(): Promise<boolean> {
    this.#closing.abort()
    for (const timer of this.#timers) clearInterval(timer)
    this.#client.giveUp()
    await Promise.race([this.#running, delay(joinTimeoutMs, undefined, { ref: false })])
    const disconnected = this.#consumer.disconnect().then(
      () => !this.#hasCrashed,
      () => false,
    )
    const hasLeft = await Promise.race([disconnected, delay(closeTimeoutMs, false, { ref: false })])
    this.#client.abandon()
    return hasLeft
  }

  #listen(): void {
    const consumer = this.#consumer
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      const isFirst = this.#memberId === undefined && !this.#closing.signal.aborted
      if (isFirst && this.#static?.isOutdated(this.#subscription.topic, this.#window.isDraining))
        joinAgain(consumer)
      this.#memberId = payload.memberId
      this.#unjoinedSince = undefined
      if (!this.#closing.signal.aborted)
        this.#joined(payload.memberAssignment[this.#subscription.topic] ?? [])
    })
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      this.#hasCrashed = true
      this.#end(payload.error)
    })
    consumer.on(consumer.events.FETCH, () => {
      this.#lastFetch = performance.now()
    })
    consumer.on(consumer.events.HEARTBEAT, () => this.#answered())
    rejoinWhenCoordinatorIsLost(consumer, this.#settings.sessionTimeoutMs)
    hookJoins(this.#cluster, {
      before: () => this.#handOver(),
      joined: (generation) => {
        this.#generation = generation
      },
      failed: (error) => this.#joinsAgain(error),
    })
    this.#paceFetches()
  }

  #paceFetches(): void {
    const paces = new Map<string, Pace>()
    const paceOf = (nodeId: string): Pace => {
      const pace = paces.get(nodeId) ?? createPace(underLoad)
      paces.set(nodeId, pace)
      return pace
    }
    hookFetches(this.#cluster, {
      before(nodeId) {
        const waitMs = paceOf(nodeId).delay()
        return waitMs > 0 ? delay(waitMs) : undefined
      },
      after: (nodeId, messages) => {
        if (messages > 0) this.#answered()
        if (messages > 0 && messages < fewMessages) paceOf(nodeId).started()
      },
    })
  }

  async #run(): Promise<void> {
    await this.#consumer.connect()
    await this.#subscribe()
    if (this.#closing.signal.aborted) return
    const running = this.#consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: (payload) => this.#eachBatch(payload),
    })
    // A static member has taken the place of the one before.
    if (this.#before !== undefined && !this.#static) void this.#leaveForBefore(this.#before.memberId)
    await running
  }

  async #subscribe(): Promise<void> {
    const { topic } = this.#subscription
    for (let attempt = 1; !this.#closing.signal.aborted; attempt++) {
      try {
        return await this.#consumer.subscribe({ topics: [topic], fromBeginning: true })
      } catch (thrown) {
        const error = kafkaError(thrown, topic)
        if (error.code !== 'topic_missing' || attempt === missingAttempts) throw error
        await delay(missingDelayMs)
      }
    }
  }

  async #leaveForBefore(memberId: string): Promise<void> {
    await delay(joinHeadStartMs)
    const member = { group: this.#subscription.group, memberId }
    await leaveFor(this.#client.kafka, member, { log: this.#settings.log, signal: this.#closing.signal })
  }

  #joined(partitions: readonly number[]): void {
    const { topic, group } = this.#subscription
    this.#answered()
    const kept = this.#placement.joined(partitions)
    this.#settings.log.debug({ group, topic, partitions, kept }, 'kafka group joined')
  }

  async #eachBatch(payload: EachBatchPayload): Promise<void> {
    const { batch, commitOffsetsIfNecessary, isStale, resolveOffset } = payload
    const { partition, messages } = batch
    this.#commitOnce = commitOffsetsIfNecessary
    if (isStale()) return
    const end = Number(batch.lastOffset()) + 1
    const taken = this.#window.offer(partition, incoming(this.#subscription.topic, partition, messages), end)
    // Messages that are not resolved are fetched again.
    if (taken > 0) resolveOffset(messages[taken - 1]!.offset)
    if (!this.#window.wants(partition)) this.#paused.set(partition, true)
    if (taken > 0 && !this.#window.isKnown(partition)) await this.#takeUp(partition)
  }

  /** Before any message of a partition is handed out, the broker stores that a death from now on counts for this owner. */
  async #takeUp(partition: number): Promise<void> {
    this.#window.know(partition, undefined)
    await this.commit()
    this.#window.open(partition)
  }

  /** Runs before each join: lets handlers finish their messages, for a bounded time, and commits them. */
  async #handOver(): Promise<void> {
    if (this.#memberId === undefined) return
    this.#window.pause()
    if (this.#window.outstanding > 0) await this.#idle()
    this.#window.release()
    await this.commit()
  }

  /** Partitions that were handed over come back only with a join: without one, this session is over. */
  async #joinsAgain(error: unknown): Promise<boolean> {
    // At the first join kafkajs crashes by itself.
    if (this.#memberId === undefined) return false
    const { topic, group } = this.#subscription
    this.#settings.log.debug({ group, topic, err: error }, 'kafka group could not be joined')
    this.#unjoinedSince ??= performance.now()
    const mayPass = (error as { retriable?: unknown }).retriable === true
    if (!mayPass || performance.now() - this.#unjoinedSince > joinAgainMs) {
      this.#end(error)
      return false
    }
    await pause(betweenJoinsMs, this.#closing.signal)
    return !this.#closing.signal.aborted
  }

  async #idle(): Promise<void> {
    const { promise: idle, resolve } = Promise.withResolvers<void>()
    this.#onIdle = resolve
    const waitMs = Math.min(longestHandOverMs, this.#settings.sessionTimeoutMs / 3)
    const late = delay(waitMs, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {})
    await Promise.race([idle, late])
  }

  #answered(): void {
    if (this.#closing.signal.aborted) return
    this.#lastAnswer = performance.now()
    this.#settings.availability.available()
  }

  /** kafkajs tries for ever when a topic is missing or a password is wrong. */
  async #checkIfSilent(): Promise<void> {
    if (performance.now() - Math.min(this.#lastFetch, this.#lastAnswer) <= silenceMs) return
    const { topic } = this.#subscription
    this.#lastFetch = performance.now()
    this.#lastAnswer = this.#lastFetch
    try {
      await checkTopic(this.#settings, topic)
      this.#answered()
    } catch (thrown) {
      const error = kafkaError(thrown, topic)
      if (error.code !== 'broker_unavailable' && error.code !== 'unexpected') this.#end(error)
      else if (error.code === 'broker_unavailable' && !this.#closing.signal.aborted)
        this.#settings.availability.unavailable(error)
    }
  }

  #end(cause: unknown): void {
    this.#over.resolve(kafkaError(cause, this.#subscription.topic))
  }
}

function consumerConfig(settings: KafkaSettings, subscription: Subscription): ConsumerConfig {
  const { sessionTimeoutMs, fetchWaitMs, metadataMaxAgeMs } = settings
  const maxBytes = subscription.maxBytes ?? defaultMaxHeldBytes
  const between = (low: number, value: number, high: number) => Math.min(Math.max(low, value), high)
  return {
    groupId: subscription.group,
    sessionTimeout: sessionTimeoutMs,
    heartbeatInterval: Math.min(1000, Math.floor(sessionTimeoutMs / 5)),
    rebalanceTimeout: Math.max(60_000, sessionTimeoutMs),
    maxWaitTimeInMs: fetchWaitMs,
    metadataMaxAge: metadataMaxAgeMs,
    maxBytes: between(64 * 1024, Math.floor(maxBytes / 4), 1024 * 1024),
    maxBytesPerPartition: between(64 * 1024, Math.floor(maxBytes / 8), 256 * 1024),
    allowAutoTopicCreation: false,
    retry: { ...patient, restartOnFailure: async () => false },
  }
}

function* incoming(
  topic: string,
  partition: number,
  messages: readonly KafkaMessage[],
): Generator<IncomingMessage> {
  for (const message of messages) {
    yield {
      offset: Number(message.offset),
      message: readMessage(topic, partition, message),
      keyed: message.key !== null,
    }
  }
}
