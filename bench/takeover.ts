// Bench of a takeover: one of two idle processes of one processor is killed, a document is loaded at once, and the other must do
// the chunks of both.
import { setTimeout as delay } from 'node:timers/promises'
import { connectKafka } from '../src/broker/kafka/kafka.ts'
import { openExecution, type Site } from '../test/faults/execution.ts'
import { startKafka } from '../test/support/kafka-server.ts'
import { startLlmServer } from '../test/support/llm-server.ts'
import { median, type Row } from './row.ts'

const rounds = 5
const chunks = 40
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
      const note = `kill -9 of one of two ${victim}, until a document that is loaded then is done; median of ${rounds}: ${times.map((time) => time.toFixed(1)).join(', ')}`
      rows.push({ name: `kafka: takeover, ${victim}`, value: median(times), unit: 's', bound: '<= 12', note })
    }
    return rows
  } finally {
    await server.stop()
  }
}

/** Seconds from each death to the end of a document whose chunks fell to both processes. */
async function takeovers(site: Site, victim: string): Promise<number[]> {
  await using llm = await startLlmServer({ latencyMs: 300 })
  const execution = await openExecution(site, { space: `takeover-${victim}`, llmUrl: llm.url })
  const times: number[] = []
  try {
    await execution.startRuntime({ without: [victim] })
    await execution.startProcess([victim])
    for (let round = 0; round < rounds; round++) {
      const second = await execution.startProcess([victim])
      // The document before the death: both have their partitions.
      await execution.load(chunks, 2 * round)
      await execution.until(({ state }) => state === 'done')
      await delay(settleMs)
      const died = performance.now()
      await second.end('SIGKILL')
      await execution.load(chunks, 2 * round + 1)
      await execution.until(({ state }) => state === 'done')
      times.push((performance.now() - died) / 1000)
    }
    return times
  } finally {
    await execution.close()
  }
}
