// A bare relay of kafkajs with our codec. It runs in a thread that loads nothing of our broker, so kafkajs is unpatched.
import { once } from 'node:events'
import { parentPort, Worker } from 'node:worker_threads'
import kafkajs from 'kafkajs'
import { createCodec } from '../src/messages/codec.ts'
import { loadSchemas } from '../src/messages/registry.ts'
import type { Pair } from './relay.ts'
import { relayed } from './relay-message.ts'

interface Task {
  readonly brokers: readonly string[]
  readonly pair: Pair
  readonly count: number
}

export interface BareRelay {
  /** Resolves to messages per second. */
  perform(pair: Pair, count: number): Promise<number>
  stop(): Promise<void>
}

export function startBareRelay(brokers: readonly string[]): BareRelay {
  const worker = new Worker(new URL(import.meta.url))
  return {
    async perform(pair, count) {
      worker.postMessage({ brokers, pair, count } satisfies Task)
      const [rate] = (await once(worker, 'message')) as [number]
      return rate
    },
    async stop() {
      await worker.terminate()
    },
  }
}

parentPort?.on('message', async (task: Task) => parentPort!.postMessage(await perform(task)))

/** The output of one partition's batch must fit one request. */
const fetching = { maxWaitTimeInMs: 300, maxBytesPerPartition: 512 * 1024 }

/** Each batch is decoded, encoded, sent as one request and committed. */
async function perform({ brokers, pair: { space, from, to }, count }: Task): Promise<number> {
  const codec = createCodec(loadSchemas())
  const kafka = new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING })
  const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
  const consumer = kafka.consumer({ groupId: `${space}.bare`, ...fetching })
  await Promise.all([producer.connect(), consumer.connect()])
  await consumer.subscribe({ topics: [from], fromBeginning: true })
  const done = Promise.withResolvers<void>()
  let [begun, settled] = [0, 0]
  await consumer.run({
    partitionsConsumedConcurrently: 4,
    async eachBatch({ batch, commitOffsetsIfNecessary }) {
      begun ||= performance.now()
      const messages = batch.messages.map(({ value, headers }) => {
        const texts = Object.fromEntries(
          Object.entries(headers ?? {}).map(([name, text]) => [name, String(text)]),
        )
        const { key, value: bytes, headers: own } = relayed(codec, to, value!, texts)
        return { key, value: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), headers: own }
      })
      await producer.send({ topic: to, messages, acks: -1 })
      await commitOffsetsIfNecessary()
      settled += messages.length
      if (settled >= count) done.resolve()
    },
  })
  await done.promise
  const rate = count / ((performance.now() - begun) / 1000)
  await Promise.all([producer.disconnect(), consumer.disconnect()])
  return rate
}
