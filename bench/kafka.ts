// Benches on one real Kafka: calls of a slow model side by side, the flow with a model that answers at once against a bare
// loop of kafkajs and fetch, the relay, and the memory of `load`.
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { connectKafka } from '../src/broker/kafka.ts'
import { topicSpec } from '../src/broker/topics.ts'
import { createCodec } from '../src/messages/codec.ts'
import { loadSchemas } from '../src/messages/registry.ts'
import { type Execution, inputLines, openExecution, type Site } from '../test/faults/execution.ts'
import { startKafka } from '../test/support/kafka-server.ts'
import { measureLoad } from '../test/support/load-memory.ts'
import { bareFlow } from './bare-flow.ts'
import { type Recorded, scriptOf } from './bare-script.ts'
import { type LlmProcess, startLlmProcess } from './llm-process.ts'
import { bareKafka, relayBench } from './relay.ts'
import type { Row } from './row.ts'

const codec = createCodec(loadSchemas())

interface Machines {
  readonly site: Site
  readonly bootstrap: readonly string[]
  readonly llm: LlmProcess
}

/** A real Kafka and a model server for as long as `bench` runs. */
async function withMachines(bench: (machines: Machines) => Promise<Row[]>): Promise<Row[]> {
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

export const slowModelBench = () => withMachines(slowModel)
export const instantModelBench = () => withMachines(instantModel)
export const kafkaRelayBench = () =>
  withMachines(({ site, bootstrap }) =>
    relayBench({ name: 'kafka', connect: site.connect, count: 50_000, bare: bareKafka(bootstrap) }),
  )

export const kafkaLoadBench = () => withMachines(({ site }) => load(site))

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

/** 64 calls at once of 500 ms each are 128 a second at best. */
async function slowModel({ site, llm }: Machines): Promise<Row[]> {
  const [warmUp, calls, ideal] = [1200, 1000, 128]
  await llm.set({ latencyMs: 500 })
  const execution = await openExecution(site, { space: 'slow', llmUrl: llm.url })
  await execution.startProcess(['--all'])
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

/** When, in seconds, so many calls were completed: between two looks it is interpolated. */
async function timeOf(llm: LlmProcess, completed: number): Promise<number> {
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

async function instantModel({ site, llm, bootstrap: brokers }: Machines): Promise<Row[]> {
  const [warmUp, chunks] = [200, 1000]
  const execution = await openExecution(site, { space: 'instant', llmUrl: llm.url })
  const { pid } = await execution.startProcess(['--all'])
  await execution.load(warmUp)
  await execution.settled()
  const before = usageOf(pid)
  await execution.load(chunks)
  await execution.until(({ state }) => state === 'done')
  await execution.settled()
  const after = usageOf(pid)
  const recorded = await record(execution)
  const ours = chunks / spanOf(execution, recorded)

  const topicOf = (topic: string) => topic.replace(/^instant\./, 'bare.')
  const topics = [...new Set(recorded.map(({ entry }) => topicOf(entry.topic)))]
  await execution.broker.ensureTopics(topics.map((name) => topicSpec(name)))
  const lines = inputLines().map(({ port, processor }) => ({
    processor,
    topic: execution.topic(port, processor),
  }))
  const bareCpu = await bareFlow(await scriptOf({ brokers, llmUrl: llm.url, lines, recorded, topicOf }))
  const replayed = await Promise.all(
    ['chunk', 'triples'].map(async (role) => {
      const topic = topicOf(execution.topic(role as 'chunk' | 'triples'))
      const entries = []
      for await (const entry of execution.broker.read(
        { topic, from: 'earliest', until: 'end' },
        AbortSignal.timeout(60_000),
      ))
        entries.push(entry.timestamp)
      return entries
    }),
  )
  const bare = chunks / ((Math.max(...replayed[1]!) - Math.min(...replayed[0]!)) / 1000)
  await execution.close()
  const note = `${chunks} chunks, three extractors, from the first chunk to the last triples`
  const perThousand = 1000 / chunks
  return [
    { name: 'kafka: flow, model of 0 ms', value: ours, unit: 'chunks/s', note },
    {
      name: 'kafka: flow, bare kafkajs + fetch',
      value: bare,
      unit: 'chunks/s',
      note: 'the same messages and calls',
    },
    { name: 'kafka: flow, ratio to the bare loop', value: ours / bare, unit: '', bound: '>= 0.5' },
    { name: 'kafka: flow, CPU', value: (after.cpu - before.cpu) * perThousand, unit: 's/1,000 chunks' },
    {
      name: 'kafka: flow, CPU of the bare loop',
      value: bareCpu * perThousand,
      unit: 's/1,000 chunks',
    },
    { name: 'kafka: flow, memory', value: after.peak, unit: 'MiB', note: 'the most that was resident' },
  ]
}

/** Every message about the document that was loaded last, of every topic. */
async function record(execution: Execution): Promise<Recorded[]> {
  const recorded: Recorded[] = []
  for (const { name } of await execution.broker.listTopics(`${execution.space}.`)) {
    if (name.includes('.notify.')) continue
    const range = { topic: name, from: 'earliest', until: 'end' } as const
    for await (const entry of execution.broker.read(range, AbortSignal.timeout(60_000)))
      if (entry.headers['documentId'] === execution.documentId())
        recorded.push({ entry, message: codec.decode(entry.value, entry.headers) })
  }
  return recorded
}

/** Seconds from the first chunk to the last triples. */
function spanOf(execution: Execution, recorded: readonly Recorded[]): number {
  const times = (topic: string) =>
    recorded.filter(({ entry }) => entry.topic === topic).map(({ entry }) => entry.timestamp)
  return (
    (Math.max(...times(execution.topic('triples'))) - Math.min(...times(execution.topic('chunk')))) / 1000
  )
}

/** CPU time in seconds and the peak of resident memory in MiB, as Linux counts them; elsewhere NaN. */
function usageOf(pid: number): { cpu: number; peak: number } {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const ticksPerSecond = 100
    return {
      cpu: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond,
      peak: Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024,
    }
  } catch {
    return { cpu: Number.NaN, peak: Number.NaN }
  }
}
