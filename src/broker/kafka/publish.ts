// Publishing to Kafka: concurrent messages of a topic are joined into requests. A key always takes the same lane, and a
// lane has one request at a time, so that what is published in order with one key is stored in order. Not idempotent: a
// request that failed halfway is sent again whole.
// kafkajs must not send it again by itself: it asks no leader twice that has answered, and so, when a partition moved to
// such a leader meanwhile, it says that messages were stored which it never sent.
import { setTimeout as delay } from 'node:timers/promises'
import type { Message, Producer } from 'kafkajs'
import { backoffMs } from '../../backoff.ts'
import { batchLength } from '../../batches.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import { maxMessageBytes, type OutgoingBytes } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { isDeadTopic } from '../topics.ts'
import { createClient, impatient, type KafkaClient, type KafkaSettings, kafkaError } from './client.ts'
import { keyPartitioner } from './partitioner.ts'

/** Stays under the 1 MiB that Kafka takes for a partition, with room for what a record adds. */
const requestLimits = { maxItems: 5000, maxSize: 900 * 1024, sizeOf: ({ bytes }: Waiting) => bytes }
const recordOverhead = 70
/** Requests of one topic that may be under way at once. */
const lanesPerTopic = 2
/** A topic that may be seen, and is refused so often in a row, may not be written to. */
const mostRefusals = 3

export interface KafkaPublisher {
  publish(message: OutgoingBytes): Promise<void>
  /** Lets what was published go out, for at most five seconds, and disconnects. */
  close(): Promise<void>
}

interface Waiting {
  readonly message: Message
  readonly bytes: number
  /** When it was published, by `performance.now()`. */
  readonly since: number
  readonly resolve: () => void
  readonly reject: (error: GraphmillError) => void
}

/** Messages of one topic that wait for the request in flight. */
interface Lane {
  readonly name: string
  readonly topic: string
  queue: Waiting[]
  sending: Promise<void> | undefined
}

/** A producer that lanes share. Once retired it takes nothing new, and goes when its last request is answered. */
interface Connection {
  readonly client: KafkaClient
  readonly producer: Producer
  readonly ready: Promise<void>
  users: number
  retired: boolean
}

export interface PublisherOptions {
  readonly lookup: TopicLookup
  /** Whether the topics are made and deleted by others: then nothing is sent to one that the lookup does not find. */
  readonly foreign: boolean
}

export function createPublisher(
  settings: KafkaSettings,
  { lookup, foreign }: PublisherOptions,
): KafkaPublisher {
  const lanes = new Map<string, Lane>()
  const closing = new AbortController()
  let current: Connection | undefined

  function publish(message: OutgoingBytes): Promise<void> {
    const { topic, key, value, headers, anySize } = message
    if (closing.signal.aborted) return Promise.reject(closed(topic))
    if (value.byteLength > maxMessageBytes && !(anySize ?? isDeadTopic(topic))) {
      const text = `${topic}: a message of ${value.byteLength} bytes is over the limit of ${maxMessageBytes}`
      return Promise.reject(new GraphmillError('message_too_large', text))
    }
    return new Promise((resolve, reject) => {
      const bytes = value.byteLength + key.length + headerBytes(headers) + recordOverhead
      const buffer = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      const lane = laneOf(topic, key)
      const since = performance.now()
      lane.queue.push({ message: { key, value: buffer, headers }, bytes, since, resolve, reject })
      lane.sending ??= drain(lane)
    })
  }

  function laneOf(topic: string, key: string): Lane {
    const name = `${laneIndex(key)} ${topic}`
    const lane = lanes.get(name) ?? { name, topic, queue: [], sending: undefined }
    lanes.set(name, lane)
    return lane
  }

  async function drain(lane: Lane): Promise<void> {
    // Publishes of the same turn of the event loop join the first request.
    await Promise.resolve()
    while (lane.queue.length > 0) await store(lane.topic, takeBatch(lane))
    lane.sending = undefined
    lanes.delete(lane.name)
  }

  /** Settles every message of the batch; never rejects. */
  async function store(topic: string, batch: readonly Waiting[]): Promise<void> {
    try {
      await send(topic, batch)
      for (const { resolve } of batch) resolve()
    } catch (thrown) {
      const error = kafkaError(thrown, topic)
      if (batch.length > 1 && (error.code === 'message_too_large' || error.code === 'message_invalid')) {
        const half = batch.length >> 1
        await store(topic, batch.slice(0, half))
        await store(topic, batch.slice(half))
      } else for (const { reject } of batch) reject(error)
    }
  }

  /** Tries until the messages are stored, the fault is one that waiting cannot fix, or the time is over. */
  async function send(topic: string, batch: readonly Waiting[]): Promise<void> {
    if (foreign && !(await mayExist(lookup.exists(topic))))
      throw new GraphmillError('topic_missing', `${topic}: there is no such topic`)
    const end = batch[0]!.since + settings.publishTimeoutMs
    const messages = batch.map(({ message }) => message)
    let refusals = 0
    for (let attempt = 1; ; attempt++) {
      const connection = acquire()
      try {
        await connection.ready
        await connection.producer.send({ topic, messages, acks: -1, timeout: 10_000 })
        return
      } catch (thrown) {
        const error = kafkaError(thrown, topic)
        settings.log.debug({ topic, attempt, err: error }, 'kafka publish failed')
        const isSpoilt = error.code === 'topic_missing' || error.code === 'topic_refused'
        if (!isSpoilt && error.code !== 'broker_unavailable') throw error
        // It may be another topic that is gone, or refused, and spoils the answers about all: use a new connection.
        retire(connection)
        if (isSpoilt && !(await mayExist(lookup.look(topic)))) throw error
        if (error.code === 'topic_refused' && ++refusals === mostRefusals) throw error
        if (performance.now() > end) throw isSpoilt ? unanswered(topic, error) : error
        await pause(backoffMs(attempt, { firstMs: 50, mostMs: 1000 }), closing.signal)
        if (closing.signal.aborted) throw error
      } finally {
        release(connection)
      }
    }
  }

  function acquire(): Connection {
    current ??= connect(settings)
    current.users++
    return current
  }

  function retire(connection: Connection): void {
    connection.retired = true
    if (current === connection) current = undefined
  }

  function release(connection: Connection): void {
    connection.users--
    if (connection.retired && connection.users === 0) connection.client.abandon()
  }

  return {
    publish,
    async close() {
      const sent = Promise.all([...lanes.values()].map((lane) => lane.sending))
      await Promise.race([sent, delay(5000, undefined, { ref: false })])
      closing.abort()
      for (const lane of lanes.values())
        for (const { reject } of lane.queue.splice(0)) reject(closed(lane.topic))
      const last = current
      if (last === undefined) return
      current = undefined
      await Promise.race([last.producer.disconnect(), delay(1000, undefined, { ref: false })])
      last.client.abandon()
    },
  }
}

function connect(settings: KafkaSettings): Connection {
  const client = createClient(settings, impatient)
  const producer = client.kafka.producer({
    allowAutoTopicCreation: false,
    metadataMaxAge: settings.metadataMaxAgeMs,
    createPartitioner: keyPartitioner,
    retry: { retries: 0 },
  })
  const ready = producer.connect()
  ready.catch(() => {})
  return { client, producer, ready, users: 0, retired: false }
}

/** The first messages of the lane that fit into one request; at least one. */
function takeBatch({ queue }: Lane): Waiting[] {
  return queue.splice(0, batchLength(queue, requestLimits))
}

function laneIndex(key: string): number {
  let hash = 0
  for (let index = 0; index < key.length; index++) hash = (hash * 31 + key.charCodeAt(index)) | 0
  return Math.abs(hash) % lanesPerTopic
}

function headerBytes(headers: Readonly<Record<string, string>>): number {
  let bytes = 0
  for (const name in headers) bytes += name.length + headers[name]!.length + 4
  return bytes
}

const closed = (topic: string) => new GraphmillError('broker_unavailable', `${topic}: the broker was closed`)

const unanswered = (topic: string, cause: GraphmillError) =>
  new GraphmillError('broker_unavailable', `${topic}: kafkajs does not find the topic, which exists`, {
    cause,
  })

/** Whether the topic exists; true also when nobody can say. Rejects with `topic_refused`. */
const mayExist = (exists: Promise<boolean>) =>
  exists.catch((thrown: unknown) => {
    if (toGraphmillError(thrown).code === 'topic_refused') throw thrown
    return true
  })
