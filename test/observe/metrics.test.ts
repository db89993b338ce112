import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { processors } from '../../processors/index.ts'
import { GraphmillError } from '../../src/errors.ts'
import { defineProcessor } from '../../src/flow/processor.ts'
import { createCircuits } from '../../src/flow/runner/circuits.ts'
import { openCache } from '../../src/llm/cache/reply-cache.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import { createMetrics, type FlowMetrics } from '../../src/observe/metrics.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'
import type { Answer } from '../support/llm-script.ts'
import { startLlmServer } from '../support/llm-server.ts'

let flow: TestFlow | undefined
let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-metrics-'))
})
afterEach(async () => {
  await flow?.stop()
  flow = undefined
  await rm(folder, { recursive: true, force: true })
})

/** The value of a metric, summed over what the labels leave open; undefined where nothing was counted. */
async function metricOf(
  { registry }: FlowMetrics,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number | undefined> {
  const base = name.replace(/_(count|sum)$/, '')
  const metric = (await registry.getMetricsAsJSON()).find((each) => each.name === name || each.name === base)
  const values = (metric?.values ?? []) as readonly {
    readonly value: number
    readonly metricName?: string
    readonly labels: Readonly<Record<string, unknown>>
  }[]
  const found = values.filter(
    (each) =>
      (each.metricName ?? metric?.name) === name &&
      Object.entries(labels).every(([label, value]) => each.labels[label] === value),
  )
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0)
}

const wanted = ['chunk-text', 'prompt', 'extract-definitions', 'emit-triples', 'store-triples']
const document = (text: string) => ({
  title: 't',
  uri: '',
  mediaType: 'text/plain',
  part: 0,
  offset: 0,
  text,
})
const prompt = 'extract-definitions'
const model = 'test-model'

/** Extracts definitions from documents of one chunk, each with the model's answer to it. */
async function extract(answers: readonly Answer[]): Promise<FlowMetrics> {
  await using server = await startLlmServer({ rules: [{ reply: answers }] })
  const metrics = createMetrics()
  flow = await startFlow(
    processors.filter(({ name }) => wanted.includes(name)),
    {
      metrics,
      llm: createOpenAi({ baseUrl: server.url, model }),
      replies: openCache({ dir: folder }),
      limits: { maxContinuations: 0, maxCalls: 1 },
      flows: [{ ...scope, settings: { ...settings, extractors: ['extract-definitions'] } }],
    },
  )
  for (const [n] of answers.entries()) {
    await flow.send('document', document(`The mill ${n} stands by the river.`), { documentId: `urn:d${n}` })
    const labels = { extractor: 'definitions' }
    await expect.poll(() => metricOf(metrics, 'tg_extraction_duration_seconds_count', labels)).toBe(n + 1)
  }
  return metrics
}

const runtime = '{"entity":"mill","definition":"a machine"}\n'

describe('the metrics of an extraction count', () => {
  test('chunks, facts, triples, entities, calls and tokens', async () => {
    const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
    const metrics = await extract([{ text: runtime, usage }])
    const extractor = 'definitions'
    const value = (name: string, labels = {}) => metricOf(metrics, name, labels)
    expect(await value('tg_chunk_size_count', { processor: 'chunk-text' })).toBe(1)
    expect(await value('tg_chunk_size_sum')).toBe('The mill 0 stands by the river.'.length)
    expect(await value('graphmill_facts_total', { extractor, kind: 'definitions' })).toBe(1)
    await expect
      .poll(() => value('tg_extraction_triple_total', { processor: 'emit-triples', extractor }))
      .toBeGreaterThan(1)
    await expect.poll(() => value('tg_extraction_entity_total', { extractor })).toBe(2)
    expect(await value('graphmill_model_calls_total', { prompt, reason: 'first' })).toBe(1)
    expect(await value('tg_metering_tokens_total', { direction: 'input' })).toBe(100)
    expect(await value('tg_metering_tokens_total', { direction: 'output' })).toBe(20)
    expect(await value('tg_text_completion_duration_seconds_count', { processor: 'prompt' })).toBe(1)
    expect(await value('graphmill_model_call_seconds_count', { model })).toBe(1)
    expect(await value('graphmill_first_item_seconds_count', { prompt, model })).toBe(1)
    expect(await value('tg_extraction_empty_total')).toBe(undefined)
  })

  test('models and sources as far as a process can remember them, whatever servers and senders name', async () => {
    const metrics = createMetrics()
    flow = await startFlow(
      processors.filter(({ name }) => name === 'emit-triples'),
      { metrics },
    )
    const topics = { run: { id: 'r', startedAt: 1 }, facts: [{ topic: 'mill', definition: 'a machine' }] }
    const sent = 1100
    for (let n = 0; n < sent; n++)
      await flow.send('topics', topics, {
        source: `${n}${'x'.repeat(n === 0 ? 20_000 : 0)}`,
        chunkId: `c${n}`,
      })
    const name = 'tg_extraction_triple_total'
    await expect.poll(() => metricOf(metrics, 'tg_consumer_processing_total')).toBe(sent)
    const samples = (await metrics.registry.getSingleMetricAsString(name)).split('\n')
    expect(samples.length).toBeLessThan(1010)
    expect(Math.max(...samples.map(({ length }) => length))).toBeLessThan(1000)
    const other = await metricOf(metrics, name, { extractor: 'other' })
    expect(other).toBeGreaterThanOrEqual(100)
    const { modelLabel } = metrics.extraction
    for (let n = 0; n < 1000; n++) expect(modelLabel(`model ${n}`)).toBe(`model ${n}`)
    expect([modelLabel('one more'), modelLabel('model 7')]).toEqual(['other', 'model 7'])
  })

  test('the time from load to triples', async () => {
    const metrics = createMetrics()
    flow = await startFlow(
      processors.filter(({ name }) => name === 'store-triples'),
      { metrics },
    )
    // One whose sender does not say when its document was loaded does not count.
    await flow.send('triples', { triples: [] }, { versionTime: 0 })
    await flow.send('triples', { triples: [] }, { versionTime: Date.now() - 40_000 })
    await expect.poll(() => metricOf(metrics, 'tg_consumer_processing_total', { status: 'ok' })).toBe(2)
    const labels = { processor: 'store-triples', workspace: 'default', flow: 'default' }
    const name = 'graphmill_load_to_triples_seconds'
    await expect.poll(() => metricOf(metrics, `${name}_count`, labels)).toBe(1)
    const seconds = await metricOf(metrics, `${name}_sum`, labels)
    expect(seconds).toBeGreaterThanOrEqual(40)
    expect(seconds).toBeLessThan(100)
  })

  test('calls and tokens of a run that fails', async () => {
    const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
    await using server = await startLlmServer({
      rules: [{ reply: { text: runtime, truncateAfter: 2, usage } }],
    })
    const metrics = createMetrics()
    flow = await startFlow(
      processors.filter(({ name }) => wanted.includes(name)),
      {
        metrics,
        llm: createOpenAi({ baseUrl: server.url, model }),
        flows: [{ ...scope, settings: { ...settings, extractors: ['extract-definitions'] } }],
      },
    )
    await flow.send('document', document('The mill stands by the river.'), { documentId: 'urn:d' })
    const value = (name: string, labels = {}) => metricOf(metrics, name, labels)
    await expect.poll(() => value('graphmill_dead_letters_total', { code: 'item_too_long' })).toBe(1)
    expect(await value('graphmill_model_calls_total', { prompt, model, reason: 'first' })).toBe(1)
    expect(await value('graphmill_model_calls_total', { prompt, model, reason: 'longer' })).toBe(1)
    expect(await value('tg_metering_tokens_total', { direction: 'input' })).toBe(200)
    expect(await value('tg_metering_tokens_total', { direction: 'output' })).toBe(40)
  })

  test('rejected, repaired and repeated items, replies cut off, and replies without an item', async () => {
    const metrics = await extract([
      `${runtime}${runtime}{entity:"river","definition":"water"}\n{"entity":"weir"}\n`,
      { text: `${runtime}{"entity":"sai`, finish: 'length' },
      '',
    ])
    const value = (name: string, labels = {}) => metricOf(metrics, name, labels)
    expect(await value('graphmill_rejected_total', { prompt, reason: 'schema' })).toBe(1)
    expect(await value('graphmill_repaired_total', { prompt })).toBe(1)
    expect(await value('graphmill_repeated_total', { prompt })).toBe(1)
    expect(await value('graphmill_truncated_total', { prompt })).toBe(1)
    expect(await value('graphmill_incomplete_total', { prompt, reason: 'truncated' })).toBe(1)
    expect(await value('tg_extraction_empty_total', { extractor: 'definitions' })).toBe(1)
  })

  test('a remembered reply is a cache hit: no call, no tokens, no old durations', async () => {
    const metrics = await extract([runtime])
    const value = (name: string, labels = {}) => metricOf(metrics, name, labels)
    const tokens = await value('tg_metering_tokens_total')
    await flow!.send('document', document('The mill 0 stands by the river.'), { documentId: 'urn:again' })
    await expect.poll(() => value('graphmill_facts_total')).toBe(2)
    expect(await value('graphmill_cache_hits_total', { prompt })).toBe(1)
    expect(await value('graphmill_model_calls_total')).toBe(1)
    expect(await value('tg_metering_tokens_total')).toBe(tokens)
    expect(await value('graphmill_first_item_seconds_count')).toBe(1)
    expect(await value('tg_extraction_duration_seconds_count')).toBe(1)
  })
})

/** The metrics that there are, as `name type: labels`. */
const known = createMetrics()
  .registry.getMetricsAsArray()
  .filter(({ name }) => !/^(process|nodejs)_/.test(name))
  .map((metric) => {
    const { name, labelNames = [] } = metric as { name: string; labelNames?: string[] }
    return `${name} ${metric.constructor.name.toLowerCase()}: ${labelNames.join(', ')}`
  })
  .sort()

test('docs/metrics.md lists every metric', () => {
  const page = readFileSync('docs/metrics.md', 'utf8')
  const told = [...page.matchAll(/^\| `(\w+)` \| (counter|gauge|histogram) \| ([^|]*)\|/gm)]
  const listed = told.map(([, name, type, labels = '']) => `${name} ${type}: ${labels.trim()}`)
  expect(listed.sort()).toEqual(known)
})

/** TrustGraph's own, of what graphmill does too; its enums and infos are gauges on the wire, the latter with `_info`. */
const trustgraph = [
  'tg_chunk_size histogram: processor',
  'tg_consumer_processing_total counter: processor, consumer, status',
  'tg_consumer_rate_limit_total counter: processor, consumer',
  'tg_consumer_request_duration_seconds histogram: processor, consumer',
  'tg_consumer_state gauge: processor, consumer, tg_consumer_state',
  'tg_embeddings_batch_size histogram: processor, model',
  'tg_embeddings_duration_seconds histogram: processor, model',
  'tg_embeddings_request_total counter: processor, model',
  'tg_extraction_duration_seconds histogram: processor, extractor',
  'tg_extraction_empty_total counter: processor, extractor',
  'tg_extraction_entity_total counter: processor, extractor',
  'tg_extraction_triple_total counter: processor, extractor',
  'tg_metering_cost_usd_total counter: model, direction',
  'tg_metering_tokens_total counter: model, direction',
  'tg_ontology_element_count gauge: processor',
  'tg_ontology_loaded_count gauge: processor, workspace',
  'tg_ontology_selection_count histogram: processor',
  'tg_ontology_selection_duration_seconds histogram: processor',
  'tg_processor_info gauge: processor, version',
  'tg_producer_messages_total counter: processor, producer',
  'tg_text_completion_duration_seconds histogram: processor',
  'tg_text_completion_model_info gauge: processor, model, temperature',
  'tg_triples_store_write_batch_size histogram: processor',
  'tg_triples_store_write_duration_seconds histogram: processor',
  'tg_triples_store_write_error_total counter: processor',
]

test('a metric with a name of TrustGraph has TrustGraph’s type and labels', () => {
  expect(known.filter((each) => each.startsWith('tg_'))).toEqual(trustgraph)
})

describe('the metrics of a consumer show', () => {
  const consumer = 'gm.flow.chunk.default.default'
  const labels = { processor: 'worker', consumer }
  const worker = (handle: () => void | Promise<void>) =>
    defineProcessor({
      name: 'worker',
      inputs: ['chunk'],
      outputs: ['rejected'],
      // biome-ignore lint/correctness/useYield: it gives nothing out
      async *handle() {
        await handle()
      },
    })

  test('its state, its messages in flight, and its lag', async () => {
    const metrics = createMetrics()
    const gate = Promise.withResolvers<void>()
    flow = await startFlow([worker(() => gate.promise)], { metrics })
    await flow.send('chunk', { text: 'x' })
    const value = (name: string, more = {}) => metricOf(metrics, name, { ...labels, ...more })
    await expect.poll(() => value('graphmill_in_flight')).toBe(1)
    expect(await value('graphmill_lag')).toBe(1)
    expect(await value('tg_consumer_state', { tg_consumer_state: 'running' })).toBe(1)
    gate.resolve()
    await expect.poll(() => value('tg_consumer_processing_total', { status: 'ok' })).toBe(1)
    expect(await value('graphmill_in_flight')).toBe(0)
    await flow.stop()
    flow = undefined
    expect(await value('tg_consumer_state', { tg_consumer_state: 'running' })).toBe(0)
    expect(await value('tg_consumer_state', { tg_consumer_state: 'stopped' })).toBe(1)
    expect(await value('graphmill_lag')).toBe(undefined)
  })

  test('messages put off by the model’s rate limit, which are no errors', async () => {
    const metrics = createMetrics()
    let calls = 0
    const limited = () => {
      if (++calls === 1) throw new GraphmillError('llm_rate_limited', 'slowly', { retryAfterMs: 1 })
    }
    flow = await startFlow([worker(limited)], { metrics })
    await flow.send('chunk', { text: 'x' })
    const value = (name: string, more = {}) => metricOf(metrics, name, { ...labels, ...more })
    await expect.poll(() => value('tg_consumer_processing_total', { status: 'ok' })).toBe(1)
    expect(await value('tg_consumer_processing_total', { status: 'error' })).toBe(undefined)
    expect(await value('tg_consumer_rate_limit_total')).toBe(1)
  })

  test('open circuits', async () => {
    const metrics = createMetrics()
    const circuits = createCircuits()
    flow = await startFlow([worker(() => undefined)], { metrics, circuits })
    expect(await metricOf(metrics, 'graphmill_circuit_open')).toBe(undefined)
    circuits.failed('llm:openai x', new GraphmillError('llm_unavailable', 'It is away.'), 60_000)
    expect(await metricOf(metrics, 'graphmill_circuit_open', { circuit: 'llm:openai x' })).toBe(1)
  })

  test('no topics of a removed flow, and those of others as before', async () => {
    const metrics = createMetrics()
    flow = await startFlow([worker(() => undefined)], { metrics })
    await flow.send('chunk', { text: 'x' })
    const ok = () => metricOf(metrics, 'tg_consumer_processing_total', { ...labels, status: 'ok' })
    await expect.poll(ok).toBe(1)
    const other = 'gm.flow.chunk.default.other'
    metrics.published('worker', other)
    for (const flow of ['default', 'other'])
      metrics.documents.stored({ processor: 'worker', workspace: 'default', flow }, 1)
    const gone = { workspace: 'default', flow: 'default' }
    await metrics.forget(gone, (topic) => topic.endsWith('.default.default'))
    const text = await metrics.registry.metrics()
    const stored = [...text.matchAll(/^graphmill_load_to_triples_seconds_count\{.*flow="(\w+)"/gm)]
    expect(stored.map(([, name]) => name)).toEqual(['other'])
    const shown = [...text.matchAll(/(?:consumer|producer)="([^"]+)"/g)].map(([, topic]) => topic)
    // It is still consumed here, and so its lag is told, and what is in hand.
    expect(new Set(shown)).toEqual(new Set([other, flow.topic('chunk')]))
    expect(text.match(/^.*default\.default.*$/gm)?.map((line) => line.split('{')[0])).toEqual([
      'graphmill_in_flight',
      'graphmill_lag',
    ])
  })
})

test('which flows run, and whether they are the configured ones', async () => {
  const metrics = createMetrics()
  let flows = [
    { name: 'acme/a', runs: true },
    { name: 'acme/b', runs: false },
  ]
  metrics.configuration({ isCurrent: () => flows.every(({ runs }) => runs), flows: () => flows })
  const running = (name: string) =>
    metricOf(metrics, 'graphmill_flow_running', { workspace: 'acme', flow: name })
  expect([await running('a'), await running('b')]).toEqual([1, 0])
  expect(await metricOf(metrics, 'graphmill_configuration_current')).toBe(0)
  flows = flows.slice(0, 1)
  expect([await running('a'), await running('b')]).toEqual([1, undefined])
  expect(await metricOf(metrics, 'graphmill_configuration_current')).toBe(1)
})
