// `graphmill run`: processors on a real broker, until told to stop. SIGTERM finishes what is in hand and exits 0.
import { type Command, Option } from 'commander'
import { processors as allProcessors } from '../../../processors/index.ts'
import type { Broker } from '../../broker/broker.ts'
import { parseTopic } from '../../broker/topics.ts'
import { type Config, secretFiles } from '../../config/config.ts'
import type { FlowConfig } from '../../config/flows.ts'
import { optionTable } from '../../config/options.ts'
import { checkSecret } from '../../config/secret.ts'
import { changes, contentOf } from '../../config/watch.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { systemClock } from '../../flow/clock.ts'
import { createFlowSet, type PreparedFlow } from '../../flow/flow-set.ts'
import type { AnyProcessor } from '../../flow/processor.ts'
import { run } from '../../flow/run.ts'
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
import { version } from '../../version.ts'
import { awaitBroker, brokerOptions, openRegistry } from '../broker.ts'
import { flowError, flowsOf, nameOf, serving } from '../flows.ts'
import { ontologyOptions } from '../ontologies.ts'
import { addOptions, configOf } from '../options.ts'
import { replyOptions } from '../reply-cache.ts'
import { openStore, storeOptions } from '../stores.ts'
import { announceModel, createWiring, findProcessors } from '../wiring.ts'

/** Added to the model's timeout: the longest drain, in milliseconds. */
const drainExtraMs = 15_000

export function addRun(program: Command): void {
  const command = program
    .command('run')
    .description('run processors on a broker, until told to stop')
    .argument('[processors...]', `any of ${allProcessors.map(({ name }) => name).join(', ')}`)
    .addOption(new Option('--all', 'every processor'))
    .action(async (names: string[], { all = false }: { all?: boolean }) => {
      if (all === names.length > 0)
        throw new GraphmillError(
          'usage',
          all ? 'Name processors or --all, not both.' : 'Name the processors to run, or --all.',
        )
      const chosen = all ? allProcessors : findProcessors(names)
      await runUntilStopped(configOf(command), chosen, all)
    })
  addOptions(command, [
    ...brokerOptions,
    'context-key',
    'workspace',
    'flow',
    'flows',
    'llm',
    'model',
    'llm-timeout',
    'llm-call-timeout',
    'temperature',
    'num-ctx',
    'output-mode',
    'concurrency',
    'requests-per-minute',
    'tokens-per-minute',
    'prompts',
    'extractors',
    ...ontologyOptions,
    ...replyOptions,
    'prices',
    'chunk-size',
    'chunk-overlap',
    'schemas',
    'provenance',
    ...storeOptions,
    'http',
    'http-names',
    'watchdog',
    'drain',
    'log-level',
  ])
}

/** How long the end takes when nothing is finished any more, also after a second signal, in milliseconds. */
const lastStopMs = 10_000

/** How long the end takes at most when a fault is its reason, in milliseconds: nobody is there to send a signal. */
const faultStopMs = 30_000

/** Open while the broker is away. Nobody enters it: whoever needs the broker finds out by itself when it is back. */
const brokerCircuit = 'broker'

/** How often the flows file, prompts and the like are looked at, in milliseconds. */
const watchMs = 2000

async function runUntilStopped(
  config: Config,
  processors: readonly AnyProcessor[],
  all: boolean,
): Promise<void> {
  const { options } = config
  const shutdown = onShutdown({
    lastMs: lastStopMs,
    graceMs: () => (ready ? graceMs : 0) + lastStopMs,
    onLate: (stuck) =>
      log.fatal({ stuck, resources: resources() }, 'the process ends before everything was finished'),
  })
  const watchdog = options.watchdog > 0 ? startWatchdog({ blockedMs: options.watchdog * 1000 }) : undefined
  const over = new AbortController()
  /** Ends all that waits or watches: at a signal, and whenever the process ends. */
  const signal = AbortSignal.any([shutdown.asked, over.signal])
  const needsModel = processors.some(({ name }) => name === 'prompt' || name === 'text-completion')
  const log = createLogger(options['log-level'] ?? optionTable['log-level'].defaults.run)
  const prices = readPrices(options.prices)
  const metrics = createMetrics({ priceOf: (model) => priceOf(model, prices) })
  const circuits = createCircuits()
  const solitude = createSolitude()
  const wiring = createWiring(
    { fallback: undefined, needsModel, provenance: optionTable.provenance.defaults.run, log, metrics },
    signal,
  )
  const graceMs = options.drain === 'now' ? 0 : options['llm-timeout'] * 1000 + drainExtraMs
  const flows = createFlowSet({ log, clock: systemClock, signal, graceMs })
  metrics.configuration({
    isCurrent: () => problem() === undefined,
    flows: () => [
      ...flows.names.map((name) => ({ name, runs: true })),
      ...flows.faults.map(({ flow: name }) => ({ name, runs: false })),
    ],
  })
  const registry = openRegistry(config)
  const startedAt = new Date(systemClock.now())
  let ready = false
  /** Why the latest change is not taken up. */
  let refused: GraphmillError | undefined
  let broker: Broker
  let store: TripleStore
  /** What was opened, to be closed in reverse. */
  const opened: { close(): Promise<void> }[] = []

  try {
    const since = await contentOf(paths())
    const http = await openHttp()
    if (http) opened.push(http)
    const prepared = await untilAvailable(prepare, { signal, onFailure: waitingFor('the model') })
    broker = await awaitBroker(config, { log, onAvailability: noteBroker }, signal)
    opened.push(broker)
    store = openStore(config)
    opened.push(store)
    if (processors.some(({ name }) => name === 'store-triples'))
      await untilAvailable(async () => store.ready?.(), { signal, onFailure: waitingFor('the output') })
    await Promise.race([flows.failed, flows.apply(prepared)])
    signal.throwIfAborted()
    ready = true
    log.info(
      { processors: processors.map(({ name }) => name), flows: flows.names, http: http?.url },
      'running',
    )
    const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    await Promise.race([stopped, flows.failed, follow(since)])
    log.info({ drain: options.drain }, 'stopping')
    shutdown.now.addEventListener('abort', () => void flows.stop(0))
    await flows.stop(graceMs)
  } catch (thrown) {
    // Told to stop while it was starting: there is nothing to finish.
    if (!shutdown.asked.aborted || toGraphmillError(thrown).code !== 'aborted') {
      log.fatal({ err: toGraphmillError(thrown) }, 'the process ends')
      throw thrown
    }
  } finally {
    over.abort(new GraphmillError('aborted', 'The process ends.'))
    if (!shutdown.asked.aborted) shutdown.endWithin(faultStopMs)
    // What is in hand still publishes, and would wait for a broker that was closed.
    await flows.stop(0)
    for (const each of opened.reverse())
      await each.close().catch((error) => log.error({ err: toGraphmillError(error) }, 'could not be closed'))
    shutdown.dispose()
    await watchdog?.stop()
  }
  log.info('stopped')

  function waitingFor(what: string) {
    return (error: GraphmillError) => log.warn({ err: error }, `waiting for ${what}`)
  }

  /** Every flow with its model and prompts, before anything is started. */
  async function prepare(): Promise<PreparedFlow[]> {
    for (const secret of secretFiles(config)) checkSecret(secret)
    return Promise.all(
      flowsOf(config).map((flow) => {
        const fail = (thrown: unknown): never => {
          throw flowError(flow, thrown)
        }
        return prepareFlow(flow).then((prepared) => {
          const start: PreparedFlow['start'] = async (until) => {
            const running = await prepared.start(until).catch(fail)
            return { ...running, done: running.done.catch(fail) }
          }
          return { ...prepared, start }
        }, fail)
      }),
    )
  }

  async function prepareFlow(flow: FlowConfig): Promise<PreparedFlow> {
    // What is read after this is no older.
    const content = await contentOf(watched(flow))
    // Of all extractors, a flow runs those that it wants.
    const chosen = all || options.flows ? serving(processors, flow) : processors
    const assembly = await wiring.assemble(flow)
    if (needsModel) say(announceModel(assembly.llm))
    const flows = assembly.flows.map((each) => ({ ...each, topics: flow.topics }))
    return {
      name: nameOf(flow),
      fingerprint: JSON.stringify([flow.options, flow.topics, content]),
      start: (until) =>
        run(
          {
            ...assembly,
            flows,
            broker,
            processors: chosen,
            store,
            ...(registry && { registry }),
            metrics,
            circuits,
            solitude,
          },
          until,
        ),
      gone: () => forget(flow),
    }
  }

  /** What is known of the topics of a flow that is gone; nobody asks any more whether one that was away is back. */
  async function forget(flow: FlowConfig): Promise<void> {
    for (const key of circuits.open())
      if (isOf(flow, key.slice(key.indexOf(':') + 1))) circuits.succeeded(key)
    await metrics.forget((topic) => isOf(flow, topic))
  }

  /** Takes up every change of the files until told to stop. */
  async function follow(since: string): Promise<void> {
    for await (const _ of changes({ paths, since, everyMs: watchMs }, signal)) {
      try {
        const prepared = await untilAvailable(prepare, { signal, onFailure: refuse })
        refused = undefined
        // Not awaited: while one flow drains another change may come.
        void flows.apply(prepared)
      } catch (thrown) {
        if (!signal.aborted) refuse(toGraphmillError(thrown))
      }
    }
  }

  function refuse(error: GraphmillError): void {
    refused = error
    log.error({ err: error }, 'the change is refused; what ran before goes on')
  }

  /** Why what runs is not what is configured, if it is not. */
  function problem(): GraphmillError | undefined {
    return refused ?? flows.faults[0]?.error
  }

  function noteBroker(error: GraphmillError | undefined): void {
    if (error) circuits.failed(brokerCircuit, error, 1)
    else circuits.succeeded(brokerCircuit)
  }

  function state(): Readiness {
    if (signal.aborted) return 'stopping'
    if (!ready) return 'starting'
    return circuits.reason(brokerCircuit) ? 'unavailable' : 'ready'
  }

  function failedFlows() {
    return flows.faults.map(({ flow, error: { code, message, remedy }, since }) => ({
      flow,
      code,
      message,
      remedy,
      since: new Date(since).toISOString(),
    }))
  }

  /** What is watched; a file that is broken is so itself. */
  function paths(): string[] {
    return [...secretFiles(config).map(({ file }) => file), ...flowPaths()]
  }

  function flowPaths(): string[] {
    const { flows: file } = options
    if (file === undefined) return watched(config)
    try {
      return [file, ...flowsOf(config).flatMap(watched)]
    } catch {
      return [file]
    }
  }

  function openHttp() {
    if (options.http === 'off') return undefined
    return serveHttp({
      address: options.http,
      names: options['http-names'],
      insist: config.origins.http !== 'default',
      registry: metrics.registry,
      state,
      details: () => ({ flows: flows.names, failedFlows: failedFlows(), unavailable: circuits.open() }),
      status: async () => ({
        versions: { graphmill: version, node: process.versions.node },
        startedAt: startedAt.toISOString(),
        ready: state() === 'ready',
        configurationCurrent: problem() === undefined,
        configurationProblem: problem()?.message ?? null,
        flows: flows.names,
        failedFlows: failedFlows(),
        unavailable: circuits.open(),
        consumers: await metrics.consumers(),
      }),
    })
  }
}

/** What the event loop still waits for, by Node's names. */
const resources = () => [...new Set(process.getActiveResourcesInfo())].filter((name) => name !== 'Timeout')

/** The files and folders from which a flow is made. */
const watched = ({ options }: Config): string[] => [
  ...options.prompts,
  ...options.ontologies,
  ...options.schemas,
]

function isOf({ options }: Config, topic: string): boolean {
  const parts = parseTopic(topic)
  return (
    parts !== undefined &&
    'workspace' in parts &&
    parts.workspace === options.workspace &&
    parts.flow === options.flow
  )
}

const lines = new Set<string>()

/** Says a line once. */
function say(line: string): void {
  if (!lines.has(line)) process.stderr.write(`${line}\n`)
  lines.add(line)
}
