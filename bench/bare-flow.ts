// A bare kafkajs + fetch loop that sends the messages of a recorded execution again and makes the same calls: what the
// broker and the model cost without graphmill. Nothing is decoded, checked or stored; what is sent was made before.
import kafkajs, { type IHeaders } from 'kafkajs'
import type { ReadMessage } from '../src/broker/broker.ts'
import type { Message } from '../src/messages/envelope.ts'
import { loadCatalogue } from '../src/prompt/catalogue.ts'
import { decodeTerms } from '../src/prompt/terms.ts'

/** One input of one processor. */
export interface Line {
  readonly processor: string
  readonly topic: string
}

export interface Recorded {
  readonly message: Message
  readonly entry: ReadMessage
}

export interface BareOptions {
  readonly brokers: readonly string[]
  readonly llmUrl: string
  readonly lines: readonly Line[]
  readonly recorded: readonly Recorded[]
  /** From the topic of the recorded execution to that of this one. */
  readonly topicOf: (recorded: string) => string
}

interface Outgoing {
  readonly topic: string
  readonly key: string
  readonly value: Buffer
  readonly headers: IHeaders
}

/** Messages of a topic in one request. */
const perRequest = 300
/** Calls of the model at once. */
const concurrency = 64

/** Resolves when every message of the recording was sent and read. Its topics exist. */
export async function bareFlow({ brokers, llmUrl, lines, recorded, topicOf }: BareOptions): Promise<void> {
  const outgoing = ({ entry }: Recorded): Outgoing => {
    const { topic, key, value, headers } = entry
    return { topic: topicOf(topic), key, value: Buffer.from(value), headers: { ...headers } }
  }
  const children = new Map<string, Outgoing[]>()
  const calls = new Map<string, string>()
  const prompts = await loadCatalogue()
  for (const one of recorded) {
    const { message } = one
    const cause = `${message.source} ${message.causationId}`
    children.set(cause, [...(children.get(cause) ?? []), outgoing(one)])
    if (message.type !== 'PromptRequest') continue
    const { system, user } = prompts.get(message.payload.promptId).render(decodeTerms(message.payload.terms))
    const messages = [
      { role: 'system', content: system },
      { role: 'user', content: user },
    ]
    const options = { stream: true, stream_options: { include_usage: true } }
    calls.set(message.id, JSON.stringify({ model: 'test-model', messages, ...options }))
  }

  const kafka = new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.ERROR })
  const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
  await producer.connect()
  const expected = lines.reduce(
    (sum, { topic }) => sum + recorded.filter(({ entry }) => entry.topic === topic).length,
    0,
  )
  const done = Promise.withResolvers<void>()
  let read = 0
  const limit = semaphore(concurrency)

  async function work(processor: string, id: string): Promise<readonly Outgoing[]> {
    const body = processor === 'prompt' ? calls.get(id) : undefined
    if (body)
      await limit(async () => {
        const headers = { 'content-type': 'application/json', authorization: 'Bearer none' }
        const answer = await fetch(`${llmUrl}/chat/completions`, { method: 'POST', headers, body })
        await answer.text()
      })
    return children.get(`${processor} ${id}`) ?? []
  }

  const consumers = lines.map(async ({ processor, topic }) => {
    const consumer = kafka.consumer({
      groupId: `bare.${processor}.${topic}`,
      maxWaitTimeInMs: 300,
      // What comes of a batch must fit the requests that send it on.
      maxBytesPerPartition: 128 * 1024,
    })
    consumer.on(consumer.events.CRASH, ({ payload }) => done.reject(payload.error))
    await consumer.connect()
    await consumer.subscribe({ topics: [topicOf(topic)], fromBeginning: true })
    await consumer.run({
      partitionsConsumedConcurrently: 4,
      async eachBatch({ batch, commitOffsetsIfNecessary }) {
        const worked = batch.messages.map(({ headers }) => work(processor, String(headers?.['id'])))
        const byTopic = new Map<string, Outgoing[]>()
        for (const one of (await Promise.all(worked)).flat())
          byTopic.set(one.topic, [...(byTopic.get(one.topic) ?? []), one])
        for (const topicMessages of requests(byTopic)) await producer.sendBatch({ topicMessages, acks: -1 })
        await commitOffsetsIfNecessary()
        read += batch.messages.length
        if (read >= expected) done.resolve()
      },
    })
    return consumer
  })
  const joined = await Promise.all(consumers)
  for (const first of recorded.filter(({ message }) => message.type === 'TextDocument')) {
    const { topic, ...message } = outgoing(first)
    await producer.send({ topic, messages: [message], acks: -1 })
  }
  await done.promise
  await Promise.all([producer.disconnect(), ...joined.map((consumer) => consumer.disconnect())])
}

/** In pieces that a broker takes: most messages are smaller than 2 KiB, and all of a piece may go to one partition. */
function* requests(byTopic: ReadonlyMap<string, Outgoing[]>) {
  const most = Math.max(0, ...[...byTopic.values()].map(({ length }) => length))
  for (let first = 0; first < most; first += perRequest) {
    const pieces = [...byTopic].map(([topic, all]) => ({
      topic,
      messages: all.slice(first, first + perRequest),
    }))
    yield pieces.filter(({ messages }) => messages.length > 0)
  }
}

function semaphore(free: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  return async (work) => {
    if (free > 0) free--
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else free++
    }
  }
}
