// `graphmill remove`: withdraws documents. A message on `document` says so; the ledger passes it on, and stores follow.
import type { Command } from 'commander'
import type { Config } from '../../config/config.ts'
import { GraphmillError } from '../../errors.ts'
import { systemClock, uuids } from '../../flow/clock.ts'
import { type KnownDocument, knownDocuments } from '../../flow/known-documents.ts'
import { publishRemoval } from '../../flow/removal.ts'
import { createCircuits } from '../../flow/runner/circuits.ts'
import { brokerOptions, openSchemas, withBroker } from '../broker.ts'
import { findExactly } from '../document-names.ts'
import { addOptions, configOf } from '../options.ts'
import { reportSkipped } from '../read-to-end.ts'
import { requireFlow } from '../require-flow.ts'
import { requireWithdrawal, withdrawalOptions } from '../withdrawal.ts'

export function addRemove(command: Command): void {
  command
    .argument('[documents...]', 'files, or ids or titles of documents; default: all of --collection')
    .action((names: string[]) => remove(names, configOf(command)))
  addOptions(command, [
    ...brokerOptions,
    'workspace',
    'flow',
    'collection',
    'base',
    'dry-run',
    ...withdrawalOptions,
  ])
}

async function remove(names: readonly string[], config: Config): Promise<void> {
  const isOfCollection = names.length === 0
  if (isOfCollection && config.origins.collection !== 'flag')
    throw new GraphmillError('usage', 'Name the documents to remove, or a --collection.')
  requireWithdrawal(config)
  const { space, workspace, flow } = config.options
  await withBroker(config, async ({ broker, signal }) => {
    await requireFlow(broker, config.options)
    const { codec, schemas } = openSchemas(broker, config)
    const own = { clock: systemClock, ids: uuids, circuits: createCircuits(), source: 'remove' }
    const target = { broker, codec, ...own, space, scope: { workspace, flow } }
    const known = await knownDocuments(
      { broker, schemas, onUnreadable: reportSkipped },
      config.options,
      signal,
    )
    const there = isOfCollection ? undefined : namedThere(names, known.documents, config)
    // What was loaded or removed just now is not known yet.
    const now = there ? known.documents : await known.now()
    if (!now) noteUnread()
    const all = now ?? known.documents
    const chosen =
      there ??
      (isOfCollection ? documentsIn(all, now !== undefined, config) : [...namedDocuments(names, all, config)])
    await schemas.announce(signal)
    const reason = isOfCollection ? 'collection' : 'removed'
    const removeOne = async ({
      documentId,
      title,
      collection,
      state,
      versionTime: newestTime,
    }: KnownDocument) => {
      const unchanged = state === 'removed' && now !== undefined
      if (!unchanged && !config.options['dry-run'])
        await publishRemoval({ documentId, reason, newestTime }, target, signal)
      return JSON.stringify({ documentId, title, collection, ...(unchanged && { unchanged }) })
    }
    for (let from = 0; from < chosen.length; from += mostAtOnce) {
      const lines = await Promise.all(chosen.slice(from, from + mostAtOnce).map(removeOne))
      process.stdout.write(`${lines.join('\n')}\n`)
    }
  })
}

/** The most removals that are published at a time. */
const mostAtOnce = 128

type KnownDocuments = ReadonlyMap<string, KnownDocument>

function noteUnread(): void {
  process.stderr.write(
    'graphmill: chunk-text and the ledger have not read everything: what was loaded just now may be missing here. Run the same command again when they have.\n',
  )
  process.exitCode = 3
}

/** The documents with these names, if all of them are there. */
function namedThere(
  names: readonly string[],
  known: KnownDocuments,
  { options }: Config,
): readonly KnownDocument[] | undefined {
  const there = [...known.values()].filter(({ state }) => state !== 'removed')
  const found = new Set(names.map((name) => findExactly(name, there, options.base)))
  return found.has(undefined) ? undefined : ([...found] as KnownDocument[])
}

function documentsIn(
  known: KnownDocuments,
  isCertain: boolean,
  { options }: Config,
): readonly KnownDocument[] {
  const found = [...known.values()].filter(
    ({ collection, state }) => collection === options.collection && state !== 'removed',
  )
  if (found.length === 0 && isCertain)
    process.stderr.write(`graphmill: The collection ${options.collection} has no documents.\n`)
  return found
}

/** One that was removed is found when no other has the title. Throws `document_unknown`. */
function namedDocuments(
  names: readonly string[],
  known: KnownDocuments,
  config: Config,
): ReadonlySet<KnownDocument> {
  const all = [...known.values()]
  const there = all.filter(({ state }) => state !== 'removed')
  const find = (name: string) =>
    findExactly(name, there, config.options.base) ?? findDocument(name, all, config)
  return new Set(names.map(find))
}

/** Throws `document_unknown`. */
export function findDocument(
  name: string,
  known: readonly KnownDocument[],
  { options }: Config,
): KnownDocument {
  const found = findExactly(name, known, options.base)
  if (!found) throw new GraphmillError('document_unknown', `The ledger knows no document ${name}.`)
  return found
}
