// What a `graphmill run` does when its broker deletes a topic, or revokes the permission to read one. A real
// Kafka, whose access lists change while it runs.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import kafkajs, { type Admin } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { bookOf, chunkSize, difference, readGraph, same } from '../support/graph.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { answerer } from '../support/llm-script.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { freePorts } from '../support/ports.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../support/processes.ts'

const present = (await brokerSource('faults of flows, on Kafka', ['jars'])) !== undefined

interface Status {
  readonly flows: readonly string[]
  readonly failedFlows: readonly { readonly flow: string; readonly code: string }[]
  readonly configurationProblem: string | null
  readonly consumers: readonly { readonly topic: string; readonly inFlight: number }[]
}

describe.skipIf(!present)('a flow with a broker fault', { timeout: 180_000 }, () => {
  const chunks = 12
  const units = 3 * chunks
  /** A retry comes after 30 s. */
  const patience = { timeout: 90_000, interval: 500 }
  let kafka: KafkaServer
  let admin: Admin
  let llm: LlmServer
  let folder: string
  let book: string
  let broker: readonly string[]
  const started: GraphmillProcess[] = []
  const gates = new Map<string, PromiseWithResolvers<void>>()

  beforeAll(async () => {
    kafka = await startKafka({
      properties: {
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'allow.everyone.if.no.acl.found': 'true',
      },
    })
    admin = new kafkajs.Kafka({
      brokers: [...kafka.bootstrap],
      logLevel: kafkajs.logLevel.NOTHING,
    }).admin()
    await admin.connect()
    llm = await startLlmServer({
      rules: [
        {
          async reply(call) {
            await gates.get(String(call.body['model']))?.promise
            return answerer({})(call)
          },
        },
      ],
    })
    folder = mkdtempSync(join(tmpdir(), 'graphmill-faults-'))
    book = join(folder, 'book.txt')
    writeFileSync(book, bookOf(chunks))
    broker = ['--broker', `kafka://${kafka.bootstrap.join()}`, '--workspace', 'acme', '--no-cache']
  })
  afterAll(async () => {
    for (const runtime of started) await runtime.end('SIGKILL')
    await llm?.close()
    await admin?.disconnect()
    await kafka?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  async function start(...parameters: readonly string[]) {
    const [port] = await freePorts(1)
    const http = `127.0.0.1:${port}`
    const all = ['run', '--all', ...broker, '--http', http, '--out', join(folder, 'out'), ...parameters]
    const runtime = startGraphmill([...all, '--provenance', 'none', '--chunk-size', String(chunkSize)], {
      OPENAI_BASE_URL: llm.url,
      GRAPHMILL_MODEL: 'test-model',
    })
    started.push(runtime)
    const get = (page: string) => fetch(`http://${http}/${page}`)
    const status = async () => (await (await get('status.json')).json()) as Status
    return {
      runtime,
      get,
      status,
      /** Requests of a flow to the model. */
      async inFlight(flow: string) {
        const { consumers } = await status()
        return consumers.find(({ topic }) => topic === `gm.request.prompt.acme.${flow}`)?.inFlight
      },
      metrics: async () => (await get('metrics')).text(),
      says: (phrase: string, flow: string) =>
        runtime
          .stderr()
          .split('\n')
          .filter((line) => line.includes(`"${phrase}"`) && line.includes(`"flow":"${flow}"`)).length,
    }
  }

  /** Two flows whose models are named after them. */
  function flowsFile(name: string, ...flows: readonly string[]): string {
    const file = join(folder, `${name}.yaml`)
    const entries = flows.map((flow) => `{workspace: acme, flow: ${flow}, model: ${flow}}`)
    writeFileSync(file, `flows: [${entries.join()}]`)
    return file
  }

  /** The model does not answer a flow until the result is called. */
  function hold(flow: string): () => void {
    const gate = Promise.withResolvers<void>()
    gates.set(flow, gate)
    return gate.resolve
  }

  const calls = (model: string) => llm.requests.filter(({ body }) => body?.model === model).length

  const load = (flow: string) =>
    graphmill('load', book, '--flow', flow, ...broker.filter((each) => each !== '--no-cache'))
  async function unitsOf(flow: string): Promise<unknown> {
    const at = broker.filter((each) => each !== '--no-cache')
    const text = await graphmill('status', '--json', '--flow', flow, ...at)
    return text === '' ? undefined : (JSON.parse(text) as { units: unknown }).units
  }
  const done = { expected: units, done: units, partial: 0, dead: 0 }

  /** Denies all access to the topic until the result is called. */
  async function refuse(topic: string): Promise<() => Promise<void>> {
    const rule = {
      resourceType: kafkajs.AclResourceTypes.TOPIC,
      resourceName: topic,
      resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
      principal: 'User:*',
      host: '*',
      operation: kafkajs.AclOperationTypes.ALL,
      permissionType: kafkajs.AclPermissionTypes.DENY,
    }
    await admin.createAcls({ acl: [rule] })
    return async () => void (await admin.deleteAcls({ filters: [rule] }))
  }

  test('is the only one that fails when its topic is deleted, and returns with all its messages in flight', async () => {
    const { runtime, get, status, inFlight, metrics, says } = await start(
      '--flows',
      flowsFile('two', 'lost', 'calm'),
    )
    await runtime.says('"msg":"running"')
    const answer = { lost: hold('lost'), calm: hold('calm') }
    await Promise.all([load('lost'), load('calm')])
    await expect.poll(() => inFlight('lost'), patience).toBe(units)
    await expect.poll(() => inFlight('calm'), patience).toBe(units)
    await expect.poll(() => calls('lost'), patience).toBeGreaterThan(0)

    await admin.deleteTopics({ topics: ['gm.request.prompt.acme.lost'] })
    await expect
      .poll(async () => (await status()).failedFlows, patience)
      .toEqual([
        {
          flow: 'acme/lost',
          code: 'topic_missing',
          message: expect.stringContaining('acme/lost: gm.request.prompt.acme.lost: '),
          remedy: expect.any(String),
          since: expect.stringMatching(/^\d{4}-.*Z$/),
        },
      ])
    expect(await status()).toMatchObject({
      flows: ['acme/calm'],
      configurationProblem: expect.stringContaining('acme/lost: gm.request.prompt.acme.lost: '),
    })
    const ready = await get('readyz')
    expect([ready.status, await ready.json()]).toMatchObject([
      200,
      { status: 'ready', flows: ['acme/calm'], failedFlows: [{ flow: 'acme/lost', code: 'topic_missing' }] },
    ])
    expect(says('flow does not run', 'acme/lost')).toBe(1)
    const shown = await metrics()
    expect(shown).toContain('graphmill_flow_running{workspace="acme",flow="calm"} 1\n')
    expect(shown).toContain('graphmill_flow_running{workspace="acme",flow="lost"} 0\n')
    expect(shown).toContain('graphmill_configuration_current 0\n')

    answer.calm()
    await expect.poll(() => unitsOf('calm'), patience).toEqual(done)
    answer.lost()
    await expect.poll(() => unitsOf('lost'), patience).toEqual(done)
    expect(await status()).toMatchObject({
      flows: expect.arrayContaining(['acme/calm', 'acme/lost']),
      failedFlows: [],
      configurationProblem: null,
    })
    expect([says('flow runs', 'acme/lost'), says('flow runs', 'acme/calm')]).toEqual([2, 1])
    expect([calls('lost'), calls('calm')]).toEqual([units, units])
    const triplesOf = (flow: string) => readGraph(join(folder, 'out'), `acme.${flow}.`)
    const differs = async () => difference(await triplesOf('lost'), await triplesOf('calm'))
    await expect.poll(differs, patience).toEqual(same)

    // A removed flow is not shown.
    expect(await metrics()).toContain('.acme.lost"')
    flowsFile('two', 'calm')
    await expect.poll(async () => (await status()).flows, patience).toEqual(['acme/calm'])
    await expect.poll(metrics, patience).not.toMatch(/acme\.lost|flow="lost"/)
    expect(await metrics()).toContain('.acme.calm"')
    expect((await runtime.end('SIGTERM')).code).toBe(0)
  })

  test('returns when its permission on a topic is restored; if all flows are refused, the process ends', async () => {
    const { runtime, status, says } = await start('--flows', flowsFile('refused', 'barred', 'free'))
    await runtime.says('"msg":"running"')
    const giveBack = await refuse('gm.flow.triples.acme.barred')
    await expect
      .poll(async () => (await status()).failedFlows, patience)
      .toMatchObject([{ flow: 'acme/barred', code: 'topic_refused' }])
    await load('free')
    await expect.poll(() => unitsOf('free'), patience).toEqual(done)
    await giveBack()
    await expect.poll(async () => (await status()).failedFlows, patience).toEqual([])
    await load('barred')
    await expect.poll(() => unitsOf('barred'), patience).toEqual(done)
    expect(says('flow runs', 'acme/free')).toBe(1)

    const refused = performance.now()
    const allow = [await refuse('gm.flow.triples.acme.barred'), await refuse('gm.flow.triples.acme.free')]
    expect(await runtime.ended).toEqual({ code: 1, signal: null })
    expect(performance.now() - refused).toBeLessThan(30_000)
    expect(runtime.stderr()).toMatch(
      /graphmill: acme\/(barred|free): gm\.flow\.triples\..* \[topic_refused\]/,
    )
    for (const one of allow) await one()
  })

  test('that is the only one ends its process with 1 within seconds, whatever is in flight, and a new process continues', async () => {
    const answer = hold('test-model')
    const only = ['--flow', 'only']
    const first = await start(...only)
    await first.runtime.says('"msg":"running"')
    await load('only')
    await expect.poll(() => first.inFlight('only'), patience).toBe(units)
    await expect.poll(() => calls('test-model'), patience).toBeGreaterThan(0)
    const gone = performance.now()
    await admin.deleteTopics({ topics: ['gm.flow.triples.acme.only'] })
    expect(await first.runtime.ended).toEqual({ code: 1, signal: null })
    expect(performance.now() - gone).toBeLessThan(30_000)
    expect(first.runtime.stderr()).toMatch(/graphmill: gm\.flow\.triples\.acme\.only: .* \[topic_missing\]/)
    answer()
    const second = await start(...only)
    await expect.poll(() => unitsOf('only'), patience).toEqual(done)
    expect((await second.runtime.end('SIGTERM')).code).toBe(0)
  })

  test('that is refused from the start ends the process too', async () => {
    await graphmill('topics', 'create', '--flow', 'shut', ...broker.filter((each) => each !== '--no-cache'))
    const allow = await refuse('gm.flow.chunk.acme.shut')
    const { runtime } = await start('--flow', 'shut')
    expect(await runtime.ended).toEqual({ code: 1, signal: null })
    expect(runtime.stderr()).toMatch(/\[topic_refused\]/)
    await allow()
  })
})
