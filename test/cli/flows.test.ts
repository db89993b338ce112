// The flows file of a running `graphmill run` on a real Kafka, changed like a ConfigMap, by replacing a link.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processors } from '../../processors/index.ts'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { deadTopic, parseTopic } from '../../src/broker/topics.ts'
import { flowsOf } from '../../src/cli/flows.ts'
import { readConfig } from '../../src/config/config.ts'
import { topicsOf } from '../../src/flow/run.ts'
import { brokerSource } from '../support/brokers.ts'
import { mountConfigMap } from '../support/config-map.ts'
import { bookOf, chunkSize, difference, readGraph, same } from '../support/graph.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { extractionReply, guessExtraction } from '../support/llm-extraction.ts'
import { answerer, chunkOf } from '../support/llm-script.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { freePorts } from '../support/ports.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../support/processes.ts'

test('text-retention bounds all topics with texts and facts and their dead letters, unless a topic has its own', () => {
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-retention-'))
  const path = join(folder, 'flows.yaml')
  writeFileSync(
    path,
    'flows:\n  - {topics: {chunk: {retention-days: 9}}}\n  - {flow: short, text-retention: 1}\n',
  )
  const daysOf = (flags: Record<string, unknown>) =>
    flowsOf(readConfig({ flags: { flows: path, ...flags }, environment: {} })).map((flow) => {
      const { workspace, flow: name } = flow.options
      const specs = topicsOf(processors, { space: 'gm', workspace, flow: name, topics: flow.topics })
      return new Map(specs.map((spec) => [spec.name, (spec.retentionMs ?? Number.NaN) / 86_400_000]))
    })
  const [unbounded, short] = daysOf({})
  expect(unbounded!.get('gm.flow.document.default.default')).toBeNaN()
  expect([...unbounded!.keys()].filter((name) => name.endsWith('.dead'))).toEqual([])
  expect(short!.get('gm.flow.document.default.short')).toBe(1)
  const [bounded] = daysOf({ 'text-retention': '30' })
  for (const [name, days] of bounded!) {
    const { class: topicClass, role, dead } = parseTopic(name)!
    if (topicClass === 'notify' || role === 'progress') expect(days, name).toBeNaN()
    else expect(days, name).toBe(role === 'chunk' && !dead ? 9 : 30)
    if (topicClass !== 'notify' && role !== 'progress' && !dead)
      expect(bounded!.has(deadTopic(name))).toBe(true)
  }
  rmSync(folder, { recursive: true, force: true })
})

const present = (await brokerSource('a flows file that changes, on Kafka', ['jars'])) !== undefined

interface Status {
  readonly flows: readonly string[]
  readonly configurationCurrent: boolean
  readonly configurationProblem: string | null
}

describe.skipIf(!present)('a flows file that changes', { timeout: 120_000 }, () => {
  const chunks = 20
  const many = 120
  let kafka: KafkaServer
  let llm: LlmServer
  let folder: string
  let book: string
  let runtime: GraphmillProcess
  let http: string
  let broker: readonly string[]
  let versions = 0

  const change = (text: string) =>
    mountConfigMap(join(folder, 'mounted'), { version: `..${++versions}`, files: { 'flows.yaml': text } })
  const flowsFile = () => join(folder, 'mounted', 'flows.yaml')
  const statusOf = async () => (await (await fetch(`${http}/status.json`)).json()) as Status
  const running = async () => (await statusOf()).flows.toSorted()
  const current = async () => {
    const metrics = await (await fetch(`${http}/metrics`)).text()
    return /^graphmill_configuration_current (\d)$/m.exec(metrics)?.[1]
  }
  const says = (phrase: string, flow?: string) =>
    runtime
      .stderr()
      .split('\n')
      .filter((line) => line.includes(`"${phrase}"`) && (!flow || line.includes(`"flow":"${flow}"`))).length

  const place = (name: string) => ['--workspace', 'acme', '--flow', name, ...broker]
  async function load(name: string): Promise<string> {
    const text = await graphmill('load', book, '--flows', flowsFile(), ...place(name))
    return (JSON.parse(text) as { documentId: string }).documentId
  }
  interface View {
    readonly state: string
    readonly chunks: number
    readonly units: Readonly<Record<'expected' | 'done' | 'partial' | 'dead', number>>
  }
  async function viewOf(name: string, documentId: string): Promise<View | undefined> {
    const text = await graphmill('status', '--json', ...place(name))
    const views = text.split('\n').filter(Boolean) as string[]
    return views
      .map((line) => JSON.parse(line) as View & { documentId: string })
      .find((view) => view.documentId === documentId)
  }
  async function done(name: string, documentId: string): Promise<View> {
    const state = async () => (await viewOf(name, documentId))?.state
    await expect.poll(state, { timeout: 60_000, interval: 500 }).toBe('done')
    return (await viewOf(name, documentId))!
  }
  /** The bodies of the calls about a flow since a number of them. */
  const asked = (since: number) =>
    llm.requests
      .filter(({ path }) => path.endsWith('/completions'))
      .slice(since)
      .map(({ body }) => body!)

  beforeAll(async () => {
    kafka = await startKafka()
    llm = await startLlmServer()
    folder = mkdtempSync(join(tmpdir(), 'graphmill-flows-'))
    mkdirSync(join(folder, 'mounted'))
    book = join(folder, 'book.txt')
    writeFileSync(book, bookOf(chunks))
    broker = ['--broker', `kafka://${kafka.bootstrap.join()}`]
    change(`flows: [{workspace: acme, flow: calm, chunk-size: ${chunkSize}}]`)
    const [port] = await freePorts(1)
    http = `http://127.0.0.1:${port}`
    const options = [
      '--http',
      `127.0.0.1:${port}`,
      '--out',
      join(folder, 'out'),
      '--no-cache',
      '--provenance',
      'none',
    ]
    runtime = startGraphmill(['run', '--all', '--flows', flowsFile(), ...broker, ...options], {
      OPENAI_BASE_URL: llm.url,
      GRAPHMILL_MODEL: 'test-model',
    })
    await runtime.says('"msg":"running"')
  })
  afterAll(async () => {
    await runtime?.end('SIGKILL')
    await llm?.close()
    await kafka?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  test('a new flow starts, and the other one continues', async () => {
    const before = await done('calm', await load('calm'))
    expect(before).toMatchObject({ chunks, units: { expected: 3 * chunks, done: 3 * chunks } })
    change(
      `flows: [{workspace: acme, flow: calm, chunk-size: ${chunkSize}}, {workspace: acme, flow: new, chunk-size: ${chunkSize}, extractors: [topics]}]`,
    )
    await expect.poll(running, { timeout: 30_000 }).toEqual(['acme/calm', 'acme/new'])
    expect(await done('new', await load('new'))).toMatchObject({ chunks, units: { expected: chunks } })
    expect(says('flow drains')).toBe(0)
  })

  test('a changed flow restarts with its new parameters', async () => {
    const since = asked(0).length
    expect(asked(0).every((body) => !('temperature' in body))).toBe(true)
    const changed = 'chunk-size: 7000, extractors: [topics], model: other-model, temperature: 0.25'
    change(
      `flows: [{workspace: acme, flow: calm, chunk-size: ${chunkSize}}, {workspace: acme, flow: new, ${changed}}]`,
    )
    await runtime.says('"flow drains, to start again with its change"')
    await expect.poll(() => says('flow runs', 'acme/new'), { timeout: 30_000 }).toBe(2)
    writeFileSync(book, bookOf(chunks + 1))
    const view = await done('new', await load('new'))
    expect(view.chunks).toBeLessThan(chunks / 2)
    const bodies = asked(since)
    expect(bodies).toHaveLength(view.chunks)
    for (const body of bodies) expect(body).toMatchObject({ model: 'other-model', temperature: 0.25 })
    expect(says('flow runs', 'acme/calm')).toBe(1)
  })

  test('an invalid file changes nothing, and is reported in the log, the metrics and /status.json', async () => {
    const broken: [string, RegExp][] = [
      ['flows: [{workspace: acme, flow: calm', /flows\.yaml: .*line 1/s],
      [
        'flows: [{workspace: acme, flow: calm, chunk-sise: 9}]',
        /flow 1: .*chunk-sise.*Did you mean chunk-size\?/,
      ],
      ['flows: [{workspace: acme, flow: x, extractors: [topic]}]', /acme\/x: .*no extractor topic/],
      ['flows: [{workspace: acme, flow: x, prompts: [nowhere.yaml]}]', /acme\/x: .*nowhere\.yaml/],
    ]
    for (const [text, problem] of broken) {
      const refusals = says('the change is refused; the previous configuration stays in use')
      change(text)
      await expect
        .poll(() => says('the change is refused; the previous configuration stays in use'), {
          timeout: 30_000,
        })
        .toBe(refusals + 1)
      expect(await statusOf()).toMatchObject({
        configurationCurrent: false,
        configurationProblem: expect.stringMatching(problem),
        flows: expect.arrayContaining(['acme/calm', 'acme/new']),
      })
      expect(await current()).toBe('0')
    }
    const old = bookOf(chunks + 2)
    writeFileSync(book, old)
    const text = await graphmill('load', book, ...place('calm'))
    const { documentId } = JSON.parse(text) as { documentId: string }
    expect(await done('calm', documentId)).toMatchObject({ chunks: chunks + 2 })
    change(`flows: [{workspace: acme, flow: calm, chunk-size: ${chunkSize}}]`)
    await expect.poll(current, { timeout: 30_000 }).toBe('1')
    expect(await statusOf()).toMatchObject({ configurationCurrent: true, configurationProblem: null })
    await expect.poll(running, { timeout: 30_000 }).toEqual(['acme/calm'])
    expect(says('flow runs', 'acme/calm')).toBe(1)
  })

  test('a removed flow finishes its messages in flight, delays no other flow, and loses nothing', async () => {
    const calm = `{workspace: acme, flow: calm, chunk-size: ${chunkSize}}`
    const gone = `{workspace: acme, flow: gone, chunk-size: ${chunkSize}}`
    change(`flows: [${calm}, ${gone}]`)
    await expect.poll(running, { timeout: 30_000 }).toEqual(['acme/calm', 'acme/gone'])
    // More than a process takes in flight at once.
    writeFileSync(book, bookOf(many))
    await done('calm', await load('calm'))
    const before = asked(0).length
    const held = Promise.withResolvers<void>()
    llm.set({ rules: [{ reply: (call) => held.promise.then(() => answerer({})(call)) }] })
    const documentId = await load('gone')
    await llm.until(({ concurrent }) => concurrent === 64)
    const late = `{workspace: acme, flow: late, chunk-size: ${chunkSize}, extractors: [topics]}`
    change(`flows: [${calm}, ${late}]`)
    await runtime.says('"flow":"acme/gone","msg":"flow drains"')
    await expect.poll(() => says('flow runs', 'acme/late'), { timeout: 30_000 }).toBe(1)
    expect(says('flow has ended', 'acme/gone')).toBe(0)
    held.resolve()
    await expect.poll(running, { timeout: 60_000 }).toEqual(['acme/calm', 'acme/late'])
    expect(llm.counts).toMatchObject({ concurrent: 0, cancelled: 0 })
    const all = 3 * many
    expect(asked(before).length).toBeLessThan(all)

    change(`flows: [${calm}, ${late}, ${gone}]`)
    expect((await done('gone', documentId)).units).toEqual({ expected: all, done: all, partial: 0, dead: 0 })
    expect(asked(before)).toHaveLength(all)
    const triplesOf = (flow: string) => readGraph(join(folder, 'out'), `acme.${flow}.`)
    const differs = async () => difference(await triplesOf('gone'), await triplesOf('calm'))
    await expect.poll(differs, { timeout: 30_000 }).toEqual(same)
  })

  test('a flow that cannot start is reported with the reason, delays no other flow, and starts when the reason is fixed', async () => {
    // To Kafka, acme_x.y and acme.x_y are the same name.
    await graphmill('topics', 'create', '--workspace', 'acme_x', '--flow', 'y', ...broker)
    const calm = `{workspace: acme, flow: calm, chunk-size: ${chunkSize}}`
    change(`flows: [${calm}, {workspace: acme, flow: x_y}, {workspace: acme, flow: beside}]`)
    const problem = async () => (await statusOf()).configurationProblem
    await expect
      .poll(problem, { timeout: 30_000 })
      .toMatch(/^acme\/x_y: topics: gm\.[a-z.-]+\.acme\.x_y: .*invalid topic/)
    await expect.poll(running, { timeout: 30_000 }).toEqual(['acme/beside', 'acme/calm'])
    expect(await current()).toBe('0')
    const client = await connectKafka({ brokers: kafka.bootstrap })
    const inTheWay = (await client.listTopics('gm.')).filter(({ name }) => name.endsWith('.acme_x.y'))
    await client.deleteTopics(inTheWay.map(({ name }) => name))
    await client.close()
    await expect.poll(running, { timeout: 60_000 }).toEqual(['acme/beside', 'acme/calm', 'acme/x_y'])
    await expect.poll(current).toBe('1')
    expect(await problem()).toBe(null)
  })

  test('a workspace with 10 chunks is served while another has 10,000 in flight', async () => {
    const calls = { big: 0, small: 0 }
    await using slow = await startLlmServer({
      latencyMs: 20,
      rules: [
        {
          reply({ prompt }) {
            calls[prompt.includes('Small mill') ? 'small' : 'big']++
            const chunk = chunkOf(prompt)
            return extractionReply(guessExtraction(prompt.replace(chunk, ''))!, chunk)
          },
        },
      ],
    })
    const textOf = (name: string, count: number) =>
      Array.from(
        { length: count },
        (_, n) => `${name} mill ${n} stands by the river and grinds the grain of the valley.`,
      )
    const [big, small] = [join(folder, 'big.txt'), join(folder, 'small.txt')]
    writeFileSync(big, textOf('Big', 10_000).join('\n\n'))
    writeFileSync(small, textOf('Small', 10).join('\n\n'))
    const two = join(folder, 'two.yaml')
    const cut = 'chunk-size: 90, chunk-overlap: 0'
    writeFileSync(two, `flows: [{workspace: big, ${cut}}, {workspace: small, ${cut}}]`)
    const at = ['--space', 'fair', ...broker]
    await graphmill('load', big, '--workspace', 'big', ...at)
    const options = [
      '--flows',
      two,
      '--http',
      'off',
      '--out',
      join(folder, 'fair'),
      '--no-cache',
      '--concurrency',
      '4',
    ]
    const fair = startGraphmill(['run', '--all', ...options, ...at], {
      OPENAI_BASE_URL: slow.url,
      GRAPHMILL_MODEL: 'test-model',
    })
    try {
      await slow.until(() => calls.big > 300)
      await graphmill('load', small, '--workspace', 'small', ...at)
      const state = async () => {
        const text = await graphmill('status', '--json', '--workspace', 'small', ...at)
        return text === '' ? undefined : (JSON.parse(text) as { state: string }).state
      }
      await expect.poll(state, { timeout: 90_000, interval: 300 }).toBe('done')
      expect(calls.small).toBe(30)
      // A tenth of the work of the other one.
      expect(calls.big).toBeLessThan(3_000)
    } finally {
      await fair.end('SIGKILL')
    }
  })

  test('loading into a flow that the file does not have gives a suggestion', async () => {
    const child = startGraphmill(['load', book, '--flows', flowsFile(), ...place('clam')])
    expect((await child.ended).code).toBe(2)
    expect(child.stderr()).toMatch(/flows\.yaml has no flow acme\/clam\. Did you mean acme\/calm\? \[usage\]/)
  })
  test('a second SIGTERM ends draining flows at once', async () => {
    llm.set({ rules: [{ reply: () => new Promise<string>(() => undefined) }] })
    const inWork = llm.counts.concurrent
    // Another document: of an edited one only new text is asked about.
    book = join(folder, 'last.txt')
    writeFileSync(book, bookOf(chunks + 3))
    await load('calm')
    await llm.until(({ concurrent }) => concurrent > inWork)
    process.kill(runtime.pid, 'SIGTERM')
    await runtime.says('"msg":"stopping"')
    // Within half a second it would count as the first one heard twice.
    await setTimeout(600)
    const asked = performance.now()
    expect(await runtime.end('SIGTERM')).toEqual({ code: 0, signal: null })
    // The grace period is 135 s.
    expect(performance.now() - asked).toBeLessThan(60_000)
  })
})
