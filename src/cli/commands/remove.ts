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
    const there = [...known.values()].filter(({ state }) => state !== 'removed')
    const chosen = isOfCollection
      ? there.filter(({ collection }) => collection === config.options.collection)
      : names.map((name) => findDocument(name, there, config))
    await schemas.announce(signal)
    for (const document of new Set(chosen)) {
      const { documentId, title, collection, versionTime: newestTime } = document
      const reason = isOfCollection ? 'collection' : 'removed'
      if (!config.options['dry-run']) await publishRemoval({ documentId, reason, newestTime }, target, signal)
      process.stdout.write(`${JSON.stringify({ documentId, title, collection })}\n`)
    }
  })
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
