// One life of a kafkajs consumer, from connecting to its end or crash: hands what it fetches to the window and commits
// what the window says. kafkajs has no hook for partitions that go, fetches kept ones again from the mark, and leaves a
// partition paused that was so when it went: all of this is mended at the moment when the group has joined.
import { setTimeout as delay } from 'node:timers/promises'
import type { Consumer, ConsumerConfig, EachBatchPayload, KafkaMessage } from 'kafkajs'
import { backoffMs } from '../../backoff.ts'
import type { GraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import { defaultMaxHeldBytes, type Subscription } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import type { InFlightWindow } from '../window/in-flight-window.ts'
import type { IncomingMessage } from '../window/partition-buffer.ts'
import { checkTopic, createClient, type KafkaSettings, kafkaError, openConsumer, patient } from './client.ts'
import { metadataOf } from './deaths.ts'
import { leaveFor } from './leave-group.ts'
import { type FoundPlace, findPlaces, type Gap, rangeOf } from './lost-range.ts'
import { readMessage } from './message.ts'
import { hookJoins } from './quirks.ts'

const commitIntervalMs = 500
/** Without a fetch or an answer for so long, ask whether the topic is still there and the broker lets us in. */
const silenceMs = 2500
/** What disconnecting may take when the broker does not answer. */
const closeTimeoutMs = 3000
/** What joining may take when others hand over first: kafkajs can't leave before it has joined for the first time. */
const joinTimeoutMs = 5000
/** A topic that was made a moment ago may not be known to every broker. */
const missingAttempts = 4
const missingDelayMs = 300
/**
 * How long handlers may take to finish before their member joins a rebalance: work that is unfinished in a partition that
 * moves to another member is repeated there. The group waits for this member meanwhile, and gets no heartbeat from it.
 */
const longestHandOverMs = 2000
/** For how long a member that can't join tries again, before another session does. A coordinator may be loading the group. */
const joinAgainMs = 5000
const betweenJoinsMs = 200
/** How long a member that joins has before the one that it follows leaves: then the group has it in the same rebalance. */
const joinHeadStartMs = 200

export interface KafkaSession {
  /** Resolves with what ended it, unless it was closed. */
  readonly ended: Promise<GraphmillError>
  /** Whether it ever was a member of the group. */
  readonly joined: boolean
  /** As which it was a member, or else the session before; undefined where no session was one. */
  readonly memberId: string | undefined
  /** Resumes the partitions that want more. */
  update(): void
  /**
   * Commits what was settled and not committed yet; a failure is only logged, and the next commit makes up for it.
   * Call it from a timer, not from a promise: between two generations of the group there is a gap of one promise.
   */
  commit(): Promise<void>
  /** The same, and rejects where that is refused. */
  store(): Promise<void>
  /** Leaves the group and disconnects. Resolves to false where it could not leave: the group would wait for it. */
  close(): Promise<boolean>
}

export interface SessionOptions {
  readonly window: InFlightWindow
  readonly lookup: TopicLookup
  /** As which the session before was a member. */
  readonly before: string | undefined
}

export function openSession(
  settings: KafkaSettings,
  subscription: Subscription,
  { window, lookup, before }: SessionOptions,
): KafkaSession {
  const { topic, group } = subscription
  const client = createClient(settings, patient, placeAgain)
  const { consumer, cluster } = openConsumer(client.kafka, consumerConfig(settings, subscription))
  hookJoins(cluster, { before: handOver, failed: joinsAgain })
  const over = Promise.withResolvers<GraphmillError>()
  const end = (cause: unknown) => over.resolve(kafkaError(cause, topic))
  const paused = new Set<number>()
  /** Paused until it is known whether the log still holds what comes next for the group. */
  const unplaced = new Set<number>()
  /** Counts the times that this member has joined. */
  let generation = 0
  /** Since when it can't. */
  let unjoinedSince: number | undefined
  const closing = new AbortController()
  let hasCrashed = false
  /** Called when handlers have nothing. */
  let onIdle: (() => void) | undefined
  /** One attempt, under the generation of the moment: the broker refuses it when that is over. */
  let commitOnce: EachBatchPayload['commitOffsetsIfNecessary'] | undefined
  let memberId: string | undefined
  /** With all partitions paused, kafkajs has fetches that ask nobody. */
  let lastFetch = performance.now()
  let lastAnswer = lastFetch

  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    memberId = payload.memberId
    unjoinedSince = undefined
    if (closing.signal.aborted) return
    answered()
    const partitions = payload.memberAssignment[topic] ?? []
    const kept = window.own(partitions)
    for (const [partition, next] of kept) consumer.seek({ topic, partition, offset: String(next) })
    paused.clear()
    unplaced.clear()
    generation++
    for (const partition of partitions)
      if (kept.has(partition)) setPaused(partition, !window.wants(partition))
      else unplaced.add(partition)
    for (const partition of unplaced) consumer.pause([{ topic, partitions: [partition] }])
    void placeAll()
    settings.log.debug({ group, topic, partitions, kept: kept.size }, 'kafka group joined')
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    hasCrashed = true
    end(payload.error)
  })
  consumer.on(consumer.events.FETCH, ({ payload }) => {
    lastFetch = performance.now()
    if (payload.numberOfBatches > 0) answered()
  })
  consumer.on(consumer.events.HEARTBEAT, answered)
  rejoinWhenCoordinatorIsLost(consumer, settings.sessionTimeoutMs)

  const commits = setInterval(() => void commit(), commitIntervalMs)
  const checks = setInterval(() => {
    if (performance.now() - Math.min(lastFetch, lastAnswer) > silenceMs) void check()
  }, silenceMs)
  const begun = begin().catch(end)

  /** The log no longer holds, or never held, what this member was to fetch next. */
  function placeAgain(partition: number): void {
    if (closing.signal.aborted) return
    unplaced.add(partition)
    consumer.pause([{ topic, partitions: [partition] }])
    void placeAll()
  }

  /** Lets each partition go on from where the group is, or, when that was deleted, from the first record that is left. */
  async function placeAll(): Promise<void> {
    for (let failures = 0; unplaced.size > 0 && !closing.signal.aborted; ) {
      const [partitions, joined] = [[...unplaced], generation]
      try {
        const places = await findPlaces(cluster, { topic, group, partitions })
        // Others may have committed in between.
        if (joined !== generation) continue
        for (const place of places) if (unplaced.delete(place.partition)) goOn(place)
      } catch (err) {
        failures++
        settings.log.debug({ group, topic, err }, 'the positions of the group could not be looked up')
        await pause(backoffMs(failures, { firstMs: 50, mostMs: 2000 }), closing.signal)
      }
    }
  }

  function goOn(place: FoundPlace): void {
    const { partition, committed, low, high } = place
    // Where nothing was ever deleted a group without a position has lost nothing: from now on it has one.
    if (committed !== undefined || low === 0) window.place(partition, committed, committed?.offset ?? 0)
    const position = window.position(partition)
    if (position !== undefined && position > high) {
      settings.log.warn({ group, topic, partition, position, high }, 'kafka log was cut or made again')
      consumer.seek({ topic, partition, offset: String(low) })
    } else if ((position ?? 0) < low) {
      const reported = window.skip(partition, position, low)
      consumer.seek({ topic, partition, offset: String(low) })
      void report({ partition, position, low }).then(reported, () => {})
    }
    setPaused(partition, !window.wants(partition))
  }

  async function report(gap: Gap): Promise<void> {
    const lost = await rangeOf(settings, gap, { topic, lookup, signal: closing.signal })
    settings.log.debug({ group, ...lost }, 'kafka records were deleted before the group had read them')
    await subscription.onLost?.(lost)
  }

  function answered(): void {
    if (closing.signal.aborted) return
    lastAnswer = performance.now()
    settings.availability.back()
  }

  async function begin(): Promise<void> {
    await consumer.connect()
    await subscribe()
    if (closing.signal.aborted) return
    const running = consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
    if (before !== undefined) void leaveForBefore(before)
    await running
  }

  /** Runs before each join: lets handlers finish what they have, for a bounded time, and commits it. */
  async function handOver(): Promise<void> {
    if (memberId === undefined) return
    window.pause()
    if (window.outstanding > 0) {
      const idle = new Promise<void>((resolve) => {
        onIdle = resolve
      })
      const waitMs = Math.min(longestHandOverMs, settings.sessionTimeoutMs / 3)
      const late = delay(waitMs, undefined, { ref: false, signal: closing.signal }).catch(() => {})
      await Promise.race([idle, late])
    }
    window.release()
    await commit()
  }

  /** What was handed over comes back with a join only: without one, this session is over. */
  async function joinsAgain(error: unknown): Promise<boolean> {
    // At the first join kafkajs crashes by itself.
    if (memberId === undefined) return false
    settings.log.debug({ group, topic, err: error }, 'kafka group could not be joined')
    unjoinedSince ??= performance.now()
    const mayPass = (error as { retriable?: unknown }).retriable === true
    if (!mayPass || performance.now() - unjoinedSince > joinAgainMs) {
      end(error)
      return false
    }
    await delay(betweenJoinsMs, undefined, { signal: closing.signal }).catch(() => {})
    return !closing.signal.aborted
  }

  async function leaveForBefore(memberId: string): Promise<void> {
    await delay(joinHeadStartMs)
    await leaveFor(client.kafka, { group, memberId }, { log: settings.log, signal: closing.signal })
  }

  async function subscribe(): Promise<void> {
    for (let attempt = 1; !closing.signal.aborted; attempt++) {
      try {
        return await consumer.subscribe({ topics: [topic], fromBeginning: true })
      } catch (thrown) {
        const error = kafkaError(thrown, topic)
        if (error.code !== 'topic_missing' || attempt === missingAttempts) throw error
        await delay(missingDelayMs)
      }
    }
  }

  async function eachBatch(payload: EachBatchPayload): Promise<void> {
    const { batch } = payload
    commitOnce = payload.commitOffsetsIfNecessary
    if (payload.isStale()) return
    const end = Number(batch.lastOffset()) + 1
    const taken = window.offer(batch.partition, incoming(topic, batch.partition, batch.messages), end)
    // What is not resolved is fetched again.
    if (taken > 0) payload.resolveOffset(batch.messages[taken - 1]!.offset)
    if (!window.wants(batch.partition)) setPaused(batch.partition, true)
    if (taken > 0 && !window.isKnown(batch.partition)) await takeUp(batch.partition)
  }

  /** Nothing of a partition is handed out before it is stored that a death from now on is this owner's. */
  async function takeUp(partition: number): Promise<void> {
    window.know(partition, undefined)
    await commit()
    window.open(partition)
  }

  function setPaused(partition: number, pause: boolean): void {
    const place = [{ topic, partitions: [partition] }]
    if (pause) {
      paused.add(partition)
      consumer.pause(place)
    } else {
      paused.delete(partition)
      consumer.resume(place)
    }
  }

  async function commit(): Promise<void> {
    await store().catch((err: unknown) => settings.log.debug({ group, topic, err }, 'kafka commit refused'))
  }

  async function store(): Promise<void> {
    const commits = window.commits()
    if (commits.size === 0 || memberId === undefined) return
    const partitions = [...commits].map(([partition, { offset, ...deaths }]) => ({
      partition,
      offset: String(offset),
      metadata: metadataOf(deaths),
    }))
    if (commitOnce !== undefined) await commitOnce({ topics: [{ topic, partitions }] })
    // Nothing was fetched yet in this session: in-flight messages are from the one before.
    else await consumer.commitOffsets(partitions.map((entry) => ({ topic, ...entry })))
    window.committed(commits)
  }

  /** kafkajs tries for ever what a missing topic or a wrong password makes hopeless. */
  async function check(): Promise<void> {
    lastFetch = performance.now()
    lastAnswer = lastFetch
    try {
      await checkTopic(settings, topic)
      answered()
    } catch (thrown) {
      const error = kafkaError(thrown, topic)
      if (error.code === 'broker_unavailable') away(error)
      else if (error.code !== 'unexpected') end(error)
    }
  }

  function away(error: GraphmillError): void {
    if (!closing.signal.aborted) settings.availability.away(error)
  }

  return {
    ended: over.promise,
    get joined() {
      return memberId !== undefined
    },
    get memberId() {
      return memberId ?? before
    },
    update() {
      for (const partition of paused) if (window.wants(partition)) setPaused(partition, false)
      if (window.outstanding === 0) onIdle?.()
    },
    commit,
    store,
    async close() {
      closing.abort()
      clearInterval(commits)
      clearInterval(checks)
      client.giveUp()
      await Promise.race([begun, delay(joinTimeoutMs, undefined, { ref: false })])
      const disconnected = consumer.disconnect().then(
        () => !hasCrashed,
        () => false,
      )
      const hasLeft = await Promise.race([disconnected, delay(closeTimeoutMs, false, { ref: false })])
      client.abandon()
      return hasLeft
    },
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
    maxBytes: between(64 * 1024, Math.floor(maxBytes / 4), 10 * 1024 * 1024),
    maxBytesPerPartition: between(64 * 1024, Math.floor(maxBytes / 8), 1024 * 1024),
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

/**
 * kafkajs looks for the coordinator of a group only when it joins: with the broker that was the coordinator gone, its
 * heartbeats would fail until the session is lost. What a listener of FETCH_START throws is taken for an error of the
 * fetch, and this one makes it join again, as the same member.
 */
function rejoinWhenCoordinatorIsLost(consumer: Consumer, sessionTimeoutMs: number): void {
  const patienceMs = Math.min(5000, sessionTimeoutMs / 3)
  let lastHeartbeat = performance.now()
  let overdueSince: number | undefined
  const heard = () => {
    lastHeartbeat = performance.now()
    overdueSince = undefined
  }
  consumer.on(consumer.events.HEARTBEAT, heard)
  consumer.on(consumer.events.GROUP_JOIN, heard)
  consumer.on(consumer.events.FETCH_START, () => {
    const now = performance.now()
    if (now - lastHeartbeat < patienceMs) return
    // A handler may have kept the event loop busy: count from the first fetch at which the heartbeat was missed.
    overdueSince ??= now
    if (now - overdueSince < patienceMs) return
    heard()
    throw Object.assign(new Error('no heartbeat was answered'), { type: 'NOT_COORDINATOR_FOR_GROUP' })
  })
}
