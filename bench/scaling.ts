// Replicas of the prompt processor and the extractors on one real Kafka, with calls of 500 ms: how the rate grows with 1, 2 and 4 of
// them, how evenly they share the calls, and whether each reply is read once. And what a chunk costs each processor of its own.
import { setTimeout as delay } from 'node:timers/promises'
import { inputGroup } from '../src/flow/ports.ts'
import { type Execution, extractors, inputLines, openExecution } from '../test/faults/execution.ts'
import { type Machines, timeOf, withMachines } from './kafka.ts'
import { cpuOf, memoryOf } from './process-usage.ts'
import { program } from './program.ts'
import type { Row } from './row.ts'

/** Calls at once in a replica; few, so that two cores have time for four replicas. */
const concurrency = 8
const callMs = 500
const chunksForReplica = 120

interface Scale {
  readonly rate: number
  /** CPU seconds of all processes, for a second of the run: cores. */
  readonly cores: number
  readonly callsOfReplicas: readonly number[]
  readonly replies: { readonly published: number; readonly read: number }
}

export const scalingBench = () =>
  withMachines(async (machines) => {
    const rows: Row[] = []
    let alone = Number.NaN
    await machines.llm.set({ latencyMs: callMs })
    for (const replicas of [1, 2, 4]) {
      const { rate, cores, callsOfReplicas, replies } = await scale(machines, replicas)
      if (replicas === 1) alone = rate
      const name = `scaling: ${replicas} replicas`
      const sum = callsOfReplicas.reduce((total, calls) => total + calls, 0)
      const ideal = (replicas * concurrency * 1000) / callMs
      const note = `at most ${ideal} calls/s; all processes use ${cores.toFixed(2)} cores`
      rows.push({ name: `${name}, calls`, value: rate, unit: 'calls/s', note })
      if (replicas > 1) {
        const growth = rate / (replicas * alone)
        rows.push({ name: `${name}, growth over linear`, value: growth, unit: '', bound: '>= 0.9' })
        const spread = (Math.max(...callsOfReplicas) * replicas) / sum
        const each = callsOfReplicas.join(', ')
        rows.push({
          name: `${name}, most calls over mean`,
          value: spread,
          unit: '',
          bound: '<= 1.3',
          note: each,
        })
      }
      const read = {
        value: replies.read / replies.published,
        note: `${replies.read} of ${replies.published}`,
      }
      rows.push({ name: `${name}, how often a reply is read`, ...read, unit: 'times', bound: '<= 1' })
    }
    return rows
  })

async function scale({ site, llm }: Machines, replicas: number): Promise<Scale> {
  const execution = await openExecution(site, { space: `scale${replicas}`, llmUrl: llm.url })
  try {
    const flags = ['--concurrency', `${concurrency}`, '--http', '127.0.0.1:0']
    const scaled = ['prompt', ...extractors]
    const rest = await execution.startProcess(
      ['chunk-text', 'emit-triples', 'store-triples', 'ledger'],
      [],
      program,
    )
    const started = await Promise.all(
      Array.from({ length: replicas }, () => execution.startProcess(scaled, flags, program)),
    )
    for (const { port, processor } of inputLines().filter((line) => scaled.includes(line.processor)))
      while (
        (await execution.broker.lag(groupOf(execution, port, processor), execution.topic(port, processor)))
          .members < replicas
      )
        await delay(100)
    const used = () => [rest, ...started].reduce((sum, { pid }) => sum + cpuOf(pid), 0)
    const before = (await llm.counts()).completed
    const calls = replicas * chunksForReplica * extractors.length
    await execution.load(replicas * chunksForReplica)
    const [from, cpu] = [await timeOf(llm, before + calls * 0.25), used()]
    const [to, cpuEnd] = [await timeOf(llm, before + calls * 0.75), used()]
    await execution.until(({ state }) => state === 'done')
    await execution.settled()
    const counted = await Promise.all(started.map(({ stderr }) => handled(urlOf(stderr()))))
    let published = 0
    for (const processor of extractors)
      published += (await execution.messages(execution.topic('prompt-reply', processor))).length
    return {
      rate: (calls * 0.5) / (to - from),
      cores: (cpuEnd - cpu) / (to - from),
      callsOfReplicas: counted.map(({ calls }) => calls),
      replies: { published, read: counted.reduce((sum, { replies }) => sum + replies, 0) },
    }
  } finally {
    await execution.close()
  }
}

function groupOf({ space }: Execution, port: Parameters<typeof inputGroup>[0], processor: string): string {
  return inputGroup(port, { space, workspace: 'default', flow: 'default' }, processor)
}

const urlOf = (log: string) => /"http":"([^"]+)"/.exec(log)![1]!

/** The messages that a replica has handled, by its metrics. */
async function handled(url: string): Promise<{ calls: number; replies: number }> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const lines = text.split('\n').filter((line) => line.startsWith('tg_consumer_processing_total{'))
  const sum = (belongs: (line: string) => boolean) =>
    lines.filter(belongs).reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0)
  return {
    calls: sum((line) => line.includes('processor="prompt"')),
    replies: sum((line) => line.includes('.response.prompt.')),
  }
}

/** Each processor in a process of its own, as the chart runs them, over chunks of the default size with a model that answers at once. */
export const sizingBench = () => withMachines(sizing)

async function sizing({ site, llm }: Machines): Promise<Row[]> {
  const roles = ['chunk-text', 'prompt', ...extractors, 'emit-triples', 'store-triples', 'ledger']
  const execution = await openExecution(site, { space: 'sizing', llmUrl: llm.url })
  try {
    const flags = ['--chunk-size', '2000', '--chunk-overlap', '100', '--http', '127.0.0.1:0']
    const processes = await Promise.all(
      roles.map(async (role) => ({
        role,
        pid: (await execution.startProcess([role], flags, program)).pid,
      })),
    )
    const cpus = () => processes.map(({ pid }) => cpuOf(pid))
    const perform = async (paragraphs: number) => {
      await execution.load(paragraphs)
      await execution.until(({ state }) => state === 'done')
      await execution.settled()
    }
    await perform(600)
    const [before, first] = [cpus(), await bytesOf(execution)]
    await perform(3000)
    const [after, last] = [cpus(), await bytesOf(execution)]
    const chunks = last.chunks - first.chunks
    const note = `over ${chunks} chunks`
    const unit = 'ms/chunk'
    const costs = processes.map(({ role, pid }, index) => ({
      role,
      cpu: ((after[index]! - before[index]!) / chunks) * 1000,
      memory: memoryOf(pid, 'VmHWM'),
    }))
    const all = costs.reduce((sum, { cpu }) => sum + cpu, 0)
    return [
      ...costs.flatMap(({ role, cpu, memory }) => [
        { name: `sizing: CPU of ${role}`, value: cpu, unit, note },
        { name: `sizing: the most memory of ${role}`, value: memory, unit: 'MiB', note },
      ]),
      { name: 'sizing: CPU of all processors', value: all, unit, note },
      { name: 'sizing: messages', value: (last.messages - first.messages) / chunks, unit: 'a chunk', note },
      {
        name: 'sizing: bytes of messages',
        value: (last.bytes - first.bytes) / chunks / 1024,
        unit: 'KiB/chunk',
        note,
      },
    ]
  } finally {
    await execution.close()
  }
}

/** What all topics of the flow hold. */
async function bytesOf({ broker, space }: Execution) {
  const sums = { chunks: 0, messages: 0, bytes: 0 }
  for (const { name } of await broker.listTopics(`${space}.`)) {
    const range = { topic: name, from: 'earliest', until: 'end' } as const
    for await (const { key, value, headers } of broker.read(range, AbortSignal.timeout(60_000))) {
      sums.messages++
      sums.bytes += key.length + value.length + JSON.stringify(headers).length
      if (name.includes('.flow.chunk.')) sums.chunks++
    }
  }
  return sums
}
