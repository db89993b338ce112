// `graphmill run` and the commands beside it, as processes of their own on a real Kafka, watched from outside.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
