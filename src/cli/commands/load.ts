// `graphmill load`: publishes documents for the processors of a flow. Prints one JSON object per document.
import type { Command } from 'commander'
import { topicSpec } from '../../broker/topics.ts'
import type { Config } from '../../config/config.ts'
import type { FlowConfig } from '../../config/flows.ts'
import { checkId } from '../../documents/identity.ts'
import { type FindOptions, findDocuments, type NamedSource, walkDocuments } from '../../documents/read.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { systemClock, uuids } from '../../flow/clock.ts'
import { knownDocuments } from '../../flow/known-documents.ts'
import { type LoadOutcome, loadDocuments } from '../../flow/load-documents.ts'
import { outputRoute } from '../../flow/ports.ts'
import { createCircuits } from '../../flow/runner/circuits.ts'
import { type BrokerSession, brokerOptions, openSchemas, withBroker } from '../broker.ts'
import { documentOptions, findOptions } from '../documents.ts'
import { failureText } from '../failure.ts'
import { flowOf } from '../flows.ts'
import { addOptions, configOf } from '../options.ts'
import { say } from '../progress.ts'
import { reportSkipped } from '../read-to-end.ts'
import { requireWithdrawal, withdrawalOptions } from '../withdrawal.ts'

/** What happens to a document that was loaded before. */
const loadedAgain =
  'A document is known by its path below --base, by its URL, or by --id. One that was loaded before and has not changed is not extracted again. One that has changed is a new version: only the chunks whose text is new are extracted, and when all are done, the new version replaces the one before.'

export function addLoad(command: Command): void {
  command
    .argument('<files...>', 'files, folders, patterns, URLs, or - for standard input')
    .addHelpText('after', `\n${loadedAgain}`)
    .option('--id <ID>', 'the id of the document, for a single one')
    .action(async (files: string[], { id }: { readonly id?: string }) => {
      const failures = await load({ files, id }, configOf(command))
      if (failures > 0) process.exitCode = 4
    })
  addOptions(command, [
    ...brokerOptions,
    'workspace',
    'flow',
    'flows',
    'collection',
    'base',
    'text-retention',
    ...documentOptions,
    ...withdrawalOptions,
  ])
}

interface LoadCounts {
  loaded: number
  /** Files and documents that could not be loaded. */
  failed: number
}

/** What to load: an id is for a single document. */
interface Named {
  readonly files: readonly string[]
  readonly id: string | undefined
}

/** Returns how many files and documents failed. */
async function load(named: Named, config: Config): Promise<number> {
  const counts: LoadCounts = { loaded: 0, failed: 0 }
  const flow = flowOf(config)
  await withBroker(config, async (session) => {
    try {
      await publishAll(named, flow, session, counts)
    } catch (thrown) {
      if (!session.signal.aborted) throw thrown
      throw new GraphmillError(
        'aborted',
        `Stopped after ${counts.loaded} complete documents: run the same command again for the rest. ${loadedAgain}`,
      )
    }
  })
  return counts.failed
}

async function publishAll(
  named: Named,
  { topics, options, trustgraph }: FlowConfig,
  session: BrokerSession,
  counts: LoadCounts,
): Promise<void> {
  const { broker, config, signal } = session
  const { space, workspace, flow } = options
  const scope = { workspace, flow }
  const { codec, schemas } = openSchemas(broker, config)
  const clocked = { clock: systemClock, ids: uuids, circuits: createCircuits() }
  const target = { broker, codec, ...clocked, space, scope, collection: collectionOf(config, options) }
  const specs = (['document', 'progress'] as const).map((port) =>
    topicSpec(outputRoute(port, { space, ...scope }).topic, topics[port]),
  )
  await broker.ensureTopics(specs)
  await schemas.announce(signal)
  // TrustGraph's messages have no place for a version.
  const known = trustgraph
    ? undefined
    : await knownDocuments({ broker, schemas, onUnreadable: reportSkipped }, { space, ...scope }, signal)
  const newest = known && ((documentId: string) => known.documents.get(documentId))
  const newestNow = known && (async (documentId: string) => (await known.now())?.get(documentId))
  const onOutcome = (outcome: LoadOutcome) => report(outcome, counts, signal)
  const found = distinct(documentsOf(named, session), named.files.length)
  const own = {
    source: 'load',
    newest,
    newestNow,
    requireWithdrawal: () => requireWithdrawal(config),
    onOutcome,
  }
  await loadDocuments(found, { ...target, ...own }, signal)
}

/** The documents that the names refer to, or the error of a name. */
async function* documentsOf(
  { files, id }: Named,
  { config, signal }: BrokerSession,
): AsyncGenerator<NamedSource | GraphmillError, void> {
  if (id !== undefined && files.length > 1)
    throw new GraphmillError('usage', '--id is for a single document.')
  for (const named of files) {
    try {
      const options = findOptions(config, named, say)
      if (id === undefined) yield* walkDocuments(named, signal, options)
      else yield await singleDocument(named, id, { options, signal })
    } catch (thrown) {
      const error = toGraphmillError(thrown)
      if (!error.code.startsWith('document_')) throw error
      yield error
    }
  }
}

async function singleDocument(
  named: string,
  id: string,
  { options, signal }: { readonly options: FindOptions; readonly signal: AbortSignal },
): Promise<NamedSource> {
  checkId(id)
  const [document, second] = await findDocuments(named, signal, options)
  if (!document || second)
    throw new GraphmillError('usage', `--id is for a single document, and ${named} names several.`)
  return { ...document, id }
}

/** Throws `usage` for two files that would be one document. The files of one name never are. */
async function* distinct(
  found: AsyncIterable<NamedSource | GraphmillError>,
  names: number,
): AsyncGenerator<NamedSource | GraphmillError> {
  const paths = new Map<string, string>()
  for await (const next of found) {
    if (names > 1 && 'id' in next && next.id) {
      const before = paths.get(next.id)
      if (before !== undefined && before !== next.uri)
        throw new GraphmillError(
          'usage',
          `${next.name} would be the same document as ${before}: name a --base above both.`,
        )
      paths.set(next.id, next.uri)
    }
    yield next
  }
}

function report(outcome: LoadOutcome, counts: LoadCounts, signal: AbortSignal): void {
  if ('loaded' in outcome) {
    counts.loaded++
    const { document, loaded } = outcome
    const { documentId, parts, version, unchanged } = loaded
    const line = { documentId, parts, title: document.title, version, ...(unchanged && { unchanged }) }
    process.stdout.write(`${JSON.stringify(line)}\n`)
    return
  }
  const { document, error } = outcome
  if (error.code.startsWith('document_')) {
    counts.failed++
    process.stderr.write(`graphmill: ${failureText(error)} ${error.remedy}\n`)
  } else if (signal.aborted) process.stderr.write(`graphmill: ${document?.name}: not loaded completely\n`)
}

/** A collection on the command line or in the environment overrides that of the flow. */
function collectionOf({ options, origins }: Config, ofFlow: Config['options']): string {
  const isGiven = origins.collection === 'flag' || origins.collection === 'environment'
  return isGiven ? options.collection : ofFlow.collection
}
