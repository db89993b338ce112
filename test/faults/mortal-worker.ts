// A replica that is started to die: its only processor makes a topics message of each chunk, but some chunks end the process.
// Parameters: the broker's URL, the space, and, on Kafka, the group.instance.id if it is to have one.
import { pino } from 'pino'
import { connect } from '../../src/broker/connect.ts'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { run } from '../../src/flow/run.ts'
import { startWatchdog } from '../../src/observe/watchdog.ts'
import { noLlm, scope, settings, worker } from '../support/flow.ts'

const [url = '', space = '', groupInstanceId] = process.argv.slice(2)
const kafka = /^kafka:\/\/(.*)$/.exec(url)?.[1]
// A member that was killed is missed soon; one with a name comes back before it is.
const membership = groupInstanceId
  ? { groupInstanceId, sessionTimeoutMs: 30_000 }
  : { sessionTimeoutMs: 2000 }
const broker = kafka
  ? await connectKafka({ brokers: kafka.split(','), ...membership })
  : await connect(url, { adminUrl: process.env['GRAPHMILL_PULSAR_ADMIN'] ?? '' })
startWatchdog({ blockedMs: 3000 })

const mortal = worker(async (text) => {
  if (text === 'abort') process.abort()
  if (text === 'memory') for (const all: string[][] = []; ; ) all.push(Array(1e6).fill('x'))
  if (text === 'block') for (;;);
  const ms = text.startsWith('slow') ? 200 + Math.random() * 1300 : 20 + Math.random() * 200
  await new Promise((resolve) => setTimeout(resolve, ms))
})
const stop = new AbortController()
const runtime = await run(
  {
    broker,
    processors: [{ ...mortal, maxInFlight: 8 }],
    flows: [{ ...scope, settings }],
    llm: noLlm,
    store: { write: async () => {}, close: async () => {} },
    log: pino({ level: 'warn' }, pino.destination({ fd: 2, sync: true })),
    space,
  },
  stop.signal,
)
console.error('running')
process.once('SIGTERM', async () => {
  await runtime.stop(20_000)
  await broker.close()
  process.exit(0)
})
