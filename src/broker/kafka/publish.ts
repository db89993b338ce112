// Publishes to Kafka. A key always takes the same lane of its topic, and a lane has one request at a time, so that messages of one
// key are stored in the order in which they were published. Lanes that have messages at about the same time share a request. When
// one of them fails, it goes on alone, over another connection. Publishing is not idempotent: what may not have been stored is sent again.
import { setTimeout as delay } from 'node:timers/promises'
import type { Cluster } from 'kafkajs'
import { backoffMs } from '../../backoff.ts'
import { batches, batchLength } from '../../batches.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import { maxMessageBytes, type OutgoingBytes } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { isDeadTopic } from '../topics.ts'
import { createPace } from '../window/pace.ts'
import { createClient, impatient, type KafkaClient, type KafkaSettings, kafkaError } from './client.ts'
import { produce, type TopicMessage } from './produce.ts'
import { openCluster } from './quirks.ts'

/** Stays under the 1 MiB that Kafka takes for a partition, with room for what a record adds; the same for a request as a whole. */
const maxRequestBytes = 900 * 1024
const laneLimits = { maxItems: 5000, maxSize: maxRequestBytes, sizeOf: ({ bytes }: WaitingMessage) => bytes }
const recordOverhead = 70
/** Requests of one topic that may be in flight at once. */
const lanesPerTopic = 2
/**
 * Under load requests leave this far apart, and messages wait for the next one. The first messages after a time with few do not
 * wait: that is more than a document causes until its first triple.
 */
const underLoad = { everyMs: 10, burst: 40 }
/** A topic that we may see counts as refused for writing after so many refusals in a row. */
const mostRefusals = 3

interface WaitingMessage extends TopicMessage {
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

/** What a lane adds to a shared request. */
interface LaneBatch {
  readonly messages: readonly WaitingMessage[]
  /** Gets those that were not stored. */
  readonly answered: (unstored: readonly WaitingMessage[]) => void
}

/** Requests that share connections, one at a time; a broker answers the requests of a connection in turn. */
interface Line {
  current: ProducerConnection | undefined
}

/** Once retired, it takes nothing new, and is abandoned when its last request was answered. */
interface ProducerConnection {
  readonly client: KafkaClient
  readonly cluster: Cluster
  /** The topics that it was asked for. */
  readonly known: Set<string>
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
  readonly #pace = createPace(underLoad)
  /** Lanes that wait for the next shared request. */
  readonly #joining = new Map<Lane, LaneBatch['answered']>()
  #isDue = false
  readonly #joined: Line = { current: undefined }
  /** What went wrong in a shared request is sent again here, and holds up no shared requests. */
  readonly #alone: Line = { current: undefined }

  constructor(settings: KafkaSettings, options: PublisherOptions) {
    this.#settings = settings
    this.#options = options
  }

  publish({ topic, key, value, headers, anySize }: OutgoingBytes): Promise<void> {
    if (this.#closing.signal.aborted) return Promise.reject(closed(topic))
    if (value.byteLength > maxMessageBytes && !(anySize ?? isDeadTopic(topic))) {
      const text = `${topic}: a message of ${value.byteLength} bytes is over the limit of ${maxMessageBytes}`
      return Promise.reject(new GraphmillError('message_too_large', text))
    }
    return new Promise((resolve, reject) => {
      const bytes = value.byteLength + key.length + headerBytes(headers) + recordOverhead
      const buffer = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      const lane = this.#laneOf(topic, key)
      const since = performance.now()
      lane.queue.push({ topic, message: { key, value: buffer, headers }, bytes, since, resolve, reject })
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
    await Promise.all([this.#joined, this.#alone].map(disconnect))
  }

  #laneOf(topic: string, key: string): Lane {
    const name = `${laneIndex(key)} ${topic}`
    const lane = this.#lanes.get(name) ?? { name, topic, queue: [], sending: undefined }
    this.#lanes.set(name, lane)
    return lane
  }

  async #drain(lane: Lane): Promise<void> {
    const { topic } = lane
    // A topic that is missing or refused would fail the others' question about theirs.
    const mayJoin =
      !this.#options.foreign || (await mayExist(this.#options.lookup.exists(topic)).catch(() => false))
    while (lane.queue.length > 0) {
      const unstored = mayJoin ? await this.#join(lane) : takeBatch(lane)
      if (unstored.length > 0) await this.#store(topic, unstored)
    }
    lane.sending = undefined
    this.#lanes.delete(lane.name)
  }

  /** Sends what the lane has with the next shared request. Resolves to the messages that were not stored. */
  #join(lane: Lane): Promise<readonly WaitingMessage[]> {
    return new Promise((answered) => {
      this.#joining.set(lane, answered)
      if (this.#isDue) return
      this.#isDue = true
      const waitMs = this.#pace.delay()
      const send = () => this.#send()
      // Messages that are published in the same turn of the event loop join the same request.
      if (waitMs > 0) setTimeout(send, waitMs)
      else setImmediate(send)
    })
  }

  /** Sends what the lanes have, as one request if its size allows. */
  #send(): void {
    this.#isDue = false
    this.#pace.started()
    const parts = [...this.#joining].map(([lane, answered]) => ({ messages: takeBatch(lane), answered }))
    this.#joining.clear()
    for (const request of batches(parts, { maxSize: maxRequestBytes, sizeOf: bytesOf }))
      void this.#request(request)
  }

  /** Never rejects. */
  async #request(parts: readonly LaneBatch[]): Promise<void> {
    const failures = await this.#attempt(
      parts.flatMap(({ messages }) => messages),
      this.#joined,
    )
    for (const { messages, answered } of parts) answered(messages.filter((message) => failures.has(message)))
  }

  /** Asks once. Resolves the messages that were stored, and returns the errors of the others; never rejects. */
  async #attempt(
    messages: readonly WaitingMessage[],
    line: Line,
  ): Promise<Map<WaitingMessage, GraphmillError>> {
    if (this.#closing.signal.aborted)
      return new Map(messages.map((message) => [message, closed(message.topic)]))
    line.current ??= connect(this.#settings)
    const connection = line.current
    connection.users++
    const failures = await connection.ready.then(
      () => produce(connection.cluster, messages, connection.known),
      (thrown: unknown) => new Map(messages.map((message) => [message, thrown])),
    )
    const errors = new Map<WaitingMessage, GraphmillError>()
    for (const message of messages) {
      if (failures.has(message)) errors.set(message, kafkaError(failures.get(message), message.topic))
      else message.resolve()
    }
    // A topic that is missing or refused may have failed the question about all, and a password may be right again: use a new
    // connection.
    if (![...errors.values()].every(isOfBatch)) {
      connection.retired = true
      if (line.current === connection) line.current = undefined
    }
    connection.users--
    if (connection.retired && connection.users === 0) connection.client.abandon()
    return errors
  }

  /** Tries until the messages are stored, waiting cannot fix the error, or the time is over. Settles all of them; never rejects. */
  async #store(topic: string, batch: readonly WaitingMessage[]): Promise<void> {
    const { lookup, foreign } = this.#options
    const end = batch[0]!.since + this.#settings.publishTimeoutMs
    let left = batch
    let refusals = 0
    try {
      for (let attempt = 1; ; attempt++) {
        if (foreign && !(await mayExist(lookup.exists(topic))))
          throw new GraphmillError('topic_missing', `${topic}: there is no such topic`)
        const errors = await this.#attempt(left, this.#alone)
        await this.#refuse(
          topic,
          left.filter((message) => isLasting(errors.get(message))),
          errors,
        )
        left = left.filter((message) => mayPass(errors.get(message)))
        if (left.length === 0) return
        const error = errors.get(left[0]!)!
        this.#settings.log.debug({ topic, attempt, err: error }, 'kafka publish failed')
        const isDoubtful = error.code !== 'broker_unavailable'
        if (isDoubtful && !(await mayExist(lookup.look(topic)))) throw error
        if (error.code === 'topic_refused' && ++refusals === mostRefusals) throw error
        if (performance.now() > end) throw isDoubtful ? unanswered(topic, error) : error
        await pause(backoffMs(attempt, { firstMs: 50, mostMs: 1000 }), this.#closing.signal)
        if (this.#closing.signal.aborted) throw error
      }
    } catch (thrown) {
      const error = kafkaError(thrown, topic)
      for (const { reject } of left) reject(error)
    }
  }

  /** Rejects the messages with their errors. A batch that is refused for one of its messages is halved to find it. */
  async #refuse(
    topic: string,
    messages: readonly WaitingMessage[],
    errors: ReadonlyMap<WaitingMessage, GraphmillError>,
  ): Promise<void> {
    const ofBatch = messages.filter((message) => isOfBatch(errors.get(message)))
    const isDivisible = ofBatch.length > 1
    for (const message of messages) {
      const error = errors.get(message)!
      if (!isDivisible || !isOfBatch(error)) message.reject(error)
    }
    if (!isDivisible) return
    const half = ofBatch.length >> 1
    await this.#store(topic, ofBatch.slice(0, half))
    await this.#store(topic, ofBatch.slice(half))
  }
}

function connect(settings: KafkaSettings): ProducerConnection {
  const client = createClient(settings, impatient)
  const cluster = openCluster(client.kafka, { metadataMaxAge: settings.metadataMaxAgeMs })
  const ready = cluster.connect()
  ready.catch(() => {})
  return { client, cluster, known: new Set(), ready, users: 0, retired: false }
}

async function disconnect(line: Line): Promise<void> {
  const { current } = line
  if (current === undefined) return
  line.current = undefined
  await Promise.race([current.cluster.disconnect(), delay(1000, undefined, { ref: false })])
  current.client.abandon()
}

/** The first messages of the lane that fit into one request; at least one. */
function takeBatch({ queue }: Lane): WaitingMessage[] {
  return queue.splice(0, batchLength(queue, laneLimits))
}

function bytesOf({ messages }: LaneBatch): number {
  let sum = 0
  for (const { bytes } of messages) sum += bytes
  return sum
}

/** Another attempt may succeed. */
const mayPass = (error: GraphmillError | undefined) =>
  error?.code === 'broker_unavailable' || error?.code === 'topic_missing' || error?.code === 'topic_refused'

const isLasting = (error: GraphmillError | undefined) => error !== undefined && !mayPass(error)

/** One message of the batch may be the cause for all of them. */
const isOfBatch = (error: GraphmillError | undefined) =>
  error?.code === 'message_too_large' || error?.code === 'message_invalid'

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
