// What `doctor` checks: the configured files, and every configured server with one call. It publishes and registers nothing.
import type { Broker } from '../broker/broker.ts'
import { pulsarOptions } from '../broker/connect.ts'
import { maskAddress } from '../config/address.ts'
import type { Config } from '../config/config.ts'
import type { Secret } from '../config/secret.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { decodeEntry } from '../flow/schemas-topic.ts'
import { openLlm } from '../llm/from-config.ts'
import type { Llm } from '../llm/llm.ts'
import { providers } from '../llm/providers.ts'
import type { Status } from '../messages/generated.ts'
import { readOntologyBounded } from '../ontology/bounded-load.ts'
import { type FlowStatus, flowStatusId } from '../progress/flow-status.ts'
import { isNewer } from '../progress/status-cache.ts'
import { checkCatalogue } from '../prompt/catalogue/check-catalogue.ts'
import { formatProblem } from '../prompt/catalogue/problem.ts'
import { checkRowSchemas } from '../rows/load.ts'
import { connectOptions, openFlowBroker, openRegistry, openSchemas } from './broker.ts'
import { type CheckResult, failed, failedWith, inTime, ok, patienceMs, skipped } from './check-result.ts'
import { checkEmbeddings, checkStore } from './diagnose-endpoints.ts'
import { limitsOf } from './documents.ts'
import { readToEnd, reportSkipped } from './read-to-end.ts'
import { gapText, isRecent } from './waits.ts'

export async function* runChecks(config: Config, signal: AbortSignal): AsyncGenerator<CheckResult> {
  yield await checkFiles(config)
  yield* checkModel(config, signal)
  yield* checkEmbeddings(config, signal)
  yield* checkBroker(config, signal)
  yield* checkProtocols(config)
  yield await checkRegistry(config, signal)
  yield* checkStore(config, signal)
}

async function checkFiles({ options }: Config): Promise<CheckResult> {
  const { problems: inPrompts, ids } = await checkCatalogue(options.prompts)
  const { problems: inOntologies } = await readOntologyBounded(options.ontologies, limitsOf({ options }))
  const { problems: inRowSchemas } = await checkRowSchemas(options.schemas)
  const [first, ...others] = [...inPrompts, ...inOntologies, ...inRowSchemas]
  if (!first) return ok('files', `${ids.length} prompts and all other configured files can be read`)
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  return failed('files', `${formatProblem(first)}${more} [${first.code}]`, 'See `graphmill check`.')
}

/** Lists the models to check the key, which is free, and asks the model for a few tokens to check that it answers. */
async function* checkModel(config: Config, signal: AbortSignal): AsyncGenerator<CheckResult> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
  const llm = await openLlm(config, undefined, soon).catch((thrown: unknown) => inTime(thrown, signal))
  if (llm instanceof GraphmillError) {
    const { llm: provider, model } = config.options
    yield llm.code === 'llm_not_configured' && provider === undefined && model === undefined
      ? skipped('model', `no model is configured: \`extract\` uses a few rules, offline. ${llm.remedy}`)
      : failedWith(llm.code === 'llm_authentication' ? 'key' : 'model', llm)
    return
  }
  if (llm.isLocal) {
    yield ok('model', 'offline: a few rules in this process, no model is called')
    return
  }
  const refusal = await llm.ready(soon).then(
    () => undefined,
    (thrown: unknown) => inTime(thrown, signal),
  )
  const answer = refusal ?? (await answerOf(llm, config, signal))
  const { apiKeyOf } = providers[llm.provider]
  const ofKey = answer instanceof GraphmillError && answer.code === 'llm_authentication'
  if (ofKey) yield failedWith('key', answer)
  else if (apiKeyOf) yield keyResult(apiKeyOf(config.servers), refusal, llm)
  if (ofKey) yield skipped('model', `${llm.model} was not tried`)
  else yield answer instanceof GraphmillError ? failedWith('model', answer) : ok('model', answer)
}

function keyResult(key: Secret | undefined, refusal: GraphmillError | undefined, llm: Llm): CheckResult {
  if (refusal?.details['category'] === 'provider_unavailable')
    return skipped('key', `${llm.destination} was not reached`)
  if (!key) return ok('key', `none is set, and ${llm.destination} requires none`)
  return ok('key', `${llm.destination} accepts it`)
}

/** A sentence about the model's reply, or the error. */
async function answerOf(
  llm: Llm,
  { options }: Config,
  signal: AbortSignal,
): Promise<string | GraphmillError> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(options['llm-timeout'] * 1000)])
  const started = performance.now()
  try {
    const question = { messages: [{ role: 'user', content: 'Reply with the word ok.' }] } as const
    // The first piece is enough; leaving the loop cancels the rest.
    for await (const _ of llm.stream(question, limit)) break
    const seconds = ((performance.now() - started) / 1000).toFixed(1)
    return `${llm.provider} ${llm.model} at ${llm.destination} answers within ${seconds} s`
  } catch (thrown) {
    return inTime(thrown, signal)
  }
}

async function* checkBroker(config: Config, signal: AbortSignal): AsyncGenerator<CheckResult> {
  const { broker: url, space } = config.options
  if (!url) {
    yield skipped('broker', 'none is configured; `extract` needs none')
    return
  }
  try {
    const broker = await openFlowBroker(config, signal)
    try {
      const topics = await broker.listTopics(`${space}.`)
      const { tls } = config.options
      yield ok(
        'broker',
        `${maskAddress(url)} answers${tls ? ' over TLS' : ''}; ${topics.length} topics of ${space}`,
      )
      yield* checkLostRecords(broker, config, signal)
    } finally {
      await broker.close()
    }
  } catch (thrown) {
    signal.throwIfAborted()
    yield failedWith('broker', toGraphmillError(thrown))
  }
}

/** Which of Pulsar's two protocols could be used. That the configured one works is the check of the broker. */
async function* checkProtocols(config: Config): AsyncGenerator<CheckResult> {
  const options = pulsarOptionsOf(config)
  if (!options) return
  const { findProtocols } = await import('../broker/pulsar/pulsar.ts')
  const { web, withoutNative, withoutWebSocket } = await findProtocols(options)
  const native = `the module pulsar-client, for pulsar:// and pulsar+ssl://, ${withoutNative ? 'cannot be loaded' : 'is there'}`
  const webSocket =
    withoutWebSocket === undefined
      ? 'the WebSocket service answers, for pulsar+ws:// and pulsar+wss://'
      : `the WebSocket service at ${web} does not answer: ${withoutWebSocket}`
  const state = withoutNative !== undefined && withoutWebSocket !== undefined ? skipped : ok
  yield state('pulsar', `${native}; ${webSocket}`)
}

/** Undefined when the configuration names no Pulsar, or is wrong: then the check of the broker has said so. */
function pulsarOptionsOf(config: Config) {
  try {
    return pulsarOptions(config.options.broker ?? '', connectOptions(config))
  } catch {
    return undefined
  }
}

/** The records that the ledgers of the space reported as lost in the last days, with one result per flow. */
async function* checkLostRecords(
  broker: Broker,
  config: Config,
  signal: AbortSignal,
): AsyncGenerator<CheckResult> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
  const found = await flowStatuses(broker, config, soon)
  let clean = true
  for (const [flow, { lost }] of found) {
    const recent = lost.filter(isRecent)
    if (recent.length === 0) continue
    clean = false
    yield failed(
      'lost records',
      `${flow}: ${recent.map(gapText).join('; ')}`,
      'Load the documents again that `graphmill status` shows with expired units, and increase the retention of the topics.',
    )
  }
  if (clean && found.size > 0) yield ok('lost records', 'none were found in the last 7 days')
}

/** The status of each flow of the space that has one, by `workspace/flow`. */
async function flowStatuses(
  broker: Broker,
  config: Config,
  signal: AbortSignal,
): Promise<Map<string, FlowStatus>> {
  const { schemas } = openSchemas(broker, config)
  const found = new Map<string, Status>()
  for (const { name: topic } of await broker.listTopics(`${config.options.space}.notify.status.`))
    for await (const entry of readToEnd(broker, topic, signal)) {
      if (entry.key !== flowStatusId) continue
      const message = await decodeEntry(entry, 'Status', { schemas, signal, onUnreadable: reportSkipped })
      const flow = `${message?.workspace}/${message?.flow}`
      if (message && isNewer(message.payload, found.get(flow))) found.set(flow, message.payload)
    }
  return found
}

async function checkRegistry(config: Config, signal: AbortSignal): Promise<CheckResult> {
  const url = config.options['schema-registry']
  if (!url)
    return skipped('schema registry', 'none is configured; messages contain the fingerprint of their schema')
  try {
    await openRegistry(config)?.find(1, signal)
    return ok('schema registry', `${maskAddress(url)} answers`)
  } catch (thrown) {
    return failedWith('schema registry', inTime(thrown, signal))
  }
}
