// Benches on one real Kafka: concurrent calls of a slow model, the flow with a model that answers at once compared with a bare loop of
// kafkajs and fetch, the relay, and the memory of `load`.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Broker, ReadMessage } from '../src/broker/broker.ts'
import { connectKafka } from '../src/broker/kafka/kafka.ts'
import { topicSpec } from '../src/broker/topics.ts'
import { createCodec } from '../src/messages/codec.ts'
import { loadSchemas } from '../src/messages/registry.ts'
import { type Execution, inputLines, openExecution, type Site } from '../test/faults/execution.ts'
import { startKafka } from '../test/support/kafka-server.ts'
import { measureLoad } from '../test/support/load-memory.ts'
import { startBareLoop } from './bare-flow.ts'
import { startBareRelay } from './bare-relay.ts'
import { type Recorded, scriptOf } from './bare-script.ts'
import { type LlmProcess, startLlmProcess } from './llm-process.ts'
import { cpuOf, peakOf } from './process-usage.ts'
import { program } from './program.ts'
import { relayBench } from './relay.ts'
import { median, type Row, rounds } from './row.ts'

const codec = createCodec(loadSchemas())

export interface Machines {
  readonly site: Site
  readonly bootstrap: readonly string[]
  readonly llm: LlmProcess
}

/** A real Kafka and a model server for as long as `bench` runs. */
export async function withMachines(bench: (machines: Machines) => Promise<Row[]>): Promise<Row[]> {
  const [server, llm] = await Promise.all([startKafka(), startLlmProcess()])
  const { bootstrap } = server
  const connect = () => connectKafka({ brokers: bootstrap })
  const site = { brokerUrl: `kafka://${bootstrap.join()}`, connect }
  try {
    return await bench({ site, bootstrap, llm })
  } finally {
    await llm.stop()
    await server.stop()
  }
}

/** What TrustGraph was measured with. */
export const extractors = ['extract-definitions', 'extract-relationships']
export const withExtractors = ['--extractors', extractors.join()]

export const slowModelBench = () => withMachines(slowModel)
export const instantModelBench = () => withMachines(instantModel)
export const trickleBench = () =>
  withMachines(async (machines) => (await import('./trickle.ts')).trickle(machines))
export const kafkaRelayBench = () => withMachines(relay)

export const kafkaLoadBench = () => withMachines(({ site }) => load(site))

async function relay({ site: { connect }, bootstrap }: Machines): Promise<Row[]> {
  const bare = startBareRelay(bootstrap)
  try {
    return await relayBench({ name: 'kafka', connect, count: 50_000, bare: bare.perform })
  } finally {
    await bare.stop()
  }
}

/** The command `load`, from a file to topics. */
async function load({ brokerUrl }: Site): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-load-'))
  const measure = (megabytes: number) =>
    measureLoad(megabytes, { folder, place: ['--broker', brokerUrl, '--space', `load-${megabytes}`] })
  try {
    const [short, long] = [await measure(20), await measure(100)]
    const note = '100 MB against 20 MB'
    return [
      { name: 'kafka: load', value: 80 / (long.seconds - short.seconds), unit: 'MB/s', note },
      { name: 'kafka: memory of load of 100 MB', value: long.peak / 1e6, unit: 'MB' },
      {
        name: 'kafka: memory of load, what 80 MB more of text add to it',
        value: (long.peak - short.peak) / 1e6,
        unit: 'MB',
        bound: '<= 30',
        note,
      },
    ]
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** 64 concurrent calls of 500 ms each are 128 calls a second at best. */
async function slowModel({ site, llm }: Machines): Promise<Row[]> {
  const [warmUp, calls, ideal] = [1200, 1000, 128]
  await llm.set({ latencyMs: 500 })
  const execution = await openExecution(site, { space: 'slow', llmUrl: llm.url })
  await execution.startProcess(['--all'], [], program)
  await execution.load(800)
  const begun = await timeOf(llm, warmUp)
  const rate = calls / ((await timeOf(llm, warmUp + calls)) - begun)
  await execution.close()
  await llm.set({ latencyMs: 0 })
  const note = `${calls} calls after ${warmUp}, 64 at once`
  return [
    { name: 'kafka: calls of a model of 500 ms', value: rate, unit: 'calls/s', note },
    {
      name: 'kafka: calls of a model of 500 ms, share of the ideal',
      value: rate / ideal,
      unit: '',
      bound: '>= 0.95',
    },
  ]
}

/** The time in seconds at which so many calls were completed, interpolated between two samples. */
export async function timeOf(llm: LlmProcess, completed: number): Promise<number> {
  let before = { at: 0, count: 0 }
  for (;;) {
    const count = (await llm.counts()).completed
    const at = performance.now() / 1000
    if (count >= completed) {
      const share = before.at === 0 ? 1 : (completed - before.count) / (count - before.count)
      return before.at === 0 ? at : before.at + share * (at - before.at)
    }
    before = { at, count }
    await delay(20)
  }
}

/** Rounds of the flow and of the bare loop in turn, after one warm-up round of each. */
async function instantModel({ site, llm, bootstrap: brokers }: Machines): Promise<Row[]> {
  const least = 1000
  const execution = await openExecution(site, { space: 'instant', llmUrl: llm.url })
  const { pid } = await execution.startProcess(['--all'], withExtractors, program)
  const bare = startBareLoop()
  const seen = { ours: [] as Pass[], bare: [] as Pass[] }
  for (let round = 0; round <= rounds; round++) {
    // Each is a document of its own: the same text would be the same document.
    const chunks = least + round
    const before = cpuOf(pid)
    await execution.load(chunks)
    await execution.until(({ state }) => state === 'done')
    await execution.settled(extractors)
    const cpu = ((cpuOf(pid) - before) / chunks) * 1000
    const recorded = await record(execution)
    const ours = { rate: chunks / spanOf(recorded), cpu }

    const topicOf = (topic: string) => topic.replace(/^instant\./, `bare${round}.`)
    const topics = [...new Set(recorded.map(({ topic }) => topicOf(topic)))]
    await execution.broker.ensureTopics(topics.map((name) => topicSpec(name)))
    const lines = inputLines(extractors)
      .map(({ port, processor }) => ({ processor, topic: execution.topic(port, processor) }))
      .filter(({ topic }) => recorded.some((message) => message.topic === topic))
    const script = await scriptOf({ brokers, llmUrl: llm.url, lines, recorded, topicOf })
    const bareCpu = ((await bare.perform(script)) / chunks) * 1000
    const replayed = await Promise.all(
      topics.filter(marksSpan).map((topic) => entriesOf(execution.broker, topic)),
    )
    if (round === 0) continue
    seen.ours.push(ours)
    seen.bare.push({ rate: chunks / spanOf(replayed.flat()), cpu: bareCpu })
  }
  const peak = peakOf(pid)
  await bare.stop()
  await execution.close()
  const middle = (passes: readonly Pass[], of: keyof Pass) => median(passes.map((pass) => pass[of]))
  const [rate, bareRate] = [middle(seen.ours, 'rate'), middle(seen.bare, 'rate')]
  const note = `${least} chunks, two extractors, from the first chunk to the last triples; median of ${rounds}`
  const unit = 's/1,000 chunks'
  return [
    { name: 'kafka: flow, model of 0 ms', value: rate, unit: 'chunks/s', bound: '>= 250', note },
    {
      name: 'kafka: flow, bare kafkajs + fetch',
      value: bareRate,
      unit: 'chunks/s',
      note: 'the same messages and calls',
    },
    { name: 'kafka: flow, ratio to the bare loop', value: rate / bareRate, unit: '', bound: '>= 0.6' },
    { name: 'kafka: flow, CPU', value: middle(seen.ours, 'cpu'), unit, bound: '<= 6' },
    { name: 'kafka: flow, CPU of the bare loop', value: middle(seen.bare, 'cpu'), unit },
    { name: 'kafka: flow, memory', value: peak, unit: 'MiB', note: 'the most that was resident' },
  ]
}

/** One document through the flow: chunks a second, and CPU seconds for 1,000 of them. */
interface Pass {
  readonly rate: number
  readonly cpu: number
}

/** Every message about the last loaded document, of every topic. */
async function record(execution: Execution): Promise<Recorded[]> {
  const recorded: Recorded[] = []
  for (const { name } of await execution.broker.listTopics(`${execution.space}.`)) {
    if (name.includes('.notify.')) continue
    for (const entry of await entriesOf(execution.broker, name))
      if (entry.headers['documentId'] === execution.documentId())
        recorded.push({ ...entry, message: codec.decode(entry.value, entry.headers) })
  }
  return recorded
}

async function entriesOf(broker: Broker, topic: string): Promise<ReadMessage[]> {
  const entries: ReadMessage[] = []
  const range = { topic, from: 'earliest', until: 'end' } as const
  for await (const entry of broker.read(range, AbortSignal.timeout(60_000))) entries.push(entry)
  return entries
}

const marksSpan = (topic: string) => /\.flow\.(chunk|triples)\./.test(topic)

/** Seconds from the first chunk to the last triples. */
function spanOf(entries: readonly ReadMessage[]): number {
  const times = (role: string) =>
    entries.filter(({ topic }) => topic.includes(`.flow.${role}.`)).map(({ timestamp }) => timestamp)
  return (Math.max(...times('triples')) - Math.min(...times('chunk'))) / 1000
}
