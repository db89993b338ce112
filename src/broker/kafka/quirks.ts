// The faults and gaps of kafkajs 2.2.4, and what works around them. Each entry names the fault, its cause in the sources of
// kafkajs, and the test that notices when the cause has gone: then the workaround can go, too. The dependency is pinned to this
// exact version. Patches change the loaded modules, in every client of the process; when a module is not laid out as
// expected, it stays as it is.
//
// Some workarounds are the structure of another file, and one patch is (produce-patch.ts):
// - Retries of `send` report messages as stored that were never sent. Cause: producer/sendMessages.js sends to no broker again
//   that has answered, also when a partition has moved to that broker since. And each send copies its batch once for each
//   message (groupMessagesPerPartition.js). Answer: produce.ts does without the producer, and publish.ts retries.
//   Test: test/broker/kafka/faults.test.ts, "each of three brokers dies in turn, by SIGKILL, under load: nothing is lost".
// - One missing or refused topic fails every question about all other topics. Cause: cluster/index.js keeps every topic that
//   was ever asked for in `targetTopics` and refreshes all of them at once. Answer: a client for each administrative call
//   (topics.ts) and each check (client.ts), one topic a question (lookup.ts), and a producer of their own for topics that others
//   delete (kafka.ts). Test: kafka.test.ts, "goes on publishing and consuming when another topic that it used is deleted".
// - Looking for a broker does not end with `disconnect`. Cause: the retries of cluster/brokerPool.js have no signal. Answer:
//   client.ts gives an empty list of brokers, which ends them, and destroys the sockets.
//   Test: rebalance.test.ts, "the group does not wait for a member that is stopped before it has joined for the first time".
// - A consumer that crashed does not leave its group, which then waits for it. Cause: consumer/runner.js sets `running` to false
//   at a crash, and its `stop` then returns without leaving. Answer: leave-group.ts leaves on its behalf.
//   Test: leave-group.test.ts, "a session joins soon after the one before has crashed".
// - Partitions that a member keeps are fetched again from the committed offset, and a partition that was paused when it went
//   is still paused when it comes back. Cause: consumer/consumerGroup.js makes a new OffsetManager at each join, and
//   subscriptionState.js keeps `paused`. Answer: placement.ts seeks and sets the pauses again at each join.
//   Test: kafka.test.ts, "a partition that was full when it was lost is read on when it comes back".
// - With all partitions paused, fetches ask nobody, so that a missing topic or a wrong password goes unnoticed. Cause:
//   consumer/consumerGroup.js `fetch` sends no request then. Answer: session.ts asks by itself after a silence.
//   Test: kafka.test.ts, "ends a member whose topic was deleted with topic_missing".
// - A fetched message keeps the whole response of megabytes. Cause: protocol/decoder.js hands out slices. Answer: message.ts
//   copies the value. Test: none; memory only.
// - Its murmur2 on 64-bit integers costs more than the rest of a message's way. Cause: producer/partitioners/default/murmur2.js.
//   Answer: partitioner.ts. Test: partitioner.test.ts, "a key goes where the default partitioner of kafkajs sends it".
import { createRequire } from 'node:module'
import type { Broker, BrokerMetadata, Cluster, Consumer, ConsumerConfig, Kafka } from 'kafkajs'
import { type Claim, createAssigner, noClaim } from './assigner.ts'
import { patchRequest } from './produce-patch.ts'

type KafkajsPatch = (require: NodeJS.Require) => void

/** Patches the loaded kafkajs. Call it before the first client is made. */
export function patchKafkajs(): void {
  const require = createRequire(import.meta.url)
  for (const patch of [patchTimer, patchDecoder, patchRequest, patchProduce, patchJoin, patchFetch])
    try {
      patch(require)
    } catch {
      // Bundled, or another version: kafkajs stays as it is, which costs time, and repeats work when the group rebalances.
    }
}

interface RequestQueue {
  throttledUntil: number
  throttleCheckTimeoutId: NodeJS.Timeout | null
  readonly pending: readonly unknown[]
  checkPendingRequests(): void
  scheduleCheckPendingRequests(): void
}

const betweenChecksMs = 10

/**
 * Fault: after its first answer every connection sets a timer a thousand times a second, and prints a warning.
 * Cause: network/requestQueue/index.js `scheduleCheckPendingRequests` sets it to a negative time when nothing is pending.
 * Test: quirks.test.ts, "kafkajs sets a timer when no request waits, and the patch sets none".
 */
const patchTimer: KafkajsPatch = (require) => {
  const { prototype }: { prototype: RequestQueue } = require('kafkajs/src/network/requestQueue')
  if (typeof prototype.scheduleCheckPendingRequests !== 'function') return
  prototype.scheduleCheckPendingRequests = function () {
    if (this.pending.length === 0 || this.throttleCheckTimeoutId !== null) return
    const check = () => {
      this.throttleCheckTimeoutId = null
      this.checkPendingRequests()
    }
    const delayMs = Math.max(this.throttledUntil - Date.now(), betweenChecksMs)
    this.throttleCheckTimeoutId = setTimeout(check, delayMs)
  }
}

interface RecordDecoder {
  readonly buffer: Buffer
  offset: number
  readVarInt(): number
  readVarIntArray(): unknown
}

/**
 * Fault: each header of a record that is read copies all before it: a record of 80 kB with 10,000 headers blocks the process for two
 * minutes.
 * Cause: protocol/recordBatch/record/v0/decoder.js (`reduce` with a spread). The headers are the only array of a record, and only that
 * `reduce` sees it: here it gives the last value of each. The first response loads this module, and finds the patched one.
 * Test: quirks.test.ts, "a record of 10,000 headers is read in a moment".
 */
const patchDecoder: KafkajsPatch = (require) => {
  const path = require.resolve('kafkajs/src/protocol/recordBatch/record/v0/decoder')
  const decode: (decoder: RecordDecoder, batch: object) => unknown = require(path)
  if (!String(decode).includes('decoder.readVarIntArray(HeaderDecoder).reduce(')) return
  require.cache[path]!.exports = (decoder: RecordDecoder, batch: object) => {
    decoder.readVarIntArray = () => {
      const lastValues = Object.fromEntries(headersOf(decoder))
      return { reduce: () => lastValues }
    }
    return decode(decoder, batch)
  }
}

/** At most as many as there are bytes for. A negative length stands for null. */
function* headersOf(decoder: RecordDecoder): Generator<[string, Buffer | null]> {
  for (let left = decoder.readVarInt(); left > 0 && decoder.offset < decoder.buffer.length; left--)
    yield [String(readBytes(decoder)), readBytes(decoder)]
}

function readBytes(decoder: RecordDecoder): Buffer | null {
  const length = decoder.readVarInt()
  if (length < 0) return null
  decoder.offset += length
  return decoder.buffer.subarray(decoder.offset - length, decoder.offset)
}

interface ProducedPartitions {
  readonly topics: readonly {
    readonly topicName: string
    readonly partitions: readonly { readonly partition: number; readonly errorCode: number }[]
  }[]
}

/** The error of a partition; undefined when its messages were stored. */
export type ErrorOfPartition = (topic: string, partition: number) => unknown

const errorsOfPartition = new WeakMap<object, ErrorOfPartition>()

/** What the answer with this error says of each partition; undefined when there was no answer. */
export const errorsOfPartitions = (error: unknown): ErrorOfPartition | undefined =>
  errorsOfPartition.get(error as object)

/**
 * Fault: when a produce request fails in one partition, nobody learns that it was stored in the others.
 * Cause: protocol/requests/produce/v3/response.js `parse`, which later versions use too, throws the first error and drops the
 * rest of the answer. Now the answer can be found by that error.
 * Test: quirks.test.ts, "the error of a produce request says what was stored".
 */
const patchProduce: KafkajsPatch = (require) => {
  const response: { parse(data: ProducedPartitions): Promise<unknown> } =
    require('kafkajs/src/protocol/requests/produce/v3/response')
  const { createErrorFromCode }: { createErrorFromCode(code: number): Error } =
    require('kafkajs/src/protocol/error')
  const { parse } = response
  response.parse = async (data) => {
    try {
      return await parse(data)
    } catch (thrown) {
      const codes = new Map(
        data.topics.flatMap(({ topicName, partitions }) =>
          partitions.map(({ partition, errorCode }) => [`${partition} ${topicName}`, errorCode]),
        ),
      )
      errorsOfPartition.set(thrown as Error, (topic, partition) => {
        const code = codes.get(`${partition} ${topic}`)
        if (code === undefined) return thrown
        return code === 0 ? undefined : createErrorFromCode(code)
      })
      throw thrown
    }
  }
}

interface ConsumerGroup {
  readonly cluster: Cluster
  readonly generationId: number
  joinAndSync(): Promise<void>
  fetch(nodeId: string): Promise<readonly { readonly messages: readonly unknown[] }[]>
}

/** None of them may throw or reject. */
export interface JoinHooks {
  /** Waited for before each time that the consumer joins its group. */
  before(): Promise<void>
  /** The consumer has joined, in this generation of its group. */
  joined(generation: number): void
  /** The consumer could not join. Resolves to whether it tries again. */
  failed(error: unknown): Promise<boolean>
}

const joinHooks = new WeakMap<Cluster, JoinHooks>()

/**
 * Fault: a member joins again at the moment at which it hears of a rebalance, so that others repeat what it has nearly done. And
 * when it cannot join, it goes on as before, perhaps in a new generation with the partitions of the old one.
 * Cause: consumer/runner.js and consumerGroup.js call `joinAndSync` at once, without waiting for the event REBALANCING, and the
 * retrier of runner.js takes its error for one of a fetch.
 * Test: quirks.test.ts, "a consumer waits for its hook before it joins, and the others hear how that ended";
 * rebalance.test.ts, "what handlers finish after others have asked to join is committed, and is not delivered again" and
 * "a member that is to join again when … gets messages again".
 */
const patchJoin: KafkajsPatch = (require) => {
  const { prototype }: { prototype: ConsumerGroup } = require('kafkajs/src/consumer/consumerGroup')
  const { joinAndSync } = prototype
  if (typeof joinAndSync !== 'function') return
  prototype.joinAndSync = async function () {
    const hooks = joinHooks.get(this.cluster)
    await hooks?.before()
    for (;;)
      try {
        await joinAndSync.call(this)
        return hooks?.joined(this.generationId)
      } catch (error) {
        if (!(await hooks?.failed(error))) throw error
      }
  }
}

/** Sets the hooks of the consumer of this cluster. */
export function hookJoins(cluster: Cluster, hooks: JoinHooks): void {
  joinHooks.set(cluster, hooks)
}

export interface FetchHooks {
  /** Waited for before each fetch. May not reject. */
  before(nodeId: string): Promise<void> | undefined
  /** How many messages it brought. */
  after(nodeId: string, messages: number): void
}

const fetchHooks = new WeakMap<Cluster, FetchHooks>()

/**
 * Gap: a consumer asks for more as soon as it has something; the event FETCH_START cannot make it wait. Cause: consumer/fetcher.js.
 * Test: quirks.test.ts, "a consumer waits for its hook before it fetches, and says how much came".
 */
const patchFetch: KafkajsPatch = (require) => {
  const { prototype }: { prototype: ConsumerGroup } = require('kafkajs/src/consumer/consumerGroup')
  const { fetch } = prototype
  if (typeof fetch !== 'function') return
  prototype.fetch = async function (nodeId) {
    const hooks = fetchHooks.get(this.cluster)
    await hooks?.before(nodeId)
    const batches = await fetch.call(this, nodeId)
    hooks?.after(
      nodeId,
      batches.reduce((sum, { messages }) => sum + messages.length, 0),
    )
    return batches
  }
}

/** Sets the hooks of the consumer of this cluster. */
export function hookFetches(cluster: Cluster, hooks: FetchHooks): void {
  fetchHooks.set(cluster, hooks)
}

/**
 * Fault: when the coordinator of a group is gone, heartbeats fail until the session is lost.
 * Cause: consumer/consumerGroup.js looks for the coordinator only in `[PRIVATE.JOIN]`. An error that a listener of FETCH_START
 * throws counts as one of the fetch (consumer/runner.js), and this one makes it join again, as the same member.
 * Test: test/broker/kafka/faults.test.ts, "each of three brokers dies in turn, by SIGKILL, under load: nothing is lost".
 */
export function rejoinWhenCoordinatorIsLost(consumer: Consumer, sessionTimeoutMs: number): void {
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

const outOfRange = 'Offset out of range, resetting to default offset'

/**
 * Fault: when the next offset is not in the log, a consumer commits offset -2 for its group and goes on silently.
 * Cause: consumer/consumerGroup.js `recoverFromOffsetOutOfRange` has no event, but logs before it resets. An error that the log
 * throws fails the fetch, which is tried again, before anything was reset.
 * Test: lost-records.test.ts, "while a member is behind, all that there was: reported though nothing new has come".
 */
export function throwWhenOutOfRange(
  { message, partition }: { readonly message: string; readonly partition?: unknown },
  onOutOfRange: (partition: number) => void,
): void {
  if (message !== outOfRange) return
  onOutOfRange(Number(partition))
  throw new Error(outOfRange)
}

/**
 * Gap: no function gives the cluster of a consumer. Cause: consumer/index.js keeps it, but hands it to partition assigners.
 * Test: every test on a real Kafka. The consumer is not connected yet.
 */
export function openConsumer(
  kafka: Kafka,
  config: ConsumerConfig,
  claim: () => Claim = () => noClaim,
): { consumer: Consumer; cluster: Cluster } {
  const seen: Cluster[] = []
  const consumer = kafka.consumer({
    ...config,
    partitionAssigners: [
      ({ cluster }) => {
        seen.push(cluster)
        return createAssigner(cluster, claim)
      },
    ],
  })
  return { consumer, cluster: seen[0]! }
}

/**
 * Gap: a consumer cannot be a static member of its group. Cause: broker/index.js passes no `groupInstanceId` to the requests that take
 * one. The coordinator that this cluster finds adds it to all of them; the others ignore it. `assigned` is called with each assignment
 * that the member gets, before it counts as joined.
 * Test: static-member.test.ts. Call it before the consumer connects.
 */
export function joinAsInstance(
  cluster: Cluster,
  groupInstanceId: string,
  assigned: (memberAssignment: Buffer) => void,
): void {
  const find = cluster.findGroupCoordinator.bind(cluster)
  cluster.findGroupCoordinator = async (of) => {
    const coordinator = (await find(of)) as Broker & MemberRequests
    const member: Broker & MemberRequests = Object.create(coordinator)
    member.lookupRequest = (apiKey, requests) => {
      const create = coordinator.lookupRequest(apiKey, requests)
      return (fields) => create({ ...fields, groupInstanceId })
    }
    member.syncGroup = async (request) => {
      const answer = await coordinator.syncGroup.call(member, request)
      assigned(answer.memberAssignment)
      return answer
    }
    return member
  }
}

/** The consumer joins its group again at its next fetch, as the same member. */
export function joinAgain(consumer: Consumer): void {
  const remove = consumer.on(consumer.events.FETCH_START, () => {
    remove()
    throw Object.assign(new Error('the assignment is out of date'), { type: 'REBALANCE_IN_PROGRESS' })
  })
}

/** What the types leave out of broker/index.js. */
interface MemberRequests {
  lookupRequest(apiKey: number, requests: unknown): (fields: object) => unknown
  syncGroup(request: object): Promise<{ readonly memberAssignment: Buffer }>
}

/** A cluster of its own: the only way to fetch without a group. Not connected yet. */
export function openCluster(kafka: Kafka, config: Pick<ConsumerConfig, 'metadataMaxAge'> = {}): Cluster {
  const consumer = { ...config, groupId: 'graphmill-reader', allowAutoTopicCreation: false }
  return openConsumer(kafka, consumer).cluster
}

/** Gap: the types leave out what broker/index.js and cluster/index.js have. Test: every test on a real Kafka. */
export type Coordinator = Broker & {
  offsetFetch(request: {
    readonly groupId: string
    readonly topics: readonly { topic: string; partitions: readonly { partition: number }[] }[]
  }): Promise<{
    readonly responses: readonly {
      readonly partitions: readonly { partition: number; offset: string; metadata: string | null }[]
    }[]
  }>
  leaveGroup(member: { readonly groupId: string; readonly memberId: string }): Promise<unknown>
}

export async function findCoordinator(cluster: Cluster, groupId: string): Promise<Coordinator> {
  return (await cluster.findGroupCoordinator({ groupId })) as Coordinator
}

/** Asks any broker about one topic; null when none answered. */
export function fetchMetadata(cluster: Cluster, topic: string): Promise<BrokerMetadata | null> {
  const source = cluster as unknown as {
    metadata(of: { readonly topics: readonly string[] }): Promise<BrokerMetadata | null>
  }
  return source.metadata({ topics: [topic] })
}
