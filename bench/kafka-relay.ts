// Relays 1 KiB messages from one Kafka topic to another: the broker of graphmill against a bare kafkajs loop that sends
// on what it fetched, batch by batch. Prints messages per second of each and their ratio.
import kafkajs from 'kafkajs'
import { connectKafka } from '../src/broker/kafka.ts'
import { startKafka } from '../test/support/kafka-server.ts'

const count = Number(process.argv[2] ?? 50_000)
const rounds = 3
const partitions = 12
const value = Buffer.alloc(1024, 'x')

const server = await startKafka()
const brokers = [...server.bootstrap]
const broker = await connectKafka({ brokers })
let topics = 0

async function topicPair(): Promise<[string, string]> {
  const pair: [string, string] = [`in-${topics}`, `out-${topics++}`]
  await broker.ensureTopics(pair.map((name) => ({ name, partitions })))
  await Promise.all(
    Array.from({ length: count }, (_, index) =>
      broker.publish({ topic: pair[0], key: `k${index}`, value, headers: { id: `${index}` } }),
    ),
  )
  return pair
}

async function ours(): Promise<number> {
  const [from, to] = await topicPair()
  const stop = new AbortController()
  const subscription = {
    group: from,
    topic: from,
    maxInFlight: 1000,
    from: 'earliest',
    ordering: 'none',
  } as const
  let settled = 0
  let begun = 0
  let ended = 0
  for await (const delivery of broker.consume(subscription, stop.signal)) {
    begun ||= performance.now()
    const { key, value, headers } = delivery
    void broker.publish({ topic: to, key, value, headers }).then(async () => {
      await delivery.ack()
      if (++settled < count) return
      ended = performance.now()
      stop.abort()
    })
  }
  return count / ((ended - begun) / 1000)
}

async function bare(): Promise<number> {
  const [from, to] = await topicPair()
  const kafka = new kafkajs.Kafka({ brokers, logLevel: kafkajs.logLevel.NOTHING })
  const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
  const consumer = kafka.consumer({ groupId: `bare-${from}`, maxWaitTimeInMs: 300 })
  await Promise.all([producer.connect(), consumer.connect()])
  await consumer.subscribe({ topics: [from], fromBeginning: true })
  const done = Promise.withResolvers<void>()
  let settled = 0
  let begun = 0
  await consumer.run({
    partitionsConsumedConcurrently: 4,
    eachBatch: async ({ batch }) => {
      begun ||= performance.now()
      const messages = batch.messages.map(({ key, value, headers }) => ({
        key,
        value,
        headers: headers ?? {},
      }))
      await producer.send({ topic: to, messages, acks: -1 })
      settled += messages.length
      if (settled === count) done.resolve()
    },
  })
  await done.promise
  const rate = count / ((performance.now() - begun) / 1000)
  await Promise.all([producer.disconnect(), consumer.disconnect()])
  return rate
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!
const rates: { ours: number[]; bare: number[] } = { ours: [], bare: [] }
for (let round = 0; round < rounds; round++) {
  rates.bare.push(await bare())
  rates.ours.push(await ours())
}
const [one, other] = [median(rates.ours), median(rates.bare)]
console.log(
  JSON.stringify({ ours: Math.round(one), bare: Math.round(other), ratio: Number((one / other).toFixed(2)) }),
)
await broker.close()
await server.stop()
