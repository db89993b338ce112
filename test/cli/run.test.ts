// `graphmill run` and the commands beside it, as processes of their own on a real Kafka, watched from outside.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { readGraph } from '../support/graph.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../support/otlp-receiver.ts'
import { freePorts } from '../support/ports.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../support/processes.ts'

const present = (await brokerSource('graphmill run, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('on Kafka', { timeout: 120_000 }, () => {
  let kafka: KafkaServer
  let receiver: OtlpReceiver
  let folder: string
  const started: GraphmillProcess[] = []

  beforeAll(async () => {
    kafka = await startKafka()
    receiver = await startOtlpReceiver()
    folder = await mkdtemp(join(tmpdir(), 'graphmill-run-'))
  })
  afterAll(async () => {
    for (const child of started) await child.end('SIGKILL')
    await receiver?.close()
    await kafka?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const place = (flow: string) => ['--broker', `kafka://${kafka.bootstrap.join(',')}`, '--flow', flow]
  const start = async (args: readonly string[], environment: Record<string, string>) => {
    const child = startGraphmill(args, environment)
    started.push(child)
    await child.says('"msg":"running"')
    return child
  }

  test('one trace goes from load to the last triple, across processes', async () => {
    await using llm = await startLlmServer()
    const model = { OPENAI_BASE_URL: llm.url, GRAPHMILL_MODEL: 'test-model', GRAPHMILL_NO_CACHE: 'true' }
    const flow = place('traced')
    const out = join(folder, 'triples')
    const shared = [...flow, '--http', 'off', '--extractors', 'definitions', '--provenance', 'none']
    const asking = ['chunk-text', 'prompt', 'extract-definitions']
    const mills = await Promise.all([
      start(['run', ...asking, ...shared], { ...model, ...receiver.environment('asking') }),
      start(
        ['run', 'emit-triples', 'store-triples', ...shared, '--out', out],
        receiver.environment('storing'),
      ),
    ])
    const file = join(folder, 'mill.txt')
    await writeFile(file, 'The mill stands by the river. The miller grinds the grain of the farmers.')
    const load = startGraphmill(['load', file, ...flow], receiver.environment('loading'))
    expect((await load.ended).code).toBe(0)
    const { documentId } = JSON.parse(load.stdout()) as { documentId: string }

    await expect.poll(async () => (await readGraph(out)).size, { timeout: 60_000 }).toBeGreaterThan(0)
    await receiver.until((spans) => spans.some(({ name }) => name === 'store-triples triples'))
    for (const mill of mills) expect((await mill.end('SIGTERM')).code).toBe(0)

    const ofDocument = receiver.spans.filter(
      ({ attributes }) => attributes['graphmill.document.id'] === documentId,
    )
    const first = receiver.spans.find(({ name }) => name === 'load document')!
    expect(first).toMatchObject({ process: 'loading', parentSpanId: '', kind: 4, failed: false })
    expect(ofDocument.map(({ traceId }) => traceId)).toEqual(ofDocument.map(() => first.traceId))
    const way = wayOf(ofDocument.find(({ name }) => name === 'store-triples triples')!, receiver.spans)
    expect(way.map(({ process, name }) => `${process}: ${name}`)).toEqual([
      'loading: load document',
      'asking: chunk-text document',
      'asking: extract-definitions chunk',
      'asking: prompt prompt',
      'asking: extract-definitions prompt-reply',
      'storing: emit-triples definitions',
      'storing: store-triples triples',
    ])
    expect(way.at(-1)!.attributes).toMatchObject({
      'messaging.operation.type': 'process',
      'messaging.destination.name': 'gm.flow.triples.default.traced',
      'messaging.consumer.group.name': 'gm.store-triples.triples.default.traced',
      'graphmill.chunk.id': `${documentId}/0/0`,
    })
  })

  test('says at /status.json and /metrics what it consumes, how far it is behind, and what it is', async () => {
    const [port] = await freePorts(1)
    const flow = place('told')
    const address = `127.0.0.1:${port}`
    const all = ['run', 'emit-triples', 'chunk-text', ...flow, '--http', address]
    const mill = await start(all, {})
    const file = join(folder, 'told.txt')
    await writeFile(file, 'The mill stands by the river.')
    await graphmill('load', file, ...flow)
    interface Status {
      readonly consumers: readonly { readonly processor: string; readonly lag: number | null }[]
    }
    const statusOf = async () => (await (await fetch(`http://${address}/status.json`)).json()) as Status
    const lagOf = async (processor: string) =>
      (await statusOf()).consumers.find((consumer) => consumer.processor === processor)?.lag
    await expect.poll(() => lagOf('chunk-text'), { timeout: 30_000 }).toBe(0)
    expect(await statusOf()).toMatchObject({
      versions: { graphmill: expect.stringMatching(/^\d+\.\d+/), node: process.versions.node },
      ready: true,
      configurationCurrent: true,
      flows: ['default/told'],
      away: [],
      consumers: expect.arrayContaining([
        {
          processor: 'chunk-text',
          topic: 'gm.flow.document.default.told',
          group: 'gm.chunk-text.document.default.told',
          workspace: 'default',
          flow: 'told',
          inFlight: 0,
          lag: 0,
        },
      ]),
    })
    const metrics = await (await fetch(`http://${address}/metrics`)).text()
    const labels = 'processor="chunk-text",consumer="gm.flow.document.default.told"'
    expect(metrics).toContain(`graphmill_lag{${labels}} 0`)
    expect(metrics).toContain(`tg_consumer_state{${labels},tg_consumer_state="running"} 1`)
    expect(metrics).toContain(`tg_consumer_processing_total{${labels},status="ok"} 1`)
    expect(metrics).toContain('tg_chunk_size_count{processor="chunk-text"} 1')
    expect((await mill.end('SIGTERM')).code).toBe(0)
  })

  async function retentionOf(name: string): Promise<string | undefined> {
    const client = new kafkajs.Kafka({ brokers: [...kafka.bootstrap], logLevel: kafkajs.logLevel.NOTHING })
    const admin = client.admin()
    await admin.connect()
    const wanted = { type: kafkajs.ConfigResourceTypes.TOPIC, name, configNames: ['retention.ms'] }
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [wanted] })
    await admin.disconnect()
    return resources[0]?.configEntries[0]?.configValue
  }

  test('topics are made as docs/operations.md counts them, and as the flows file says', async () => {
    interface Row {
      readonly topic: string
      readonly partitions: number
      readonly created: 'yes' | 'no'
    }
    const rowsOf = (text: string) =>
      text
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Row)
    const at = (space: string) => [
      '--broker',
      `kafka://${kafka.bootstrap.join()}`,
      '--space',
      space,
      '--json',
    ]
    const sumOf = (rows: readonly Row[]) => rows.reduce((sum, { partitions }) => sum + partitions, 0)
    const page = await readFile('docs/operations.md', 'utf8')
    const [, topics, partitions] = /has (\d+) topics with (\d+) partitions/.exec(page)!.map(Number)

    await graphmill('topics', 'create', ...at('plain'))
    const made = rowsOf(await graphmill('topics', 'describe', ...at('plain')))
    const ofFlow = made.filter(({ topic }) => topic !== 'plain.notify.schemas')
    expect([ofFlow.length, sumOf(ofFlow), made.length]).toEqual([topics, partitions, topics! + 1])

    const flows = join(folder, 'flows.yaml')
    const chunks = '{chunk: {partitions: 2}, prompt-reply: {partitions: 1}, document: {retention-days: 3}}'
    await writeFile(
      flows,
      `flows:\n  - {flow: small, extractors: [topics], topics: ${chunks}}\n  - {flow: rows, extractors: [rows], schemas: [none.json]}\n`,
    )
    const ofFile = [...at('filed'), '--flows', flows]
    const created = rowsOf(await graphmill('topics', 'create', ...ofFile))
    expect(created.every((row) => row.created === 'yes')).toBe(true)
    expect(rowsOf(await graphmill('topics', 'describe', ...at('filed')))).toEqual(
      created
        .map(({ topic, partitions }) => ({ topic, partitions }))
        .sort((a, b) => (a.topic < b.topic ? -1 : 1)),
    )
    const [small, rows] = ['small', 'rows'].map((flow) =>
      created.filter(({ topic }) => topic.endsWith(`.default.${flow}`)),
    )
    // As the page says: 16 topics with 75 partitions, for each extractor 1 with 12, for rows 1 with 3 more.
    expect([small!.length, sumOf(small!)]).toEqual([16 + 1, 75 + 12 - 10 - 11])
    expect([rows!.length, sumOf(rows!)]).toEqual([16 + 1 + 1, 75 + 12 + 3])

    expect(await retentionOf('filed.flow.document.default.small')).toBe(String(3 * 24 * 3600 * 1000))
    expect(await retentionOf('filed.flow.document.default.rows')).toBe('-1')

    await writeFile(flows, 'flows: [{flow: small, extractors: [topics], topics: {chunk: {partitions: 9}}}]')
    const again = rowsOf(await graphmill('topics', 'create', ...ofFile))
    expect(again.find(({ topic }) => topic === 'filed.flow.chunk.default.small')).toEqual({
      topic: 'filed.flow.chunk.default.small',
      partitions: 2,
      created: 'no',
    })
    const offline = ['--llm', 'offline', '--http', 'off', '--out', join(folder, 'filed')]
    const mill = await start(['run', '--all', ...ofFile.filter((flag) => flag !== '--json'), ...offline], {})
    expect(mill.stderr()).toMatch(
      /"topic":"filed\.flow\.chunk\.default\.small","partitions":2,"wanted":9,"msg":"a topic keeps the partitions/,
    )
    expect((await mill.end('SIGTERM')).code).toBe(0)
  })

  test('a document gets the collection of its flow in the flows file, unless load is told another', async () => {
    const flows = join(folder, 'collections.yaml')
    await writeFile(flows, 'flows: [{flow: kept, collection: letters}]')
    const file = join(folder, 'letter.txt')
    await writeFile(file, 'The mill stands by the river.')
    const load = ['load', file, '--flows', flows, ...place('kept')]
    await graphmill(...load)
    await graphmill(...load, '--collection', 'other')
    const tail = startGraphmill(['tail', 'document', '--from', 'earliest', ...place('kept')])
    started.push(tail)
    const collections = () =>
      tail
        .stdout()
        .split('\n')
        .slice(0, -1)
        .map((line) => (JSON.parse(line) as { collection: string }).collection)
    await expect.poll(() => collections().sort(), { timeout: 30_000 }).toEqual(['letters', 'other'])
    await tail.end('SIGTERM')
  })

  test('a typo in a prompt gets a suggestion', async () => {
    const flow = place('asked')
    const mill = await start(['run', 'prompt', ...flow, '--http', 'off', '--llm', 'offline'], {})
    const child = startGraphmill(['prompt', 'extract-definitons', '--term', 'text="x"', ...flow])
    expect((await child.ended).code).toBe(1)
    expect(child.stderr()).toMatch(
      /extract-definitons.*did you mean "extract-definitions".*\[prompt_unknown\]/,
    )
    expect((await mill.end('SIGTERM')).code).toBe(0)
  })
})

/** From the first span of the trace to this one. */
function wayOf(last: ReceivedSpan, spans: readonly ReceivedSpan[]): ReceivedSpan[] {
  const above = spans.find(({ spanId }) => spanId === last.parentSpanId)
  return above ? [...wayOf(above, spans), last] : [last]
}
