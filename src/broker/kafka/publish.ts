// Publishes to Kafka: concurrent messages of a topic are joined into requests. A key always takes the same lane, and a lane has
// one request at a time, so that messages of one key are stored in the order in which they were published. Publishing is not
// idempotent: a request that failed halfway is sent again as a whole, by us and not by kafkajs (see quirks.ts).
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
const requestLimits = { maxItems: 5000, maxSize: 900 * 1024, sizeOf: ({ bytes }: WaitingMessage) => bytes }
const recordOverhead = 70
/** Requests of one topic that may be in flight at once. */
const lanesPerTopic = 2
/** A topic that we may see counts as refused for writing after so many refusals in a row. */
const mostRefusals = 3

interface WaitingMessage {
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
  queue: WaitingMessage[]
  sending: Promise<void> | undefined
}

/** A producer that lanes share. Once retired, it takes nothing new, and is abandoned when its last request was answered. */
interface ProducerConnection {
  readonly client: KafkaClient
  readonly producer: Producer
  readonly ready: Promise<void>
  users: number
  retired: boolean
}

export interface PublisherOptions {
  readonly lookup: TopicLookup
  /** Whether others create and delete the topics: then nothing is sent to a topic that the lookup does not find. */
  readonly foreign: boolean
}

export class KafkaPublisher {
  readonly #settings: KafkaSettings
  readonly #options: PublisherOptions
  readonly #lanes = new Map<string, Lane>()
  readonly #closing = new AbortController()
  #current: ProducerConnection | undefined

  constructor(settings: KafkaSettings, options: PublisherOptions) {
    this.#settings = settings
    this.#options = options
  }

  publish({ topic, key, value, headers, anySize = isDeadTopic(topic) }: OutgoingBytes): Promise<void> {
    if (this.#closing.signal.aborted) return Promise.reject(closed(topic))
    if (value.byteLength > maxMessageBytes && !anySize) {
      const text = `${topic}: a message of ${value.byteLength} bytes is over the limit of ${maxMessageBytes}`
      return Promise.reject(new GraphmillError('message_too_large', text))
    }
    return new Promise((resolve, reject) => {
      const bytes = value.byteLength + key.length + headerBytes(headers) + recordOverhead
      const buffer = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      const lane = this.#laneOf(topic, key)
      const since = performance.now()
      lane.queue.push({ message: { key, value: buffer, headers }, bytes, since, resolve, reject })
      lane.sending ??= this.#drain(lane)
    })
  }

  /** Waits until published messages are sent, for at most five seconds, and disconnects. */
  async close(): Promise<void> {
    const sent = Promise.all([...this.#lanes.values()].map((lane) => lane.sending))
    await Promise.race([sent, delay(5000, undefined, { ref: false })])
    this.#closing.abort()
    for (const { queue, topic } of this.#lanes.values())
      for (const { reject } of queue.splice(0)) reject(closed(topic))
    const last = this.#current
    if (last === undefined) return
    this.#current = undefined
    await Promise.race([last.producer.disconnect(), delay(1000, undefined, { ref: false })])
    last.client.abandon()
  }

  #laneOf(topic: string, key: string): Lane {
    const name = `${laneIndex(key)} ${topic}`
    const lane = this.#lanes.get(name) ?? { name, topic, queue: [], sending: undefined }
    this.#lanes.set(name, lane)
    return lane
  }

  async #drain(lane: Lane): Promise<void> {
    // Messages that are published in the same turn of the event loop join the first request.
    await Promise.resolve()
    while (lane.queue.length > 0) await this.#store(lane.topic, takeBatch(lane))
    lane.sending = undefined
    this.#lanes.delete(lane.name)
  }

  /** Settles every message of the batch; never rejects. */
  async #store(topic: string, batch: readonly WaitingMessage[]): Promise<void> {
    try {
      await this.#send(topic, batch)
      for (const { resolve } of batch) resolve()
    } catch (thrown) {
      const error = kafkaError(thrown, topic)
      if (batch.length > 1 && (error.code === 'message_too_large' || error.code === 'message_invalid')) {
        const half = batch.length >> 1
        await this.#store(topic, batch.slice(0, half))
        await this.#store(topic, batch.slice(half))
      } else for (const { reject } of batch) reject(error)
    }
  }

  /** Tries until the messages are stored, waiting cannot fix the error, or the time is over. */
  async #send(topic: string, batch: readonly WaitingMessage[]): Promise<void> {
    const { lookup, foreign } = this.#options
    if (foreign && !(await mayExist(lookup.exists(topic))))
      throw new GraphmillError('topic_missing', `${topic}: there is no such topic`)
    const end = batch[0]!.since + this.#settings.publishTimeoutMs
    const messages = batch.map(({ message }) => message)
    let refusals = 0
    for (let attempt = 1; ; attempt++) {
      const connection = this.#acquire()
      try {
        await connection.ready
        await connection.producer.send({ topic, messages, acks: -1, timeout: 10_000 })
        return
      } catch (thrown) {
        const error = kafkaError(thrown, topic)
        this.#settings.log.debug({ topic, attempt, err: error }, 'kafka publish failed')
        const isDoubtful = error.code === 'topic_missing' || error.code === 'topic_refused'
        if (!isDoubtful && error.code !== 'broker_unavailable') throw error
        // Another topic that is missing or refused may have failed the question about all: use a new connection.
        this.#retire(connection)
        if (isDoubtful && !(await mayExist(lookup.look(topic)))) throw error
        if (error.code === 'topic_refused' && ++refusals === mostRefusals) throw error
        if (performance.now() > end) throw isDoubtful ? unanswered(topic, error) : error
        await pause(backoffMs(attempt, { firstMs: 50, mostMs: 1000 }), this.#closing.signal)
        if (this.#closing.signal.aborted) throw error
      } finally {
        connection.users--
        if (connection.retired && connection.users === 0) connection.client.abandon()
      }
    }
  }

  #acquire(): ProducerConnection {
    this.#current ??= connect(this.#settings)
    this.#current.users++
    return this.#current
  }

  #retire(connection: ProducerConnection): void {
    connection.retired = true
    if (this.#current === connection) this.#current = undefined
  }
}

function connect(settings: KafkaSettings): ProducerConnection {
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
function takeBatch({ queue }: Lane): WaitingMessage[] {
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

/** Whether the topic exists; true also when no answer came. Rejects with `topic_refused`. */
const mayExist = (exists: Promise<boolean>) =>
  exists.catch((thrown: unknown) => {
    if (toGraphmillError(thrown).code === 'topic_refused') throw thrown
    return true
  })
