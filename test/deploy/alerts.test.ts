// The rules and the dashboard against the program itself: processes on a real Kafka, with faults that are provoked. What they show on
// /metrics goes to promtool's unit tests, and a real Prometheus scrapes them for the dashboard.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import kafkajs, { type Admin } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { parse } from 'yaml'
import { blocks } from '../docs/blocks.ts'
import { brokerSource } from '../support/brokers.ts'
import { bookOf, chunkSize } from '../support/graph.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { guessExtraction } from '../support/llm-extraction.ts'
import { answerer, type Call, type Reply } from '../support/llm-script.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { inputSeries, metricsIn, type Recording, type Scrape } from '../support/metric-recording.ts'
import { freePorts } from '../support/ports.ts'
import { type GraphmillProcess, startGraphmill } from '../support/processes.ts'
import { findPrometheus, type Prometheus, startPrometheus } from '../support/prometheus.ts'

/** What is built starts in half the time that the sources need. */
const graphmill = (parameters: readonly string[], environment = {}) =>
  startGraphmill(parameters, environment, resolve('bin/graphmill.js'))

const rulesFile = 'deploy/helm/graphmill/files/alerts.yaml'

interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly annotations: Readonly<Record<string, string>>
}

const rules = (parse(readFileSync(rulesFile, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
)
const alerts = rules.filter(({ alert }) => alert !== undefined)

const anchorsOf = (page: string) =>
  [...readFileSync(page, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!.toLowerCase().replaceAll(' ', '-'),
  )

test.each(alerts)(
  '$alert leads to a section of the docs, and names what to run',
  ({ alert, annotations }) => {
    const [, page = '', anchor] = /\/blob\/main\/(.*)#(.*)$/.exec(annotations['runbook_url']!)!
    expect(anchor).toBe(alert!.toLowerCase())
    expect(anchorsOf(page)).toContain(anchor)
    expect(annotations['summary']).toMatch(/\.$/)
    expect(annotations['description']).toMatch(/`(graphmill|kubectl) /)
  },
)

test('the commands that alerts name exist, with their flags', () => {
  const lines = alerts.flatMap(({ annotations }) =>
    [...annotations['description']!.matchAll(/`graphmill ([^`]*)`/g)].map(([, line]) =>
      line!.replaceAll(/\{\{.*?\}\}/g, 'x'),
    ),
  )
  for (const line of new Set(lines)) {
    const [, command, flags = ''] = /^([a-z ]+?)( --.*)?$/.exec(line)!
    const { stdout } = spawnSync(process.execPath, ['bin/graphmill.js', ...command!.split(' '), '--help'], {
      encoding: 'utf8',
    })
    expect(stdout).toMatch(new RegExp(`^Usage: graphmill ${command} `))
    for (const [flag] of flags.matchAll(/--\S+/g)) expect(stdout, line).toContain(`${flag} `)
  }
})

const bin = await findPrometheus('alerts and dashboard')
const present = bin !== undefined && (await brokerSource('alerts and dashboard, on Kafka', ['jars']))

/** Relationships are cut off; topics are prose, or items with every fault in turn; definitions are as they should be. */
async function flawed(call: Call): Promise<Reply> {
  const whole = await answerer({})(call)
  const kind = guessExtraction(call.conversation)
  if (kind === 'relationships') return { ...whole, truncateAfter: 60 }
  if (kind !== 'topics') return whole
  if (call.number % 2 === 0) return { text: 'There is nothing to extract.' }
  const invented = '{"topic":"Atlantis","definition":"a city that nobody has seen"}'
  const sloppy = "{'topic': 'mill', 'definition': 'a machine',}"
  return { text: `${invented}\n${sloppy}\n{"topic": 3}\n` }
}

/** The values of the series that begin so. */
const valuesIn = (text: string, series: string) =>
  text
    .split('\n')
    .filter((line) => line.startsWith(series))
    .map((line) => Number(line.split(' ').at(-1)))

describe.skipIf(!present)('on Kafka', { timeout: 240_000 }, () => {
  let kafka: KafkaServer
  let admin: Admin
  let folder: string
  let prometheus: Prometheus
  const models: LlmServer[] = []
  const started: GraphmillProcess[] = []
  /** When the recordings began, in seconds since 1970. */
  const startedAt = Date.now() / 1000

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'graphmill-alerts-'))
    kafka = await startKafka()
    admin = new kafkajs.Kafka({ brokers: [...kafka.bootstrap], logLevel: kafkajs.logLevel.NOTHING }).admin()
    await admin.connect()
  })
  afterAll(async () => {
    await prometheus?.stop()
    for (const each of started) await each.end('SIGKILL')
    for (const model of models) await model.close()
    await admin?.disconnect()
    await kafka?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const broker = () => ['--broker', `kafka://${kafka.bootstrap.join()}`]
  const model = async (...script: Parameters<typeof startLlmServer>) => {
    const server = await startLlmServer(...script)
    models.push(server)
    return server
  }

  /** A process; what it shows is awaited with `until`. */
  async function start(server: LlmServer, processors: readonly string[], ...parameters: readonly string[]) {
    const [port] = await freePorts(1)
    const address = `127.0.0.1:${port}`
    const shared = ['--http', address, '--out', join(folder, 'out'), '--provenance', 'none']
    const sizes = ['--chunk-size', String(chunkSize), '--chunk-overlap', '0']
    const runtime = graphmill(['run', ...processors, ...broker(), ...shared, ...sizes, ...parameters], {
      OPENAI_BASE_URL: server.url,
      GRAPHMILL_MODEL: 'test-model',
    })
    started.push(runtime)
    await runtime.says('"msg":"running"')
    const scrape = async () => (await fetch(`http://${address}/metrics`)).text()
    return {
      address,
      runtime,
      scrape,
      /** The first scrape whose samples fit. `values` gives those of the series that begin so. */
      until: (fits: (values: (series: string) => number[]) => boolean): Promise<string> =>
        vi.waitFor(
          async () => {
            const text = await scrape()
            const values = (series: string) => valuesIn(text, series)
            if (!fits(values))
              throw new Error(`${fits}: ${text.match(/^graphmill_(?!.*_bucket).*$/gm)?.join('\n')}`)
            return text
          },
          { timeout: 90_000, interval: 200 },
        ),
    }
  }

  /** Loads a book, by a computer whose clock is some hours late. */
  async function load(flow: string, name: string, text: string, late = 0): Promise<void> {
    const book = join(folder, `${flow}-${name}.txt`)
    writeFileSync(book, text)
    const clock = `--import=data:text/javascript,${encodeURIComponent(`const now=Date.now;Date.now=()=>now()-${late * 3_600_000}`)}`
    const loading = graphmill(['load', book, ...broker(), '--flow', flow], { NODE_OPTIONS: clock })
    expect((await loading.ended).code, loading.stderr()).toBe(0)
  }

  const labelsOf = (namespace: string) => ({
    namespace,
    pod: 'pod-1',
    instance: '10.0.0.1:8000',
    job: 'graphmill',
  })
  const record = (
    namespace: string,
    scrapes: readonly Scrape[],
    more: Partial<Recording> = {},
  ): Recording => ({
    scrapes,
    labels: labelsOf(namespace),
    startedAt,
    ...more,
  })

  /** The alerts that fire in these minutes, each as `name label=value …`, must be these. */
  function expectAlerts(
    name: string,
    recording: Recording,
    expected: Readonly<Record<number, readonly string[]>>,
  ) {
    const last = Math.max(...Object.keys(expected).map(Number))
    const wanted = metricsIn(rules.map(({ expr }) => expr))
    const series = inputSeries(recording, wanted, last)
    expect(series.length).toBeGreaterThan(20)
    const samplesOf = (firing: readonly string[]) =>
      firing.map((each) => {
        const [alertname, ...pairs] = each.split(/ (?=\w+=)/)
        const { severity } = (
          alerts.find(({ alert }) => alert === alertname) as { labels?: { severity: string } } & Rule
        ).labels!
        const labels = { alertname, alertstate: 'firing', severity, namespace: recording.labels['namespace'] }
        const own = Object.fromEntries(pairs.map((pair) => pair.split(/=(.*)/s)))
        const all = Object.entries({ ...labels, ...own }).map(
          ([label, value]) => `${label}=${JSON.stringify(value)}`,
        )
        return { labels: `ALERTS{${all.join(',')}}`, value: 1 }
      })
    const unit = {
      rule_files: [resolve(rulesFile)],
      evaluation_interval: '1m',
      tests: [
        {
          interval: '1m',
          input_series: series,
          promql_expr_test: Object.entries(expected).map(([minute, firing]) => ({
            expr: 'ALERTS{alertstate="firing"}',
            eval_time: `${minute}m`,
            exp_samples: samplesOf(firing),
          })),
        },
      ],
    }
    const file = join(folder, `${name}.json`)
    writeFileSync(file, JSON.stringify(unit))
    const { status, stdout, stderr } = spawnSync(`${bin}promtool`, ['test', 'rules', file], {
      encoding: 'utf8',
    })
    expect(status, stdout + stderr).toBe(0)
  }

  const lags = 'graphmill_lag'
  const unitsOf = (flow: string, state: string) =>
    `graphmill_units_total{workspace="default",flow="${flow}",state="${state}"}`
  const openOf = (flow: string) => `graphmill_documents_open{workspace="default",flow="${flow}"}`
  const isIdle = (values: (series: string) => number[]) => values(lags).every((lag) => lag === 0)
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

  let sound: LlmServer
  /** Its documents are done. */
  let healthyRun: readonly Scrape[]
  /** Its model makes mistakes, one of its messages cannot be read, and its documents were loaded two hours ago. */
  let flawedRun: readonly Scrape[]
  /** No process runs one of its extractors. */
  let stuckRun: readonly Scrape[]
  /** Its model refuses every call. */
  let refusing: Awaited<ReturnType<typeof start>>
  /** Of a process that started later. */
  let restarted: readonly Scrape[]

  beforeAll(async () => {
    sound = await model()
    const faulty = await model({ rules: [{ reply: flawed }], refuse: { kind: 'rate-limit', first: 2 } })
    const others = [
      'chunk-text',
      'prompt',
      'extract-definitions',
      'extract-topics',
      'emit-triples',
      'store-triples',
      'ledger',
    ]
    const refuse = await model({ refuse: { kind: 'unauthorized' } })
    const [good, bad, halted, refused] = await Promise.all([
      start(
        sound,
        ['--all'],
        '--flow',
        'healthy',
        '--prices',
        'test-model=1/2',
        ...['--limit-scope', 'workspace', '--budget', '1000/month'],
        '--cache-dir',
        join(folder, 'cache'),
      ),
      start(faulty, ['--all'], '--flow', 'flawed', '--no-cache', '--max-continuations', '0'),
      start(sound, others, '--flow', 'stuck', '--no-cache'),
      start(refuse, ['--all'], '--flow', 'refused', '--no-cache'),
    ])
    refusing = refused
    const processes = { healthy: good, flawed: bad, stuck: halted, refused }
    const targets = Object.entries(processes).map(([namespace, { address }]) => ({
      address,
      labels: { namespace, pod: 'pod-1' },
    }))
    prometheus = await startPrometheus(bin!, { targets, rules: rulesFile })
    const [goodBefore, badBefore, stuckBefore] = await Promise.all(
      [good, bad, halted].map((each) => each.until((values) => values(lags).length > 0 && isIdle(values))),
    )
    // What is counted from now on, Prometheus has seen at 0.
    await vi.waitFor(
      async () => {
        const seen = await prometheus.query('group by (namespace) (graphmill_units_total)')
        expect(seen.length).toBe(targets.length)
      },
      { timeout: 60_000, interval: 200 },
    )
    const garbage = new kafkajs.Kafka({ brokers: [...kafka.bootstrap], logLevel: 0 }).producer()
    await garbage.connect()
    await garbage.send({
      topic: 'gm.flow.chunk.default.flawed',
      messages: [{ key: 'k', value: 'no message' }],
    })
    await garbage.disconnect()
    const twoHours = 2
    await Promise.all([
      load('healthy', 'one', bookOf(4)),
      load('flawed', 'one', bookOf(10, 1), twoHours),
      load('stuck', 'one', bookOf(2, 2)),
    ])
    const ended = (values: (series: string) => number[], count: number) =>
      sum(['done', 'partial', 'dead'].flatMap((state) => values(unitsOf('flawed', state)))) === count
    await good.until((values) => values(unitsOf('healthy', 'done'))[0] === 12)
    const badBetween = await bad.until((values) => ended(values, 30) && isIdle(values))
    // The same text under another name is answered from the cache.
    await Promise.all([load('healthy', 'two', bookOf(4)), load('flawed', 'two', bookOf(10, 3), twoHours)])
    healthyRun = [
      { minute: 0, text: goodBefore! },
      {
        minute: 30,
        text: await good.until((values) => values(unitsOf('healthy', 'done'))[0] === 24 && isIdle(values)),
      },
    ]
    flawedRun = [
      { minute: 0, text: badBefore! },
      { minute: 30, text: badBetween },
      { minute: 150, text: await bad.until((values) => ended(values, 60) && isIdle(values)) },
    ]
    const halfDone = await halted.until(
      (values) =>
        values(unitsOf('stuck', 'done'))[0] === 4 && values(openOf('stuck'))[0] === 1 && isIdle(values),
    )
    stuckRun = [
      { minute: 0, text: stuckBefore! },
      { minute: 5, text: halfDone },
    ]
  }, 240_000)

  test('nobody is woken by a healthy run', () => {
    expectAlerts('healthy', record('healthy', healthyRun), { 5: [], 15: [], 31: [], 60: [], 400: [] })
  })

  test('units that are not done, triples that are late, replies that are cut off, and dead letters', () => {
    const flow = 'workspace=default flow=flawed'
    const always = [
      `GraphmillUnitsNotDone ${flow}`,
      `GraphmillUnitsNotDoneSlowly ${flow}`,
      `GraphmillTriplesLate ${flow}`,
    ]
    const letters = ['definitions', 'relationships', 'topics'].map(
      (name) => `GraphmillDeadLetters processor=extract-${name} code=bytes_undecodable`,
    )
    const cutOff = 'GraphmillRepliesCutOff prompt=extract-relationships model=test-model'
    const recording = record('flawed', flawedRun)
    // After half an hour, fewer than ten units of an hour are not done.
    const [, ...later] = always
    expectAlerts('flawed', recording, { 31: [...always, ...letters], 149: [...later, cutOff] })
  })

  test('a document that nothing works on, and a ledger that is gone', () => {
    const recording = record('stuck', [...stuckRun, { minute: 90, text: undefined }])
    expectAlerts('stuck', recording, {
      30: [],
      60: ['GraphmillDocumentStuck workspace=default flow=stuck'],
      95: [],
      105: ['GraphmillLedgerDown'],
      460: [],
    })
  })

  test('a model that refuses every call', async () => {
    const waiting = (least: number) =>
      refusing.until(
        (values) =>
          values('graphmill_circuit_open').length > 0 &&
          values(`graphmill_lag{processor="prompt",`).some((lag) => lag >= least) &&
          sum(values(lags)) === sum(values(`graphmill_lag{processor="prompt",`)),
      )
    const before = await refusing.scrape()
    await load('refused', 'one', bookOf(40, 4))
    const first = await waiting(120)
    await load('refused', 'two', bookOf(20, 5))
    const scrapes = [
      { minute: 0, text: before },
      { minute: 5, text: first },
      { minute: 120, text: await waiting(180) },
    ]
    const circuit = /graphmill_circuit_open\{circuit="(.*)"\} 1/.exec(first)![1]!
    const prompt =
      'workspace=default flow=refused processor=prompt consumer=gm.request.prompt.default.refused'
    const open = `GraphmillCircuitOpen circuit=${circuit}`
    expectAlerts('refused', record('refused', scrapes), {
      10: [],
      25: [open, `GraphmillStalled ${prompt}`],
      100: [open, `GraphmillStalled ${prompt}`, `GraphmillBacklogGrows ${prompt}`],
      200: [open, `GraphmillStalled ${prompt}`],
    })
  })

  test('a budget that is nearly used, and used up', async () => {
    const budget = ['--limit-scope', 'workspace', '--budget', '20000tokens/day']
    const limited = await start(
      sound,
      ['--all'],
      '--flow',
      'limited',
      '--no-cache',
      '--model',
      'limited',
      ...budget,
    )
    const [used, limit] = ['graphmill_budget_used', 'graphmill_budget_limit']
    const before = await limited.until((values) => values(limit)[0] === 20_000)
    await load('limited', 'one', bookOf(4, 7))
    const first = await limited.until(
      (values) => values(unitsOf('limited', 'done'))[0] === 12 && isIdle(values),
    )
    await load('limited', 'two', bookOf(12, 8))
    const prompts = 'graphmill_lag{processor="prompt",'
    const after = await limited.until(
      (values) =>
        values(used)[0]! >= 20_000 && sum(values(prompts)) > 0 && sum(values(lags)) === sum(values(prompts)),
    )
    await limited.runtime.end('SIGKILL')
    const of = 'workspace=default model=limited period=day unit=tokens'
    const [some, all] = [first, after].map((text) => valuesIn(text, used)[0]!) as [number, number]
    /** When this share of the budget was used, by the line between the last two scrapes. */
    const minuteOf = (share: number) => Math.round(30 + (100 * (share * 20_000 - some)) / (all - some))
    const scrapes = [before, first, after].map((text, at) => ({ minute: [0, 30, 130][at]!, text }))
    const recording = record('limited', scrapes)
    expectAlerts('limited', recording, {
      [minuteOf(0.8)]: [],
      [minuteOf(0.97)]: [`GraphmillBudgetNearlyUsed ${of}`],
      // What waits for the budget is not stalled.
      200: [`GraphmillBudgetNearlyUsed ${of}`, `GraphmillBudgetUsedUp ${of}`],
    })
  })

  test('records that were deleted, a configuration that is refused, and a flow that does not run', async () => {
    expect((await graphmill(['topics', 'create', ...broker(), '--flow', 'lost']).ended).code).toBe(0)
    await load('lost', 'one', bookOf(1, 6))
    const topic = 'gm.flow.document.default.lost'
    const offsets = await admin.fetchTopicOffsets(topic)
    const partitions = offsets.map(({ partition, high }) => ({ partition, offset: high }))
    await admin.deleteTopicRecords({ topic, partitions })
    const file = join(folder, 'flows.yaml')
    const configure = (...flows: readonly string[]) =>
      writeFileSync(file, `flows: [${flows.map((flow) => `{ workspace: default, flow: ${flow} }`).join()}]`)
    configure('lost', 'removed')
    const { until, runtime } = await start(sound, ['--all'], '--flows', file, '--no-cache')
    const lost = await until((values) => values('graphmill_lost_ranges_total').length > 0 && isIdle(values))
    configure('lost', 'removed', 'wrong_name}{')
    const refused = await until((values) => values('graphmill_configuration_current')[0] === 0)
    configure('lost', 'removed')
    await until((values) => values('graphmill_configuration_current')[0] === 1)
    await admin.deleteTopics({ topics: ['gm.flow.topics.default.removed'] })
    const removed = 'graphmill_flow_running{workspace="default",flow="removed"}'
    const down = await until((values) => values(removed)[0] === 0)
    await runtime.end('SIGKILL')
    restarted = [{ minute: 0, text: lost }]
    const from = (text: string) => record('flows', [{ minute: 0, text }])
    expectAlerts('lost', from(lost), {
      5: [`GraphmillRecordsLost processor=chunk-text consumer=${topic}`],
      70: [],
    })
    expectAlerts('refused-configuration', from(refused), { 70: ['GraphmillConfigurationRefused'] })
    expectAlerts('flow-down', from(down), { 70: ['GraphmillFlowDown workspace=default flow=removed'] })
  })

  test('a pod that starts again and again', () => {
    const own = (text: string | undefined) =>
      text?.replaceAll(/^(?!process_start_time|graphmill_build_info|tg_consumer_state).*\n/gm, '')
    const starts = [healthyRun, restarted, healthyRun, restarted, healthyRun].map(([first]) => first!)
    const scrapes = starts.map(({ text }, at) => ({ minute: 10 * at, text: own(text) }))
    const recording = record('restarts', scrapes, { between: 'step' })
    expectAlerts('restarts', recording, { 35: [], 45: ['GraphmillRestarts pod=pod-1'], 120: [] })
  })

  interface Panel {
    readonly title: string
    readonly type: string
    readonly fieldConfig?: { readonly defaults: { readonly unit: string } }
    readonly targets?: readonly { readonly expr: string }[]
  }
  const dashboard = JSON.parse(readFileSync('deploy/helm/graphmill/files/dashboard.json', 'utf8')) as {
    readonly panels: readonly Panel[]
  }
  /** As Grafana does it. */
  const inGrafana = (expression: string, namespace: string) =>
    expression
      .replaceAll('$namespace', namespace)
      .replaceAll('$flow', '.*')
      .replaceAll('$__rate_interval', '1m')
      .replaceAll('$__range', '1h')

  /** The panels that rightly show nothing of a healthy run, and where they show something. */
  const shownElsewhere: Readonly<Record<string, string>> = {
    Unavailable: 'refused',
    'Dead letters in 15 minutes': 'flawed',
    'Since the last progress': 'stuck',
    'Messages not handled at once': 'flawed',
    'Rejected items': 'flawed',
    'Replies that make a unit partial': 'flawed',
    'Share of cut-off replies': 'flawed',
    'Facts that do not stand in the text': 'flawed',
    'Runs without an accepted item': 'flawed',
    'Repaired items': 'flawed',
  }

  test('every expression of the dashboard has results', async () => {
    const panels = dashboard.panels.filter(({ type }) => type !== 'row')
    const empty = []
    for (const { title, targets = [] } of panels)
      for (const { expr } of targets) {
        const found = await prometheus.query(inGrafana(expr, shownElsewhere[title] ?? 'healthy'))
        if (found.length === 0) empty.push(`${title}: ${expr}`)
      }
    expect(empty).toEqual([])
  })

  test('every expression of the page about alerts has results', async () => {
    const told = blocks
      .filter(({ language }) => language === 'promql')
      .flatMap(({ code }) => code.split('\n\n'))
    expect(told.length).toBeGreaterThan(1)
    for (const each of told) expect(await prometheus.query(each), each).not.toEqual([])
  })

  test('the rules are evaluated, and the objectives are measured', async () => {
    const { groups } = (await prometheus.get('/api/v1/rules')) as {
      groups: { rules: { health: string; lastError?: string }[] }[]
    }
    const evaluated = groups.flatMap((group) => group.rules)
    expect(evaluated.length).toBe(rules.length)
    expect(evaluated.map(({ health, lastError }) => lastError ?? health)).toEqual(evaluated.map(() => 'ok'))
    const share = async (name: string, namespace: string) =>
      Number((await prometheus.query(`graphmill:${name}{namespace="${namespace}"}`))[0]?.value[1])
    expect(await share('units_done:share1h', 'healthy')).toBe(1)
    expect(await share('in_time:share30m', 'healthy')).toBe(1)
    const ended = ['done', 'partial', 'dead'].map(
      (state) => valuesIn(flawedRun.at(-1)!.text!, unitsOf('flawed', state))[0]!,
    )
    expect(await share('units_done:share1h', 'flawed')).toBeCloseTo(ended[0]! / sum(ended), 5)
    expect(sum(ended)).toBe(60)
    expect(await share('in_time:share30m', 'flawed')).toBe(0)
  })
})
