// What `doctor` looks at: files that are read, and servers that each get one call. Nothing is published, nothing registered.
import type { Broker } from '../broker/broker.ts'
import { maskAddress } from '../config/address.ts'
import type { Config } from '../config/config.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { createSchemasTopic, decodeEntry } from '../flow/schemas-topic.ts'
import { openLlm } from '../llm/from-config.ts'
import type { Llm } from '../llm/llm.ts'
import { createCodec } from '../messages/codec.ts'
import type { Status } from '../messages/generated.ts'
import { loadSchemas } from '../messages/registry.ts'
import { readOntologyBounded } from '../ontology/bounded-load.ts'
import { type FlowStatus, flowStatusId } from '../progress/flow-status.ts'
import { isNewer } from '../progress/status-cache.ts'
import { checkCatalogue } from '../prompt/catalogue/check-catalogue.ts'
import { formatProblem } from '../prompt/catalogue/problem.ts'
import { checkRowSchemas } from '../rows/load.ts'
import { openBroker, openRegistry } from './broker.ts'
import { type Finding, failed, inTime, ok, patienceMs, skipped } from './check-result.ts'
import { embeddingsFindings, storeFindings } from './diagnose-endpoints.ts'
import { limitsOf } from './documents.ts'
import { passOver, readToEnd } from './read-to-end.ts'
import { gapText, isRecent } from './waits.ts'

export async function* findings(config: Config, signal: AbortSignal): AsyncGenerator<Finding> {
  yield await filesFinding(config)
  yield* modelFindings(config, signal)
  yield* embeddingsFindings(config, signal)
  yield* brokerFindings(config, signal)
  yield await registryFinding(config, signal)
  yield* storeFindings(config, signal)
}

async function filesFinding({ options }: Config): Promise<Finding> {
  const { problems: inPrompts, ids } = await checkCatalogue(options.prompts)
  const { problems: inOntologies } = await readOntologyBounded(options.ontologies, limitsOf({ options }))
  const { problems: inRowSchemas } = await checkRowSchemas(options.schemas)
  const [first, ...others] = [...inPrompts, ...inOntologies, ...inRowSchemas]
  if (!first) return ok('files', `${ids.length} prompts, and what else is configured, can be read`)
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  return {
    check: 'files',
    state: 'failed',
    detail: `${formatProblem(first)}${more} [${first.code}]`,
    fix: 'See `graphmill check`.',
  }
}

/** The key is tried by asking for the models, which is free; the model with a few tokens, which alone shows that it answers. */
async function* modelFindings(config: Config, signal: AbortSignal): AsyncGenerator<Finding> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
  const llm = await openLlm(config, undefined, soon).catch((thrown: unknown) => inTime(thrown, signal))
  if (llm instanceof GraphmillError) {
    const { llm: provider, model } = config.options
    yield llm.code === 'llm_not_configured' && provider === undefined && model === undefined
      ? skipped('model', `no model is configured: \`extract\` reads by a few rules, offline. ${llm.remedy}`)
      : failed(llm.code === 'llm_authentication' ? 'key' : 'model', llm)
    return
  }
  if (llm.isLocal) {
    yield ok('model', 'offline: a few rules in this process, no model is asked')
    return
  }
  const refusal = await llm.ready(soon).then(
    () => undefined,
    (thrown: unknown) => inTime(thrown, signal),
  )
  const answer = refusal ?? (await answerOf(llm, config, signal))
  const ofKey = answer instanceof GraphmillError && answer.code === 'llm_authentication'
  if (ofKey) yield failed('key', answer)
  else if (llm.provider === 'openai') yield keyFinding(config, refusal, llm)
  if (ofKey) yield skipped('model', `${llm.model} was not tried`)
  else yield answer instanceof GraphmillError ? failed('model', answer) : ok('model', answer)
}

function keyFinding({ servers }: Config, refusal: GraphmillError | undefined, llm: Llm): Finding {
  if (refusal?.details['category'] === 'provider_unavailable')
    return skipped('key', `${llm.destination} was not reached`)
  if (!servers.openaiApiKey) return ok('key', `none is set, and ${llm.destination} asks for none`)
  return ok('key', `${llm.destination} accepts it`)
}

/** A sentence about the model's reply, or why there is none. */
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

async function* brokerFindings(config: Config, signal: AbortSignal): AsyncGenerator<Finding> {
  const { broker: url, space } = config.options
  if (!url) {
    yield skipped('broker', 'none is named; `extract` needs none')
    return
  }
  try {
    const broker = await openBroker(config, signal)
    try {
      const topics = await broker.listTopics(`${space}.`)
      const { tls } = config.options
      yield ok(
        'broker',
        `${maskAddress(url)} answers${tls ? ' over TLS' : ''}; ${topics.length} topics of ${space}`,
      )
      yield* lostFindings(broker, config, signal)
    } finally {
      await broker.close()
    }
  } catch (thrown) {
    signal.throwIfAborted()
    yield failed('broker', toGraphmillError(thrown))
  }
}

/** What the ledgers of the space found to be lost in the last days, a line for each flow. */
async function* lostFindings(broker: Broker, config: Config, signal: AbortSignal): AsyncGenerator<Finding> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
  const found = await flowStatuses(broker, config, soon)
  let clean = true
  for (const [flow, { lost }] of found) {
    const recent = lost.filter(isRecent)
    if (recent.length === 0) continue
    clean = false
    yield {
      check: 'lost records',
      state: 'failed',
      detail: `${flow}: ${recent.map(gapText).join('; ')}`,
      fix: 'Load the documents again that `graphmill status` shows with expired units, and keep topics for longer.',
    }
  }
  if (clean && found.size > 0) yield ok('lost records', 'none was found in the last 7 days')
}

/** By `workspace/flow`, for all flows of the space that have such a status. */
async function flowStatuses(
  broker: Broker,
  config: Config,
  signal: AbortSignal,
): Promise<Map<string, FlowStatus>> {
  const { space } = config.options
  const schemas = createSchemasTopic(broker, createCodec(loadSchemas()), space, openRegistry(config))
  const found = new Map<string, Status>()
  for (const { name: topic } of await broker.listTopics(`${space}.notify.status.`))
    for await (const entry of readToEnd(broker, topic, signal)) {
      if (entry.key !== flowStatusId) continue
      const message = await decodeEntry(entry, 'Status', { schemas, signal, onUnreadable: passOver })
      const flow = `${message?.workspace}/${message?.flow}`
      if (message && isNewer(message.payload, found.get(flow))) found.set(flow, message.payload)
    }
  return found
}

async function registryFinding(config: Config, signal: AbortSignal): Promise<Finding> {
  const url = config.options['schema-registry']
  if (!url) return skipped('schema registry', 'none is named; messages carry the fingerprint of their schema')
  try {
    await openRegistry(config)?.find(1, signal)
    return ok('schema registry', `${maskAddress(url)} answers`)
  } catch (thrown) {
    return failed('schema registry', inTime(thrown, signal))
  }
}
