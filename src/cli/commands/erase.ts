// `graphmill erase`: removes documents and deletes their texts from the topics, from dead letters and from the cache of replies. Says
// what was deleted, and what remains where.
import { userInfo } from 'node:os'
import type { Command } from 'commander'
import { loadProcessors } from '../../../processors/modules.ts'
import type { GroupBacklog } from '../../broker/broker.ts'
import type { Config } from '../../config/config.ts'
import { GraphmillError } from '../../errors.ts'
import { systemClock, uuids } from '../../flow/clock.ts'
import { type Erasure, eraseDocuments } from '../../flow/erasure.ts'
import { type KnownDocument, knownDocuments } from '../../flow/known-documents.ts'
import { groupsOf } from '../../flow/run.ts'
import { createCircuits } from '../../flow/runner/circuits.ts'
import { brokerOptions, openSchemas, withBroker } from '../broker.ts'
import { flowOf, serving } from '../flows.ts'
import { addOptions, configOf } from '../options.ts'
import { reportSkipped } from '../read-to-end.ts'
import { cacheOptions, openReplies } from '../reply-cache.ts'
import { requireFlow } from '../require-flow.ts'
import { requireWithdrawal, withdrawalOptions } from '../withdrawal.ts'
import { findDocument } from './remove.ts'

interface OwnOptions {
  readonly withOthers?: boolean
  readonly ignoreGroups?: string
  readonly timeout: string
  readonly by?: string
}

export function addErase(command: Command): void {
  command
    .argument('<documents...>', 'files, or ids or titles of documents')
    .option(
      '--with-others',
      'also delete the settled messages of other documents in the same topics: what they state stays, but they cannot be read again',
    )
    .option(
      '--ignore-groups <A,B>',
      'consumer groups that are not waited for: they lose what they have not read',
    )
    .option('--timeout <SECONDS>', 'how long to wait for consumers that are behind', '3600')
    .option('--by <NAME>', 'who erases, for the record; by default the user of the system')
    .action((names: string[], own: OwnOptions) => erase(names, own, configOf(command)))
  addOptions(command, [
    ...brokerOptions,
    'workspace',
    'flow',
    'flows',
    'extractors',
    'schemas',
    'ontologies',
    'base',
    'dry-run',
    ...cacheOptions,
    ...withdrawalOptions,
  ])
}

async function erase(names: readonly string[], own: OwnOptions, config: Config): Promise<void> {
  const timeoutMs = Number(own.timeout) * 1000
  if (!(timeoutMs >= 0)) throw new GraphmillError('usage', '--timeout must be a number of seconds.')
  const flow = flowOf(config)
  if (flow.trustgraph)
    throw new GraphmillError(
      'usage',
      "This flow is on TrustGraph's topics, whose messages name no version and belong to its own processors, too. Delete there by the retention of these topics.",
    )
  requireWithdrawal(config)
  const dryRun = config.options['dry-run']
  await withBroker(config, async ({ broker, signal }) => {
    const { space, workspace, flow: name } = config.options
    await requireFlow(broker, config.options)
    const { codec, schemas } = openSchemas(broker, config)
    const known = [
      ...(
        await knownDocuments({ broker, schemas, onUnreadable: reportSkipped }, config.options, signal)
      ).documents.values(),
    ]
    const documents = names.map((each) => identify(each, known, config))
    if (!dryRun) await schemas.announce(signal)
    const { close, ...replies } = await openReplies(config)
    const clocked = { clock: systemClock, ids: uuids, circuits: createCircuits(), source: 'erase' }
    const erasure = await eraseDocuments(
      documents,
      {
        ...{ broker, codec, ...clocked, space, scope: { workspace, flow: name }, replies, timeoutMs, dryRun },
        by: own.by ?? userInfo().username,
        groups: groupsOf(serving(await loadProcessors(), flow), { space, workspace, flow: name }),
        ignoredGroups: own.ignoreGroups?.split(',') ?? [],
        withOthers: own.withOthers ?? false,
        onWaiting: sayWaiting(),
      },
      signal,
    ).finally(close)
    report(erasure, { documents: documents.map(({ documentId }) => documentId), dryRun })
  })
}

/** A document whose status is gone may still have messages: then the name is its id. Throws `document_unknown` for a title of several. */
function identify(name: string, known: readonly KnownDocument[], config: Config) {
  try {
    const { documentId, versionTime: newestTime } = findDocument(name, known, config)
    return { documentId, newestTime }
  } catch (thrown) {
    if (known.some(({ title }) => title === name)) throw thrown
    return { documentId: name }
  }
}

/** Says which groups are waited for, when that changes. */
function sayWaiting() {
  let said = ''
  return (topic: string, behind: readonly GroupBacklog[]) => {
    const groups = behind.map(({ group, members }) => `${group}${members === 0 ? ' (no consumer runs)' : ''}`)
    const line = `waiting for ${groups.join(', ')} on ${topic}`
    if (line !== said) process.stderr.write(`${line}\n`)
    said = line
  }
}

/** What an erasure does not reach. */
const remains = [
  'Statuses of before, with the title, in the topic status until the broker compacts it.',
  "Bytes on the broker's disks that no client can read: on Kafka until their file is closed (by a message after segment.ms, 7 days by default) and all other messages in it are deleted or expired, on Pulsar until its bookies collect garbage.",
  'Replies in caches of other machines: until a prompt processor with that cache runs, at the latest until --cache-days are over.',
  'Backups, files that were written, logs and traces of model calls, and what the provider of the model keeps.',
]

function report(
  { complete, topics, waiting, readers }: Erasure,
  { documents, dryRun }: { readonly documents: readonly string[]; readonly dryRun: boolean },
): void {
  const others = readers.map((group) => `What the consumer group ${group} has stored of these topics.`)
  const said = { documents, ...(dryRun ? { dryRun } : { complete }), topics, waiting }
  process.stdout.write(`${JSON.stringify({ ...said, remains: [...remains, ...others] })}\n`)
  if (complete || dryRun) return
  const groups = [...new Set(waiting.map(({ group }) => group))].join(', ')
  const why = groups
    ? `${groups} did not settle the messages before in time. Start its consumers or name it in --ignore-groups, then`
    : 'the broker has not deleted everything in time. Later,'
  process.stderr.write(`graphmill: not erased yet: ${why} run the same command again.\n`)
  process.exitCode = 3
}
