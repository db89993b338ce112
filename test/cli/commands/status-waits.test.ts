// What `status` and `doctor` say about a waiting document, and about one whose requests expired, on a real Kafka.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { brokerSource } from '../../support/brokers.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { startLlmServer } from '../../support/llm-server.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../../support/processes.ts'

const source = await brokerSource('status of what waits on Kafka', ['jars'])

interface Shown {
  readonly title: string
  readonly state: string
  readonly units: Readonly<Record<string, number>>
  readonly incomplete: Readonly<Record<string, number>>
  readonly waitsFor: readonly string[]
}

// Each waits most of the time, and has topics of its own.
describe.skipIf(source === undefined).concurrent('on Kafka', () => {
  let kafka: KafkaServer
  let folder: string
  const started: GraphmillProcess[] = []

  beforeAll(async () => {
    kafka = await startKafka()
    folder = await mkdtemp(join(tmpdir(), 'graphmill-waits-'))
  }, 120_000)
  afterAll(async () => {
    for (const child of started) await child.end('SIGKILL')
    await kafka?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  /** A flow in a space of its own, without `prompt`. */
  async function flowIn(space: string) {
    const options = ['--broker', `kafka://${kafka.bootstrap.join(',')}`, '--space', space]
    const start = (args: readonly string[], environment = {}) => {
      const child = startGraphmill(['run', ...args, ...options, '--http', 'off'], environment)
      started.push(child)
      return child
    }
    const run = async (...args: string[]) => {
      const child = start(args)
      await child.says('"running"')
      return child
    }
    const command = (...args: string[]) => graphmill(...args, ...options)
    const load = async (name: string) => {
      await writeFile(join(folder, name), 'A mill is a machine that grinds grain.')
      await command('load', join(folder, name))
    }
    const until = (title: string, is: (shown: Shown) => boolean) =>
      vi.waitFor(
        async () => {
          const shown = JSON.parse(await command('status', title, '--json')) as Shown
          if (!is(shown)) throw new Error(`${title}: ${JSON.stringify(shown)}`)
          return shown
        },
        { timeout: 150_000, interval: 500 },
      )
    const waitsFor = (title: string, what: string) =>
      until(title, (shown) => shown.waitsFor.some((sentence) => sentence.includes(what)))
    await run('chunk-text', 'extract-definitions', 'ledger', '--extractors', 'definitions')
    return { options, start, run, command, load, until, waitsFor }
  }

  test('an unavailable model is listed, with what to do', async () => {
    const { start, load, waitsFor } = await flowIn('unavailable')
    const model = ['--llm', 'openai', '--model', 'none', '--llm-timeout', '5']
    const server = { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', OPENAI_API_KEY: 'sk-none' }
    const child = start(['prompt', ...model], server)
    await load('zeroth.txt')
    const shown = await waitsFor('zeroth.txt', '[llm_unavailable]')
    expect(shown.waitsFor.join('\n')).toMatch(/^prompt waits: .*\[llm_unavailable\], last reported .*Z\. \w/m)
    expect(shown.waitsFor.join('\n')).toMatch(/1 messages wait for prompt \(1 members\)/)
    await child.end('SIGTERM')
  }, 120_000)

  test('a refused key, then a rate limit, are listed, and nothing once the model answers', async () => {
    const { start, load, command, until, waitsFor } = await flowIn('refused')
    await using llm = await startLlmServer({ refuse: { kind: 'unauthorized' } })
    const model = ['--llm', 'openai', '--model', 'test-model', '--no-cache']
    const child = start(['prompt', ...model], { OPENAI_BASE_URL: llm.url, OPENAI_API_KEY: 'sk-wrong' })
    await load('wrong-key.txt')
    const paused = await waitsFor('wrong-key.txt', '[llm_authentication]')
    expect(paused.state).toBe('running')
    expect(paused.waitsFor.join('\n')).toMatch(/^prompt waits: .*Set the key of the server to one that/m)
    const lines = await command('status', 'wrong-key.txt')
    // A long sentence goes on below its beginning.
    const unwrapped = lines.replaceAll(/\n {11}/g, ' ')
    expect(unwrapped).toMatch(/^waits for +prompt waits: .*\[llm_authentication\]/m)

    // Retried within half a minute.
    llm.set({ refuse: { kind: 'rate-limit' }, retryAfter: 5 })
    const limited = await waitsFor('wrong-key.txt', '[llm_rate_limited]')
    expect(limited.state).toBe('running')
    expect(limited.waitsFor.join('\n')).toMatch(
      /\[llm_rate_limited\], last reported .*Z, tried again .*Z\. \w/,
    )
    llm.set({ refuse: undefined })
    await until('wrong-key.txt', ({ state, waitsFor: waits }) => state === 'done' && waits.length === 0)
    await child.end('SIGTERM')
  }, 600_000)

  test('a processor that no process runs, and expired requests, are listed', async () => {
    const { options, run, load, command, until, waitsFor } = await flowIn('expired')
    const promptTopic = 'expired.request.prompt.default.default'
    const prompt = await run('prompt', '--llm', 'offline')
    await load('first.txt')
    await until('first.txt', ({ state, waitsFor: waits }) => state === 'done' && waits.length === 0)
    await prompt.end('SIGTERM')

    await load('second.txt')
    await waitsFor('second.txt', `no process runs prompt: 1 messages wait in ${promptTopic}`)
    const table = await command('status')
    expect(table).toMatch(/second\.txt +running(.|\n)*\nwaits for +no process runs prompt/)

    const admin = new kafkajs.Kafka({ brokers: [...kafka.bootstrap], logLevel: 0 }).admin()
    await admin.connect()
    const offsets = await admin.fetchTopicOffsets(promptTopic)
    const partitions = offsets
      .filter(({ high }) => high !== '0')
      .map(({ partition, high: offset }) => ({ partition, offset }))
    await admin.deleteTopicRecords({ topic: promptTopic, partitions })
    await admin.disconnect()
    const again = await run('prompt', '--llm', 'offline')
    const expired = await until('second.txt', ({ state }) => state === 'failed')
    expect(expired).toMatchObject({ units: { expected: 1, dead: 1 }, incomplete: { expired: 1 } })
    expect(expired.waitsFor.join()).toMatch(
      /^1 units may have been among records that expired \(1 records of expired\.request\.prompt.*load the document again$/,
    )
    expect(again.stderr()).toMatch(/"count":1,.*"records were deleted before they were read"/)
    const doctor = startGraphmill(['doctor', ...options])
    expect((await doctor.ended).code).toBe(1)
    expect(doctor.stdout()).toMatch(
      /failed +lost records +default\/default: 1 records of expired\.request\.prompt/,
    )
    await until('first.txt', ({ state }) => state === 'done')

    // No store runs here, which would withdraw what the first attempt stated.
    await load('second.txt')
    const retracting = /^no process runs store-triples: 1 messages wait in expired\.notify\.retractions/
    await until(
      'second.txt',
      ({ state, waitsFor: waits }) => state === 'done' && retracting.test(waits.join()),
    )
    await again.end('SIGTERM')
  }, 600_000)
})
