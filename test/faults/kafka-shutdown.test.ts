// SIGTERM to `graphmill run --all` under load on real Kafka: exit 0 within the grace period, nothing lost, and nothing
// done twice but what was neither finished nor committed.
import { execFile } from 'node:child_process'
import { closeSync, constants, openSync, writeSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { documentId } from '../../src/documents/read.ts'
import { inputGroup } from '../../src/flow/ports.ts'
import { documentName } from '../../src/rdf/support.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { startGraphmill } from '../support/processes.ts'
import {
  type Execution,
  type Outcome,
  openExecution,
  type Site,
  undisturbed,
  units,
  valley,
} from './execution.ts'
import { expectAll } from './expect-all.ts'

const present = (await brokerSource('SIGTERM under load, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('SIGTERM under load, on Kafka', { timeout: 120_000 }, () => {
  let server: KafkaServer
  let site: Site
  let expected: Outcome

  beforeAll(async () => {
    server = await startKafka()
    site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
    await using llm = await startLlmServer()
    expected = await undisturbed(llm.url)
  })
  afterAll(() => server?.stop())

  test('what is in flight is finished: the next process goes on, and nothing was done twice', async () => {
    await using llm = await startLlmServer({ latencyMs: 1000 })
    const execution = await openExecution(site, { space: 'sigterm', llmUrl: llm.url })
    const took = await stopUnderLoad(execution, llm)
    // What was in flight takes a second or two of the model; the grace period is 135 s.
    expect(took).toBeLessThan(20_000)
    expect(llm.counts).toMatchObject({ concurrent: 0, cancelled: 0 })
    await execution.startProcess(['--all'])
    await expectAll(execution, expected)
    expect(llm.counts.calls).toBe(units)
    for (const port of ['prompt', 'definitions', 'relationships', 'topics', 'triples'] as const) {
      const ids = (await execution.messages(execution.topic(port))).map(({ id }) => id)
      expect(new Set(ids).size).toBe(ids.length)
    }
    await execution.close()
  })

  test('a process that is stopped before it runs ends well, and the next one finds nothing half made', async () => {
    await using llm = await startLlmServer()
    const execution = await openExecution(site, { space: 'starting', llmUrl: llm.url })
    const place = ['--broker', site.brokerUrl, '--space', 'starting', '--http', 'off']
    const process = startGraphmill(['run', '--all', ...place, '--llm', 'offline'])
    while ((await execution.broker.listTopics('starting.flow.')).length === 0) await delay(10)
    const begun = performance.now()
    expect(await process.end('SIGTERM')).toEqual({ code: 0, signal: null })
    expect(performance.now() - begun).toBeLessThan(20_000)
    expect(process.stderr()).not.toContain('"running"')
    await execution.startProcess(['--all'])
    await execution.load()
    await expectAll(execution, expected)
    await execution.close()
  })

  test('`--drain now` ends at once, and only what lies above the mark is done again', async () => {
    await using llm = await startLlmServer({ latencyMs: 1000 })
    const execution = await openExecution(site, { space: 'drain-now', llmUrl: llm.url })
    const took = await stopUnderLoad(execution, llm, '--drain', 'now')
    expect(took).toBeLessThan(10_000)
    const before = { calls: llm.counts.calls, open: await openRequests(execution) }
    await execution.startProcess(['--all'])
    await expectAll(execution, expected)
    const more = (await execution.messages(execution.topic('prompt'))).length - before.open.asked
    expect(llm.counts.calls).toBeLessThanOrEqual(before.calls + before.open.uncommitted + more)
    await execution.close()
  })

  test('a file that is stuck holds no process beyond its end, is named, and costs nothing', async () => {
    await using llm = await startLlmServer()
    const execution = await openExecution(site, { space: 'stuck', llmUrl: llm.url })
    const folder = await mkdtemp(join(tmpdir(), 'graphmill-stuck-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const name = documentName(await documentId(valley()), { workspace: 'default', flow: 'default' })
    const path = join(folder, `default.default.${name}.nq`)
    await promisify(execFile)('mkfifo', [path])
    using _ = fullPipe(path)
    const process = await execution.startProcess(['--all'], ['--out', folder, '--drain', 'now'])
    await execution.load()
    // Long before the last unit is done there are triples to be written.
    await execution.until((status) => status.units.done === units)
    expect(await process.end('SIGTERM')).toEqual({ code: null, signal: 'SIGTERM' })
    const last = JSON.parse(process.stderr().trim().split('\n').at(-1)!)
    expect(last).toMatchObject({ msg: 'the process ends before everything was finished' })
    expect(last.stuck).toEqual([expect.stringContaining(`write ${path} (for `)])
    await execution.startProcess(['--all'])
    await expectAll(execution, expected)
    await execution.close()
  })
})

/** A pipe that takes nothing more, and that nobody reads. */
function fullPipe(path: string): Disposable {
  const pipe = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  try {
    for (;;) writeSync(pipe, Buffer.alloc(4096))
  } catch (error) {
    expect(error).toMatchObject({ code: 'EAGAIN' })
  }
  return { [Symbol.dispose]: () => closeSync(pipe) }
}

/** Starts everything in one process, stops it by SIGTERM in mid-work, and returns how long that took in milliseconds. */
async function stopUnderLoad(execution: Execution, llm: LlmServer, ...flags: string[]): Promise<number> {
  const process = await execution.startProcess(['--all'], flags)
  await execution.load()
  await llm.until(({ completed, concurrent }) => completed >= 150 && concurrent > 30)
  const begun = performance.now()
  expect(await process.end('SIGTERM')).toEqual({ code: 0, signal: null })
  expect((await execution.until(() => true)).units.done).toBeLessThan(units)
  return performance.now() - begun
}

/** How many prompt requests there are, and how many of them are not committed. */
async function openRequests({ broker, messages, space, topic }: Execution) {
  const group = inputGroup('prompt', { space, workspace: 'default', flow: 'default' }, 'prompt')
  return {
    asked: (await messages(topic('prompt'))).length,
    uncommitted: (await broker.lag(group, topic('prompt'))).total,
  }
}
