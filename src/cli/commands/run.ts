// `graphmill run`: processors on a real broker, until the process is stopped. SIGTERM finishes what is in flight and exits 0.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Command, Option } from 'commander'
import { loadProcessors, processorNames } from '../../../processors/modules.ts'
import type { Broker } from '../../broker/broker.ts'
import { parseTopic } from '../../broker/topics.ts'
import type { Config } from '../../config/config.ts'
import type { FlowConfig } from '../../config/flows.ts'
import { optionTable } from '../../config/options.ts'
import { changes, contentOf } from '../../config/watch.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { findProcessors } from '../../extraction/find-processors.ts'
import { systemClock } from '../../flow/clock.ts'
import { createFlowSet, type PreparedFlow } from '../../flow/flow-set.ts'
import { createLimitsTopic } from '../../flow/limits-topic.ts'
import type { AnyProcessor } from '../../flow/processor.ts'
import { createCircuits } from '../../flow/runner/circuits.ts'
import { untilAvailable } from '../../flow/runner/retry.ts'
import { createSolitude } from '../../flow/runner/solitude.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { priceOf, readPrices } from '../../llm/limits/prices.ts'
import { type Readiness, serveHttp } from '../../observe/http.ts'
import { createLogger } from '../../observe/log.ts'
import { createMetrics } from '../../observe/metrics.ts'
import { startWatchdog } from '../../observe/watchdog.ts'
import type { TripleStore } from '../../rdf/store.ts'
import { openRowFolder } from '../../rows/appended-rows.ts'
import { version } from '../../version.ts'
import { shareRuns } from '../../wait.ts'
import { awaitBroker, brokerOptions, openRegistry } from '../broker.ts'
import { createFollower } from '../follower.ts'
import { addOptions, configOf } from '../options.ts'
import { prepareFlows, watchedPaths } from '../prepare-flows.ts'
import { openStore, storeOptions } from '../stores.ts'
import { announceModel, chosenExtractors, contextKeyOf, createWiring, modelOptions } from '../wiring.ts'

export function addRun(command: Command): void {
  command
    .argument('[processors...]', `any of ${processorNames.join(', ')}`)
    .addOption(new Option('--all', 'every processor'))
    .action(async (names: string[], { all = false }: { all?: boolean }) => {
      if (all === names.length > 0)
        throw new GraphmillError(
          'usage',
          all ? 'Name processors or --all, not both.' : 'Name the processors to run, or --all.',
        )
      const config = configOf(command)
      if (names.includes('store-rows')) checkRows(config)
      await runUntilStopped(config, await (all ? loadProcessors() : findProcessors(names)), all)
    })
  addOptions(command, [
    ...brokerOptions,
    'group-instance-id',
    'context-key',
    'workspace',
    'flow',
    'flows',
    ...modelOptions,
    'limit-scope',
    'budget',
    'prices',
    'chunk-size',
    'chunk-overlap',
    'schemas',
    'provenance',
    'ungrounded',
    'replace',
    'text-retention',
    ...storeOptions,
    'rows',
    'rows-format',
    'http',
    'http-names',
    'watchdog',
    'drain',
    'log-level',
  ])
}

/** Throws `usage` when the rows of this process would go nowhere. */
function checkRows(config: Config): void {
  const { rows, flows, 'rows-format': format } = config.options
  if (rows === undefined) throw new GraphmillError('usage', 'store-rows needs a folder: name it with --rows.')
  if (flows === undefined && format === 'csv' && !chosenExtractors(config).includes('extract-rows'))
    throw new GraphmillError('usage', 'store-rows needs the columns of its tables: name them with --schemas.')
}

/** Added to the model's timeout: the longest drain, in milliseconds. */
const drainExtraMs = 15_000

/** How long the end takes when nothing is finished any more, also after a second signal, in milliseconds. */
const lastStopMs = 10_000

/** How long the end takes at most when a fault is its reason, in milliseconds: no second signal will come. */
const faultStopMs = 30_000

/** Open while the broker is unavailable. Nothing enters it: every user of the broker finds out by itself when it is back. */
const brokerCircuit = 'broker'

/** How often the flows file, prompts and the like are looked at, in milliseconds. */
const watchMs = 2000

async function runUntilStopped(
  config: Config,
  processors: readonly AnyProcessor[],
  all: boolean,
): Promise<void> {
  const runProcess = createRunProcess(config, processors, all)
  const { log, flows, shutdown, graceMs } = runProcess
  try {
    const content = await start(runProcess)
    await Promise.race([untilAborted(runProcess.signal), flows.failed, followChanges(runProcess, content)])
    log.info({ drain: config.options.drain }, 'stopping')
    shutdown.now.addEventListener('abort', () => void flows.stop(0))
    await flows.stop(graceMs)
  } catch (thrown) {
    // A process that is stopped while it starts has nothing to finish.
    if (!shutdown.asked.aborted || toGraphmillError(thrown).code !== 'aborted') {
      log.fatal({ err: toGraphmillError(thrown) }, 'the process ends')
      throw thrown
    }
  } finally {
    await end(runProcess)
  }
  log.info('stopped')
}

type RunProcess = ReturnType<typeof createRunProcess>

/** What lives as long as the process. */
function createRunProcess(config: Config, named: readonly AnyProcessor[], all: boolean) {
  const { options } = config
  const asksModel = ({ name }: AnyProcessor) => name === 'prompt' || name === 'text-completion'
  // The next requests are rendered while the model answers; more would only wait, at some 20 KB each.
  const maxInFlight = 2 * options.concurrency
  const processors = named.map((each) => (asksModel(each) ? { ...each, maxInFlight } : each))
  const over = new AbortController()
  const log = createLogger(options['log-level'] ?? optionTable['log-level'].defaults.run)
  const graceMs = options.drain === 'now' ? 0 : options['llm-timeout'] * 1000 + drainExtraMs
  const shutdown = onShutdown({
    lastMs: lastStopMs,
    graceMs: () => (runProcess.ready ? graceMs : 0) + lastStopMs,
    onLate: (stuck) =>
      log.fatal({ stuck, resources: resources() }, 'the process ends before everything was finished'),
  })
  /** Ends all that waits or watches: at a signal, and whenever the process ends. */
  const signal = AbortSignal.any([shutdown.asked, over.signal])
  const prices = readPrices(options.prices)
  const metrics = createMetrics({ priceOf: (model) => priceOf(model, prices) })
  const needsModel = named.some(asksModel)
  const provenance = optionTable.provenance.defaults.run
  const circuits = createCircuits()
  const registry = openRegistry(config)
  const limitsTopic = createLimitsTopic({
    ...{ space: options.space, log, registry },
    contextKey: contextKeyOf(config),
  })
  metrics.limits(limitsTopic.states)
  const runProcess = {
    config,
    processors,
    all,
    needsModel,
    log,
    metrics,
    graceMs,
    shutdown,
    over,
    signal,
    watchdog: options.watchdog > 0 ? startWatchdog({ blockedMs: options.watchdog * 1000 }) : undefined,
    wiring: createWiring({ fallback: undefined, needsModel, provenance, log, metrics, limitsTopic }, signal),
    limitsTopic,
    flows: createFlowSet({ log, clock: systemClock, signal, graceMs }),
    shared: {
      circuits,
      solitude: createSolitude(),
      metrics,
      registry,
    },
    startedAt: new Date(systemClock.now()),
    ready: false,
    putInForce: shareRuns((): Promise<void> => putInForce(runProcess)),
    follower: createFollower({ config, log, circuits }, signal),
    /** Why the latest change of the configuration is not in force. */
    refused: undefined as GraphmillError | undefined,
    broker: undefined as Broker | undefined,
    store: undefined as TripleStore | undefined,
    rowStore: options.rows === undefined ? undefined : openRowFolder(options.rows, options['rows-format']),
    /** What was opened, to be closed in reverse. */
    opened: [] as { close(): Promise<void> }[],
  }
  reportConfiguration(runProcess)
  return runProcess
}

/** Opens everything and starts the flows. Resolves with what the watched files held before they were read. */
async function start(runProcess: RunProcess): Promise<string> {
  const { config, processors, log, flows, signal, opened } = runProcess
  const waitingFor = (what: string) => ({
    signal,
    onFailure: (error: GraphmillError) => log.warn({ err: error }, `waiting for ${what}`),
  })
  const content = await contentOf(watchedPaths(config))
  const http = await openHttp(runProcess)
  if (http) opened.push(http)
  const prepared = await untilAvailable(() => prepare(runProcess), waitingFor('the model'))
  const onAvailability = (error: GraphmillError | undefined) => noteBroker(runProcess, error)
  runProcess.broker = await awaitBroker(config, { log, onAvailability }, signal)
  opened.push(runProcess.broker)
  const { broker, limitsTopic } = runProcess
  limitsTopic.start(broker)
  opened.push(limitsTopic)
  const store = openStore(config)
  runProcess.store = store
  opened.push(store)
  if (processors.some(({ name }) => name === 'store-triples'))
    await untilAvailable(async () => store.ready?.(), waitingFor('the output'))
  const { rowStore } = runProcess
  if (rowStore && processors.some(({ name }) => name === 'store-rows')) {
    opened.push(rowStore)
    await untilAvailable(async () => rowStore.ready?.(), waitingFor('the folder of rows'))
  }
  await Promise.race([flows.failed, flows.apply(prepared)])
  signal.throwIfAborted()
  runProcess.ready = true
  runProcess.follower.start(runProcess.broker, runProcess.putInForce)
  setFlagsFromString('--expose-gc')
  // What only the start needed would stay for hours in an idle process: V8 collects it by itself only when the heap grows.
  runInNewContext('gc')({ type: 'major', flavor: 'last-resort' })
  log.info({ processors: processors.map(({ name }) => name), flows: flows.names, http: http?.url }, 'running')
  return content
}

/** Puts every change of the watched files in force, until the process is stopped. */
async function followChanges(runProcess: RunProcess, since: string): Promise<void> {
  const { config, signal, follower } = runProcess
  const watching = { paths: () => watchedPaths(config), since, everyMs: watchMs }
  for await (const _ of changes(watching, signal)) {
    await runProcess.putInForce()
    follower.refresh()
  }
}

/** Makes the flows run as they are configured now. What is invalid is logged, and the version before stays in use. */
async function putInForce(runProcess: RunProcess): Promise<void> {
  const { log, flows, signal } = runProcess
  const refuse = (error: GraphmillError) => {
    runProcess.refused = error
    log.error({ err: error }, 'the change is refused; the previous configuration stays in use')
  }
  try {
    const prepared = await untilAvailable(() => prepare(runProcess), { signal, onFailure: refuse })
    runProcess.refused = undefined
    // Not awaited: while one flow drains another change may come.
    void flows.apply(prepared)
  } catch (thrown) {
    if (!signal.aborted) refuse(toGraphmillError(thrown))
  }
}

/** Stops what still runs and closes what was opened. */
async function end({ over, shutdown, flows, opened, log, watchdog }: RunProcess): Promise<void> {
  over.abort(new GraphmillError('aborted', 'The process ends.'))
  if (!shutdown.asked.aborted) shutdown.endWithin(faultStopMs)
  // What is in flight still publishes, and would wait for a broker that was closed.
  await flows.stop(0)
  for (const each of opened.reverse())
    await each.close().catch((error) => log.error({ err: toGraphmillError(error) }, 'could not be closed'))
  shutdown.dispose()
  await watchdog?.stop()
}

function prepare(runProcess: RunProcess): Promise<PreparedFlow[]> {
  const { config, processors, all, wiring, needsModel, shared } = runProcess
  return prepareFlows(config, {
    processors,
    byFlow: all || config.options.flows !== undefined,
    wiring,
    shared: () => ({
      ...shared,
      broker: runProcess.broker!,
      store: runProcess.store!,
      rowStore: runProcess.rowStore,
    }),
    onWired: ({ llm }) => needsModel && sayOnce(announceModel(llm)),
    gone: (flow) => forget(flow, runProcess),
    followed: runProcess.follower.state,
  })
}

/** Forgets the topics of a flow that is gone: nothing would find out any more that one of them is back. */
async function forget(flow: FlowConfig, { shared: { circuits }, metrics }: RunProcess): Promise<void> {
  for (const key of circuits.open()) if (isOf(flow, key.slice(key.indexOf(':') + 1))) circuits.succeeded(key)
  const { workspace, flow: name } = flow.options
  await metrics.forget({ workspace, flow: name }, (topic) => isOf(flow, topic))
}

function isOf({ options }: Config, topic: string): boolean {
  const parts = parseTopic(topic)
  return (
    parts !== undefined &&
    'workspace' in parts &&
    parts.workspace === options.workspace &&
    parts.flow === options.flow
  )
}

function noteBroker({ shared: { circuits } }: RunProcess, error: GraphmillError | undefined): void {
  if (error) circuits.failed(brokerCircuit, error, 1)
  else circuits.succeeded(brokerCircuit)
}

function readinessOf({ signal, ready, follower, shared: { circuits } }: RunProcess): Readiness {
  if (signal.aborted) return 'stopping'
  if (!ready || follower.isStarting()) return 'starting'
  return circuits.reason(brokerCircuit) ? 'unavailable' : 'ready'
}

/** Why what runs is not what is configured, if it is not. */
const problemOf = ({ refused, flows, follower }: RunProcess) =>
  refused ?? [...follower.state.refusals.values()][0] ?? flows.faults[0]?.error

function reportConfiguration(runProcess: RunProcess): void {
  const { metrics, flows } = runProcess
  metrics.configuration({
    isCurrent: () => problemOf(runProcess) === undefined,
    flows: () => [
      ...flows.names.map((name) => ({ name, runs: true })),
      ...flows.faults.map(({ flow: name }) => ({ name, runs: false })),
    ],
  })
}

function openHttp(runProcess: RunProcess) {
  const { config, metrics, startedAt } = runProcess
  const { http, 'http-names': names } = config.options
  if (http === 'off') return undefined
  return serveHttp({
    address: http,
    names,
    insist: config.origins.http !== 'default',
    registry: metrics.registry,
    state: () => readinessOf(runProcess),
    details: () => detailsOf(runProcess),
    status: async () => ({
      versions: { graphmill: version, node: process.versions.node },
      startedAt: startedAt.toISOString(),
      ready: readinessOf(runProcess) === 'ready',
      configurationCurrent: problemOf(runProcess) === undefined,
      configurationProblem: problemOf(runProcess)?.message ?? null,
      ...detailsOf(runProcess),
      consumers: await metrics.consumers(),
    }),
  })
}

function detailsOf({ flows, limitsTopic, shared: { circuits } }: RunProcess) {
  const failedFlows = flows.faults.map(({ flow, error: { code, message, remedy }, since }) => ({
    flow,
    code,
    message,
    remedy,
    since: new Date(since).toISOString(),
  }))
  const budgets = limitsTopic
    .states()
    .filter(({ isExhausted }) => isExhausted)
    .map(({ workspace, model }) => `budget:${workspace || '*'} ${model}`)
  return { flows: flows.names, failedFlows, unavailable: [...circuits.open(), ...budgets] }
}

/** What the event loop still waits for, by Node's names. */
const resources = () => [...new Set(process.getActiveResourcesInfo())].filter((name) => name !== 'Timeout')

const untilAborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))

const said = new Set<string>()

function sayOnce(line: string): void {
  if (!said.has(line)) process.stderr.write(`${line}\n`)
  said.add(line)
}
