// Bench of a takeover: one of two processes of one processor is killed in the middle of a document, and the other must do the chunks
// of both. The same when the killed one is started again at once, with and without a group.instance.id. And what is done again when
// one of them is blocked for as long as a long collection of garbage.
import { setTimeout as delay } from 'node:timers/promises'
import { connectKafka } from '../src/broker/kafka/kafka.ts'
import { type Execution, openExecution, type Site } from '../test/faults/execution.ts'
import { startKafka } from '../test/support/kafka-server.ts'
import { startLlmServer } from '../test/support/llm-server.ts'
import { program } from './program.ts'
import { median, type Row, rounds } from './row.ts'

const chunks = 80
const blockedSeconds = [5, 8, 15]
/** A rebalance after a member has come takes some seconds. */
const settleMs = 5000

export async function takeoverBench(): Promise<Row[]> {
  const server = await startKafka()
  const site = {
    brokerUrl: `kafka://${server.bootstrap.join()}`,
    connect: () => connectKafka({ brokers: server.bootstrap }),
  }
  try {
    const rows: Row[] = []
    for (const victim of ['extract-definitions', 'prompt']) {
      const times = await takeovers(site, victim)
      const note = `kill -9 of one of two ${victim} in the middle of a document, until it is done; median of ${rounds}: ${times.map((time) => time.toFixed(1)).join(', ')}`
      rows.push({ name: `kafka: takeover, ${victim}`, value: median(times), unit: 's', bound: '<= 12', note })
    }
    return [...rows, await restarts(site), ...(await blocks(site))]
  } finally {
    await server.stop()
  }
}

/** Seconds from each death, in the middle of a document, to the document's end. Both processes had their partitions by then. */
async function takeovers(site: Site, victim: string): Promise<number[]> {
  await using llm = await startLlmServer({ latencyMs: 300 })
  const execution = await openExecution(site, { space: `takeover-${victim}`, llmUrl: llm.url })
  const times: number[] = []
  try {
    await execution.startRuntime({ without: [victim] })
    await execution.startProcess([victim], [], program)
    for (let round = 0; round < rounds; round++) {
      const second = await execution.startProcess([victim], [], program)
      await delay(settleMs)
      await loadUntilMidWork(execution, round)
      const died = performance.now()
      await second.end('SIGKILL')
      await execution.until(({ state }) => state === 'done')
      times.push((performance.now() - died) / 1000)
    }
    return times
  } finally {
    await execution.close()
  }
}

/** How long a document takes from the death of one of two processes that is started again at once: with a name of its own, and without. */
async function restarts(site: Site): Promise<Row> {
  await using llm = await startLlmServer({ latencyMs: 300 })
  const kinds = [true, false].map((named) => ({ named, times: [] as number[] }))
  for (const { named, times } of kinds) {
    const execution = await openExecution(site, { space: `restart-${named}`, llmUrl: llm.url })
    const start = (name: string) =>
      execution.startProcess(['extract-definitions'], named ? ['--group-instance-id', name] : [], program)
    try {
      await execution.startRuntime({ without: ['extract-definitions'] })
      await start('first')
      let second = await start('second')
      for (let round = 0; round < rounds; round++) {
        await delay(settleMs)
        await loadUntilMidWork(execution, round)
        const died = performance.now()
        await second.end('SIGKILL')
        second = await start('second')
        await execution.until(({ state }) => state === 'done')
        times.push((performance.now() - died) / 1000)
      }
    } finally {
      await execution.close()
    }
  }
  const [withName, without] = kinds.map(({ times }) => median(times)) as [number, number]
  return {
    name: 'kafka: killed and started again, with a group.instance.id',
    value: withName,
    unit: 's',
    note: `one of two extract-definitions, from the kill -9 until its document is done; without ${without.toFixed(1)} s; medians of ${rounds}`,
  }
}

/** Resolves when some units of the document are done, and most are not. */
async function loadUntilMidWork(execution: Execution, number: number): Promise<void> {
  await execution.load(chunks, number)
  await execution.until(({ units }) => units.done >= chunks / 4)
}

/** What a main thread that is blocked costs: a stopped process sends no heartbeats, as during a long collection of garbage. */
async function blocks(site: Site): Promise<Row[]> {
  await using llm = await startLlmServer({ latencyMs: 300 })
  const execution = await openExecution(site, { space: 'blocked', llmUrl: llm.url })
  const rows: Row[] = []
  try {
    await execution.startRuntime({ without: ['prompt'] })
    await execution.startProcess(['prompt'], [], program)
    const { pid } = await execution.startProcess(['prompt'], [], program)
    for (const [number, seconds] of blockedSeconds.entries()) {
      await delay(settleMs)
      const before = llm.counts.calls
      await loadUntilMidWork(execution, number)
      process.kill(pid, 'SIGSTOP')
      await delay(seconds * 1000)
      process.kill(pid, 'SIGCONT')
      const { units } = await execution.until(({ state }) => state === 'done')
      await execution.settled()
      const note = `of ${units.expected} units; nothing was lost`
      const value = llm.counts.calls - before - units.expected
      rows.push({
        name: `kafka: calls made again, prompt blocked for ${seconds} s`,
        value,
        unit: 'calls',
        note,
      })
    }
    return rows
  } finally {
    await execution.close()
  }
}
