// `graphmill run` and other commands as processes on a real Kafka, observed from outside.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../../src/broker/kafka/kafka.ts'
import { startEmbeddingsServer } from '../../ontology/support/embeddings-server.ts'
import { turtle } from '../../ontology/support/files.ts'
import { brokerSource } from '../../support/brokers.ts'
import { readGraph } from '../../support/graph.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { startLlmServer } from '../../support/llm-server.ts'
import { measureLoad } from '../../support/load-memory.ts'
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../../support/otlp-receiver.ts'
import { freePorts } from '../../support/ports.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../../support/processes.ts'
import { startRecordingServer } from '../../support/recording-server.ts'

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
    const runtimes = await Promise.all([
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
    for (const runtime of runtimes) expect((await runtime.end('SIGTERM')).code).toBe(0)

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
      'graphmill.chunk.id': expect.stringMatching(new RegExp(`^${documentId}/[0-9a-f]{16}$`)),
    })
  })

  test('reports its consumers, their lag and its version at /status.json and /metrics', async () => {
    const [port] = await freePorts(1)
    const flow = place('told')
    const address = `127.0.0.1:${port}`
    const all = ['run', 'emit-triples', 'chunk-text', ...flow, '--http', address]
    const runtime = await start(all, {})
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
      unavailable: [],
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
    expect(metrics).toContain(`graphmill_lag{${labels},workspace="default",flow="told"} 0`)
    expect(metrics).toContain(`tg_consumer_state{${labels},tg_consumer_state="running"} 1`)
    expect(metrics).toContain(`tg_consumer_processing_total{${labels},status="ok"} 1`)
    expect(metrics).toContain('tg_chunk_size_count{processor="chunk-text"} 1')
    expect((await runtime.end('SIGTERM')).code).toBe(0)
  })

  test('a running flow has every TrustGraph metric that the page lists, with its labels', async () => {
    await using llm = await startLlmServer({
      refuse: { kind: 'rate-limit', first: 1 },
      rules: [
        { match: '{"definition": ', reply: { text: '{"entity":"mill","definition":"a machine"}' } },
        { match: 'ontology', reply: '' },
      ],
    })
    const embeddings = await startEmbeddingsServer()
    let writes = 0
    await using store = await startRecordingServer([
      { by: (response) => response.writeHead(++writes === 1 ? 503 : 204).end() },
    ])
    const ontology = join(folder, 'mills.ttl')
    const classes = Array.from(
      { length: 200 },
      (_, n) => `e:Thing${n} a owl:Class ; rdfs:comment "A thing." .`,
    )
    await writeFile(ontology, turtle(classes.join('\n')))
    const file = join(folder, 'counted.txt')
    await writeFile(file, 'The mill stands by the river.')
    const [port] = await freePorts(1)
    const address = `127.0.0.1:${port}`
    const flow = place('counted')
    const options = {
      ...{ http: address, extractors: 'definitions,ontology', ontologies: ontology, store: store.origin },
      ...{ embeddings: embeddings.url, 'embeddings-model': 'vectors', 'ontology-budget': '60' },
      ...{
        model: 'test-model',
        temperature: '0',
        prices: 'test-model=2/8',
        'cache-dir': join(folder, 'cache'),
      },
    }
    const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value])
    const runtime = await start(['run', '--all', ...flow, ...flags], { OPENAI_BASE_URL: llm.url })
    await graphmill('load', file, ...flow)

    const page = await readFile('docs/metrics.md', 'utf8')
    const told = [...page.matchAll(/^\| `(tg_\w+)` \| (\w+) \| ([^|]*) \|/gm)].map(
      ([, name = '', type = '', labels = '']) => ({ name, type, labels: labels.split(', ').sort() }),
    )
    expect(told.length).toBeGreaterThan(20)
    const scrape = async () => (await fetch(`http://${address}/metrics`)).text()
    /** The metrics of the scrape that have counted something. */
    const shownIn = (text: string) =>
      told.flatMap(({ name }) => {
        const [, type = ''] = new RegExp(`^# TYPE ${name} (\\w+)$`, 'm').exec(text) ?? []
        const sample = new RegExp(`^${name}${type === 'histogram' ? '_count' : ''}\\{(.*)\\} (?!0$).+$`, 'm')
        const [, labels] = sample.exec(text) ?? []
        if (labels === undefined) return []
        return [{ name, type, labels: [...labels.matchAll(/(\w+)="/g)].map(([, label]) => label).sort() }]
      })
    await expect.poll(async () => shownIn(await scrape()), { timeout: 30_000 }).toEqual(told)

    let text = ''
    const ofModel = (direction: string) => `{model="test-model",direction="${direction}"}`
    const sampleOf = (series: string) =>
      Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${series} `))
          ?.split(' ')
          .at(-1),
      )
    // The first items of a reply are counted before its tokens are, and one of the two replies is empty.
    const written = async () => {
      text = await scrape()
      return sampleOf(`tg_metering_tokens_total${ofModel('output')}`)
    }
    await expect.poll(written, { timeout: 30_000 }).toBeGreaterThan(0)
    for (const [direction, price] of [
      ['input', 2],
      ['output', 8],
    ] as const)
      expect(sampleOf(`tg_metering_cost_usd_total${ofModel(direction)}`)).toBeCloseTo(
        (sampleOf(`tg_metering_tokens_total${ofModel(direction)}`) * price) / 1e6,
      )
    const asked = 'processor="prompt",model="test-model",temperature="0"'
    expect(sampleOf(`tg_text_completion_model_info{${asked}}`)).toBe(1)
    const ofOntology = 'processor="extract-ontology"'
    expect(sampleOf(`tg_ontology_loaded_count{${ofOntology},workspace="default"}`)).toBe(1)
    expect(sampleOf(`tg_ontology_element_count{${ofOntology}}`)).toBe(200)
    const texts = embeddings.requests.map((request) => request.length)
    const ofVectors = `${ofOntology},model="vectors"`
    expect(sampleOf(`tg_embeddings_request_total{${ofVectors}}`)).toBe(texts.length)
    expect(sampleOf(`tg_embeddings_batch_size_sum{${ofVectors}}`)).toBe(
      texts.reduce((sum, each) => sum + each, 0),
    )
    expect(sampleOf('tg_triples_store_write_error_total{processor="store-triples"}')).toBe(1)
    // Its last bound is at least eight calls of 120 s.
    const bounds = [...text.matchAll(/^tg_extraction_duration_seconds_bucket\{le="([\d.]+)"/gm)].map(
      ([, le]) => Number(le),
    )
    expect(Math.max(...bounds)).toBeGreaterThanOrEqual(8 * 120)
    expect((await runtime.end('SIGTERM')).code).toBe(0)
    await embeddings.close()
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

  test('topics are created as docs/operations.md counts them and as the flows file says', async () => {
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
    // As the page says: 18 topics with 81 partitions, for each extractor 1 with 12, for rows 1 with 3 more.
    expect([small!.length, sumOf(small!)]).toEqual([18 + 1, 81 + 12 - 10 - 11])
    expect([rows!.length, sumOf(rows!)]).toEqual([18 + 1 + 1, 81 + 12 + 3])

    expect(await retentionOf('filed.flow.document.default.small')).toBe(String(3 * 24 * 3600 * 1000))
    expect(await retentionOf('filed.flow.document.default.rows')).toBe('-1')

    await writeFile(flows, 'flows: [{flow: small, extractors: [topics], topics: {chunk: {partitions: 9}}}]')
    const again = rowsOf(await graphmill('topics', 'create', ...ofFile))
    expect(again.find(({ topic }) => topic === 'filed.flow.chunk.default.small')).toEqual({
      topic: 'filed.flow.chunk.default.small',
      partitions: 2,
      created: 'no',
      groups: 1,
    })
    const offline = ['--llm', 'offline', '--http', 'off', '--out', join(folder, 'filed')]
    const runtime = await start(
      ['run', '--all', ...ofFile.filter((flag) => flag !== '--json'), ...offline],
      {},
    )
    expect(runtime.stderr()).toMatch(
      /"topic":"filed\.flow\.chunk\.default\.small","partitions":2,"wanted":9,"msg":"a topic keeps the number of partitions/,
    )
    expect((await runtime.end('SIGTERM')).code).toBe(0)
  })

  test('before a pod has run, the lag that KEDA computes is what is left to read', async () => {
    const chunks = 'gm.flow.chunk.default.keda'
    const broker = await connectKafka({ brokers: kafka.bootstrap })
    await broker.ensureTopics([{ name: chunks, partitions: 1 }])
    for (let n = 0; n < 10; n++)
      await broker.publish({ topic: chunks, key: 'k', value: Buffer.from('x'), headers: {} })
    await broker.close()
    const client = new kafkajs.Kafka({ brokers: [...kafka.bootstrap], logLevel: kafkajs.logLevel.NOTHING })
    const admin = client.admin()
    await admin.connect()
    await admin.fetchTopicOffsets(chunks) // it knows the leader only then
    await admin.deleteTopicRecords({ topic: chunks, partitions: [{ partition: 0, offset: '4' }] })
    const on = ['--broker', `kafka://${kafka.bootstrap.join()}`, '--flow', 'keda', '--json']
    const rowsOf = async (command: string) =>
      (await graphmill('topics', command, ...on))
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as { topic: string; group: string; groups: number })
    const created = await rowsOf('create')
    // The extractors that the flow does not have are listed there, too.
    const others = /^gm\.extract-(rows|agent-kg|ontology)\./
    const groups = (await rowsOf('lag')).filter(({ group }) => !others.test(group))
    for (const { topic, groups: count } of created)
      expect([topic, groups.filter((each) => each.topic === topic)]).toMatchObject([topic, { length: count }])
    expect(groups.filter(({ topic }) => topic === chunks).length).toBeGreaterThanOrEqual(3)
    for (const { group, topic } of groups) {
      const ends = await admin.fetchTopicOffsets(topic)
      const [committed] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      const positions = new Map(committed!.partitions.map(({ partition, offset }) => [partition, offset]))
      // The formula of KEDA's Kafka trigger, which takes -1 for a group that has read nothing.
      const lags = ends.map(({ partition, offset }) => {
        expect([group, partition, Number(positions.get(partition))]).not.toContain(-1)
        return Number(offset) - Number(positions.get(partition))
      })
      expect([group, lags]).toEqual([group, topic === chunks ? [6] : ends.map(() => 0)])
    }
    await admin.disconnect()
  })

  test('a document gets the collection of its flow in the flows file, unless load names another', async () => {
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

  test('a folder is loaded side by side, in order; what cannot be loaded stops nothing, and Ctrl-C leaves whole documents', async () => {
    const many = join(folder, 'many')
    await mkdir(many)
    const names = Array.from({ length: 1000 }, (_, number) => `${String(number).padStart(4, '0')}.txt`)
    for (const name of names)
      await writeFile(join(many, name), name === '0100.txt' ? ' ' : `${name} is of a mill.`)
    const linesOf = (child: GraphmillProcess) =>
      child
        .stdout()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as { title: string; documentId: string })
    const partsOf = async (flow: string) => {
      const broker = await connectKafka({ brokers: kafka.bootstrap })
      const parts: string[] = []
      const range = { topic: `gm.flow.document.default.${flow}`, from: 'earliest', until: 'end' } as const
      for await (const { key } of broker.read(range, AbortSignal.timeout(60_000))) parts.push(key)
      await broker.close()
      return parts.sort()
    }

    const whole = startGraphmill(['load', many, ...place('many')])
    expect((await whole.ended).code).toBe(4)
    expect(linesOf(whole).map(({ title }) => title)).toEqual(names.filter((name) => name !== '0100.txt'))
    expect(whole.stderr()).toContain('0100.txt: it holds no text. [document_empty]')
    expect(await partsOf('many')).toEqual(
      linesOf(whole)
        .map(({ documentId }) => documentId)
        .sort(),
    )

    // So often that it is stopped long before the end.
    const stopped = startGraphmill(['load', ...Array.from({ length: 20 }, () => many), ...place('stopped')])
    started.push(stopped)
    await expect.poll(() => linesOf(stopped).length, { interval: 5, timeout: 60_000 }).toBeGreaterThan(0)
    expect(await stopped.end('SIGINT')).toMatchObject({ code: 1 })
    const complete = linesOf(stopped)
    expect(complete.length).toBeLessThan(20 * 999)
    expect(stopped.stderr()).toContain(`Stopped after ${complete.length} complete documents`)
    // On a busy machine some may not be finished in time: those are named.
    const unfinished = stopped.stderr().match(/not loaded completely/g)?.length ?? 0
    const parts = await partsOf('stopped')
    expect(
      [...new Set(complete.map(({ documentId }) => documentId))].filter((id) => !parts.includes(id)),
    ).toEqual([])
    expect(parts.length).toBeGreaterThanOrEqual(complete.length)
    expect(parts.length).toBeLessThanOrEqual(complete.length + unfinished)
  })

  // The garbage of the sources, run without the flags of bin, takes some 350 MB at most; both texts reach that.
  test('loading a text of 200 MB needs no more memory than one of 80 MB, apart from garbage not yet collected', async () => {
    const measure = (megabytes: number) =>
      measureLoad(megabytes, { folder, place: place(`long-${megabytes}`) })
    const short = await measure(80)
    let long = await measure(200)
    // Elsewhere than on Linux, the peak is at least that of the process that started it.
    const more = () => (long.resident || long.peak) - (short.resident || short.peak)
    // How late garbage is collected differs from one process to the next.
    for (let again = 0; again < 2 && more() >= 50e6; again++) long = await measure(200)
    // Document parts have at most 512 KiB.
    expect(long.parts).toBeGreaterThanOrEqual(200e6 / (512 * 1024))
    expect(long.parts).toBeGreaterThan(2 * short.parts)
    expect(more()).toBeLessThan(50e6)
  })

  test('a typo in a prompt gets a suggestion', async () => {
    const flow = place('asked')
    const runtime = await start(['run', 'prompt', ...flow, '--http', 'off', '--llm', 'offline'], {})
    const child = startGraphmill(['prompt', 'extract-definitons', '--term', 'text="x"', ...flow])
    expect((await child.ended).code).toBe(1)
    expect(child.stderr()).toMatch(
      /extract-definitons.*did you mean "extract-definitions".*\[prompt_unknown\]/,
    )
    expect((await runtime.end('SIGTERM')).code).toBe(0)
  })

  test('waits at the start for an unavailable model whose name it has to ask for', async () => {
    const [port] = await freePorts(1)
    const url = `http://127.0.0.1:${port}/v1`
    const runtime = startGraphmill(['run', 'prompt', ...place('early'), '--http', 'off'], {
      OPENAI_BASE_URL: url,
      OPENAI_API_KEY: 'k',
    })
    started.push(runtime)
    await runtime.says('"msg":"waiting for the model"')
    await using _llm = await startLlmServer({}, port)
    await runtime.says('"msg":"running"')
    expect((await runtime.end('SIGTERM')).code).toBe(0)
  })

  test('reports in its log, at /readyz and in /metrics that the broker is unavailable, and that it is back', async () => {
    const [port] = await freePorts(1)
    const address = `127.0.0.1:${port}`
    const runtime = await start(
      ['run', 'chunk-text', 'emit-triples', ...place('cut-off'), '--http', address],
      {},
    )
    const get = async (path: string) => {
      const response = await fetch(`http://${address}/${path}`)
      return { code: response.status, text: await response.text() }
    }
    const patience = { timeout: 30_000, interval: 200 }
    await expect.poll(async () => (await get('readyz')).code, patience).toBe(200)
    await kafka.shutDown(0)
    await expect.poll(async () => (await get('readyz')).code, patience).toBe(503)
    expect(JSON.parse((await get('readyz')).text)).toMatchObject({
      status: 'unavailable',
      unavailable: ['broker'],
    })
    expect(JSON.parse((await get('status.json')).text)).toMatchObject({
      ready: false,
      unavailable: ['broker'],
    })
    expect((await get('metrics')).text).toContain('graphmill_circuit_open{circuit="broker"} 1\n')
    await kafka.restart(0)
    await expect.poll(async () => (await get('readyz')).code, patience).toBe(200)
    expect(JSON.parse((await get('readyz')).text)).toMatchObject({ status: 'ready', unavailable: [] })
    const lines = runtime
      .stderr()
      .split('\n')
      .filter((line) => line.includes('"the broker is '))
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({
        msg: 'the broker is unavailable',
        err: expect.objectContaining({ code: 'broker_unavailable', remedy: expect.any(String) }),
      }),
      expect.objectContaining({ msg: 'the broker is available again' }),
    ])
    expect((await runtime.end('SIGTERM')).code).toBe(0)
  })
})

/** From the first span of the trace to this one. */
function wayOf(last: ReceivedSpan, spans: readonly ReceivedSpan[]): ReceivedSpan[] {
  const above = spans.find(({ spanId }) => spanId === last.parentSpanId)
  return above ? [...wayOf(above, spans), last] : [last]
}
