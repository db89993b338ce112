// A bare kafkajs + fetch loop that repeats the messages and calls of a recorded execution: the cost of the broker and the model without
// graphmill. Nothing is decoded, checked or stored; the messages were made before. It runs in a thread that loads no client of graphmill,
// so kafkajs is unpatched.
import { once } from 'node:events'
import { parentPort, Worker } from 'node:worker_threads'
import kafkajs, { type Message } from 'kafkajs'
import { batches } from '../src/batches.ts'
import type { Outgoing, Script } from './bare-script.ts'

/** What a broker accepts for a partition in one request: a whole batch may go to one. */
const limits = { maxItems: 300, maxSize: 800 * 1024, sizeOf: ({ value }: Message) => value!.length + 500 }
/** Calls of the model at a time. */
const concurrency = 64

export interface BareLoop {
  /** Resolves to the CPU seconds that it took to send and read every message of the script. The topics must exist. */
  perform(script: Script): Promise<number>
  stop(): Promise<void>
}

export function startBareLoop(): BareLoop {
  const worker = new Worker(new URL(import.meta.url))
  return {
    async perform(script) {
      worker.postMessage(script)
      const [seconds] = (await once(worker, 'message')) as [number]
      return seconds
    },
    async stop() {
      await worker.terminate()
    },
  }
}

parentPort?.on('message', async (script: Script) => {
  const children = new Map<string, readonly Ready[]>()
  for (const [cause, outgoing] of script.children) children.set(cause, outgoing.map(ready))
  const before = process.cpuUsage()
  await perform({ ...script, children, first: script.first.map(ready) })
  const { user, system } = process.cpuUsage(before)
  parentPort!.postMessage((user + system) / 1e6)
})

/** A message as kafkajs takes it. */
interface Ready extends Message {
  readonly topic: string
}

function ready({ topic, key, value, headers }: Outgoing): Ready {
  return { topic, key, value: Buffer.from(value), headers }
}

type ReadyScript = Omit<Script, 'children' | 'first'> & {
  readonly children: ReadonlyMap<string, readonly Ready[]>
  readonly first: readonly Ready[]
}

async function perform({
  brokers,
  llmUrl,
  lines,
  first,
  children,
  calls,
  expected,
}: ReadyScript): Promise<void> {
  const kafka = new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.ERROR })
  const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
  await producer.connect()
  const done = Promise.withResolvers<void>()
  let read = 0
  const limit = semaphore(concurrency)

  async function work(processor: string, id: string): Promise<readonly Ready[]> {
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
      // The messages that follow from a batch must fit the requests that send them.
      maxBytesPerPartition: 128 * 1024,
    })
    consumer.on(consumer.events.CRASH, ({ payload }) => done.reject(payload.error))
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      partitionsConsumedConcurrently: 4,
      async eachBatch({ batch, commitOffsetsIfNecessary }) {
        const worked = batch.messages.map(({ headers }) => work(processor, String(headers?.['id'])))
        const byTopic = new Map<string, Message[]>()
        for (const { topic, ...one } of (await Promise.all(worked)).flat())
          byTopic.set(topic, [...(byTopic.get(topic) ?? []), one])
        for (const topicMessages of requests(byTopic)) await producer.sendBatch({ topicMessages, acks: -1 })
        await commitOffsetsIfNecessary()
        read += batch.messages.length
        if (read >= expected) done.resolve()
      },
    })
    return consumer
  })
  const joined = await Promise.all(consumers)
  for (const { topic, ...message } of first) await producer.send({ topic, messages: [message], acks: -1 })
  await done.promise
  await Promise.all([producer.disconnect(), ...joined.map((consumer) => consumer.disconnect())])
}

/** Each has the next batch of every topic. */
function* requests(byTopic: ReadonlyMap<string, readonly Message[]>) {
  const pieces = [...byTopic].map(([topic, all]) => ({ topic, batches: batches(all, limits) }))
  for (;;) {
    const next = pieces.map(({ topic, batches }) => ({ topic, messages: batches.next().value ?? [] }))
    const topicMessages = next.filter(({ messages }) => messages.length > 0)
    if (topicMessages.length === 0) return
    yield topicMessages
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
