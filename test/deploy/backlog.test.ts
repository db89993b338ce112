// What KEDA sees of the chart's triggers while documents pass through the flow, on real brokers: by the triggers' own formulas, and by
// KEDA's scalers themselves where scripts/cluster-tools.js has built them.
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import kafkajs from 'kafkajs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { scalerPath } from '../../scripts/cluster-tools.js'
import { brokerSource } from '../support/brokers.ts'
import { findHelm } from '../support/helm.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { freePorts } from '../support/ports.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../support/processes.ts'
import { findPrometheus, startPrometheus } from '../support/prometheus.ts'
import { type PulsarServer, startPulsar } from '../support/pulsar-server.ts'

const present = (await brokerSource("what KEDA sees of the chart's triggers", ['jars'])) !== undefined
const scaler = existsSync(scalerPath)
const prometheusFolder = await findPrometheus('what KEDA sees while the model refuses')
if (!scaler)
  process.stderr.write("KEDA's own scalers: not shown, they are not built (npm run cluster-tools)\n")

interface Trigger {
  readonly type: string
  readonly metadata: Readonly<Record<string, string>>
}

/** Of all triggers of an entry together; `error` where one of them cannot be measured. */
interface Seen {
  readonly waiting: number
  readonly active: boolean
  readonly error?: string
}

const none: Seen = { waiting: 0, active: false }

/** The lag of a group as the trigger `kafka` calculates it. */
async function onKafka(metadata: Trigger['metadata']): Promise<number> {
  const { bootstrapServers, consumerGroup: groupId = '', topic = '', lagThreshold } = metadata
  const admin = new kafkajs.Kafka({
    brokers: bootstrapServers!.split(','),
    logLevel: 0,
    retry: { retries: 1 },
  }).admin()
  await admin.connect()
  try {
    const ends = await admin.fetchTopicOffsets(topic)
    const positions = await admin.fetchOffsets({ groupId, topics: [topic] })
    const lags = ends.map(({ partition, high, low }) => {
      const { offset = '-1' } = positions[0]?.partitions.find((each) => each.partition === partition) ?? {}
      return Number(high) - Number(offset === '-1' ? low : offset)
    })
    const lag = lags.reduce((sum, each) => sum + each, 0)
    const threshold = Number(lagThreshold)
    // No more replicas than partitions.
    return Math.floor(lag / threshold) > lags.length ? threshold * lags.length : lag
  } finally {
    await admin.disconnect()
  }
}

/** The backlog of a subscription as the trigger `pulsar` reads it. */
async function onPulsar({ adminURL, topic = '', subscription = '' }: Trigger['metadata']): Promise<number> {
  const path = topic.replace('persistent://', 'persistent/')
  const response = await fetch(`${adminURL}/admin/v2/${path}/partitioned-stats`)
  if (!response.ok) throw new Error(`status ${response.status}`)
  const { subscriptions } = (await response.json()) as {
    subscriptions: Record<string, { msgBacklog: number }>
  }
  const found = subscriptions[subscription]
  if (!found) throw new Error('no subscription')
  return found.msgBacklog
}

async function measure({ type, metadata }: Trigger): Promise<Seen> {
  const threshold = metadata['activationLagThreshold'] ?? metadata['activationMsgBacklogThreshold']
  try {
    const waiting = await (type === 'kafka' ? onKafka : onPulsar)(metadata)
    return { waiting, active: waiting > Number(threshold) }
  } catch (error) {
    return { ...none, error: (error as Error).message }
  }
}

interface KedaAnswer {
  readonly value: number
  readonly active: boolean
  readonly error?: string
}

function askKeda(question: object): KedaAnswer {
  const { stdout } = spawnSync(scalerPath, { input: `${JSON.stringify(question)}\n`, encoding: 'utf8' })
  return JSON.parse(stdout) as KedaAnswer
}

/** The same by KEDA's scaler. */
function measuredByKeda(trigger: Trigger): Seen {
  const { value, ...rest } = askKeda(trigger)
  return { waiting: value, ...rest }
}

/** The number of replicas that a formula gives. It has the syntax of JavaScript, too. */
function wanted(
  { formula, target }: { readonly formula: string; readonly target: string },
  values: Readonly<Record<string, number>>,
): number {
  const calculated: number = new Function(...Object.keys(values), 'min', `return ${formula}`)(
    ...Object.values(values),
    Math.min,
  )
  if (scaler) expect(askKeda({ formula, values })).toEqual({ value: calculated, active: false })
  return Math.ceil(calculated / Number(target))
}

describe.skipIf(!present).each([
  ['Kafka', startKafka, (server: object) => `kafka://${(server as KafkaServer).bootstrap.join()}`],
  ['Pulsar', startPulsar, (server: object) => `pulsar+${(server as PulsarServer).url}`],
] as const)('on %s', { timeout: 240_000 }, (_broker, start, addressOf) => {
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-backlog-'))
  const flows = join(folder, 'flows.yaml')
  let server: KafkaServer | PulsarServer
  let broker: string
  // biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes as they are
  let specs: ReadonlyMap<string, any>
  const running = new Set<GraphmillProcess>()

  beforeAll(async () => {
    const helm = await findHelm()
    if (!helm) throw new Error('There is neither Helm nor Go to build it.')
    server = await start()
    broker = addressOf(server)
    const flow = { workspace: 'acme', flow: 'papers', extractors: ['definitions'] }
    writeFileSync(flows, JSON.stringify({ flows: [flow] }))
    const values = join(folder, 'values.json')
    const processorDefaults = { autoscaling: { enabled: true, lagThreshold: 10 } }
    const autoscaling = { prometheus: 'http://prometheus:9090' }
    writeFileSync(
      values,
      JSON.stringify({ options: { broker }, flows: [flow], processorDefaults, autoscaling }),
    )
    const chart = ['deploy/helm/graphmill', '--kube-version', '1.36.0', '--values', values]
    const { stdout } = await promisify(execFile)(helm, ['template', 'demo', ...chart])
    const scaled = parseAllDocuments(stdout)
      .map((document) => document.toJS())
      .filter((object) => object?.kind === 'ScaledObject')
    specs = new Map(
      scaled.map(({ metadata, spec }) => [metadata.labels['app.kubernetes.io/component'], spec]),
    )
  }, 300_000)
  afterEach(async () => {
    for (const child of running) await child.end('SIGKILL')
    running.clear()
  })
  afterAll(async () => {
    await server?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const common = () => ['--broker', broker, '--flows', flows]
  const inFlow = () => [...common(), '--workspace', 'acme', '--flow', 'papers']
  function startPod(entry: string, parameters: readonly string[] = [], environment = {}): GraphmillProcess {
    const options = [...common(), '--http', 'off', ...parameters]
    const child = startGraphmill(['run', entry, ...options], environment)
    running.add(child)
    return child
  }
  async function stopPod(pod: GraphmillProcess): Promise<void> {
    running.delete(pod)
    expect((await pod.end('SIGTERM')).code).toBe(0)
  }

  const triggers = (entry: string): readonly Trigger[] =>
    specs.get(entry).triggers.filter(({ type }: Trigger) => type !== 'prometheus')
  async function seen(entry: string): Promise<Seen> {
    const all = await Promise.all(triggers(entry).map(measure))
    const errors = all.flatMap(({ error }) => error ?? [])
    return {
      waiting: all.reduce((sum, { waiting }) => sum + waiting, 0),
      active: all.some(({ active }) => active),
      ...(errors.length > 0 && { error: errors.join() }),
    }
  }
  /** Waits until an entry is seen so; KEDA's own scalers then see the same. */
  async function untilSeen(entry: string, expected: Partial<Seen>): Promise<void> {
    await expect.poll(() => seen(entry), { timeout: 60_000, interval: 200 }).toMatchObject(expected)
    if (!scaler) return
    const all = triggers(entry).map(measuredByKeda)
    expect(all).toEqual(await Promise.all(triggers(entry).map(measure)))
  }
  /** Waits until Prometheus has the refusals of this pod; then it alone is wanted, where the backlog would want three. */
  async function untilRefused(http: string): Promise<void> {
    const { triggers: all, advanced } = specs.get('prompt')
    const targets = [{ address: http, labels: { namespace: 'default' } }]
    const rules = 'deploy/helm/graphmill/files/alerts.yaml'
    const prometheus = await startPrometheus(prometheusFolder!, { targets, rules })
    let values: Record<string, number> = {}
    const look = async () => {
      const read = async ({ name, type, metadata }: Trigger & { readonly name: string }) => {
        if (type !== 'prometheus') return [name, (await measure({ type, metadata })).waiting]
        return [name, Number((await prometheus.query(metadata['query']!))[0]?.value[1])]
      }
      values = Object.fromEntries(await Promise.all(all.map(read)))
      return values
    }
    try {
      await expect
        .poll(look, { timeout: 60_000 })
        .toSatisfy(({ refused, replicas }) => refused > 0.1 && replicas === 1)
      expect(wanted(advanced.scalingModifiers, values)).toBe(1)
      expect(wanted(advanced.scalingModifiers, { ...values, refused: 0 })).toBe(3)
    } finally {
      await prometheus.stop()
    }
  }

  test('there is an error, and no number, before the topics exist', async () => {
    expect(await seen('chunk-text')).toMatchObject({ error: expect.anything() })
    const error = expect.anything()
    if (scaler) expect(triggers('chunk-text').map(measuredByKeda)).toEqual([{ ...none, error }])
  })

  test('topics create: nothing waits anywhere, and nothing is unknown', async () => {
    await graphmill('topics', 'create', ...common())
    for (const entry of specs.keys()) {
      await untilSeen(entry, none)
      expect(await seen(entry)).not.toHaveProperty('error')
    }
  })

  test('each entry is started by what waits for it, and by nothing else, and stopped when nothing does', async () => {
    const text = join(folder, 'text.txt')
    writeFileSync(
      text,
      Array.from({ length: 30 }, (_, n) => `Sentence ${n} is about railway ${n}.`).join('\n\n'),
    )
    await graphmill('load', text, ...inFlow())
    await untilSeen('chunk-text', { waiting: 1, active: true })
    for (const entry of ['extract-definitions', 'prompt', 'emit-triples', 'store-triples'])
      await untilSeen(entry, none)

    const chunker = startPod('chunk-text', ['--chunk-size', '40', '--chunk-overlap', '0'])
    await untilSeen('chunk-text', none)
    await untilSeen('extract-definitions', { waiting: 30, active: true })
    await stopPod(chunker)
    await untilSeen('chunk-text', none)

    const extractor = startPod('extract-definitions')
    await untilSeen('extract-definitions', none)
    await untilSeen('prompt', { waiting: 30, active: true })
    await stopPod(extractor)

    // The model refuses every call, from the first on: no more pods are wanted than run, whatever waits.
    const answer = Promise.withResolvers<string>()
    await using llm = await startLlmServer({
      refuse: { kind: 'rate-limit' },
      rules: [{ match: 'railway 7.', reply: () => answer.promise }],
    })
    const [port] = await freePorts(1)
    const http = `127.0.0.1:${port}`
    const prompt = startPod('prompt', ['--llm', 'openai', '--http', http], { OPENAI_BASE_URL: llm.url })
    if (prometheusFolder !== undefined) await untilRefused(http)

    // Then one call is long: nothing else waits, its pod stays, and no other is wanted.
    llm.set({ refuse: undefined })
    await llm.until(({ completed }) => completed === 29)
    await expect.poll(() => seen('prompt'), { timeout: 60_000 }).toSatisfy(({ waiting }) => waiting <= 10)
    await untilSeen('prompt', { active: true })
    answer.resolve('')
    await untilSeen('prompt', none)
    await stopPod(prompt)
  })
})
