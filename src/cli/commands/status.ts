// `graphmill status`: what the ledger knows about the documents of a flow. `--watch` prints every change; for one document, until
// it has ended.
import type { Command } from 'commander'
import type { ReadMessage } from '../../broker/broker.ts'
import type { Config } from '../../config/config.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { outputRoute } from '../../flow/ports.ts'
import { decodeEntry } from '../../flow/schemas-topic.ts'
import { type Prices, readPrices } from '../../llm/limits/prices.ts'
import type { Message } from '../../messages/envelope.ts'
import { type FlowStatus, flowStatusId } from '../../progress/flow-status.ts'
import { isNewer } from '../../progress/status-cache.ts'
import { pause } from '../../wait.ts'
import { type BrokerSession, brokerOptions, openSchemas, withBroker } from '../broker.ts'
import { findDocument, shortId } from '../document-names.ts'
import { addOptions, configOf } from '../options.ts'
import { readToEnd, reportSkipped } from '../read-to-end.ts'
import { requireFlow } from '../require-flow.ts'
import { type StatusView, statusLines, statusRow, statusRows, viewStatus } from '../status-view.ts'
import { cutText, hanging, printLine, printTable } from '../table.ts'
import { gapText, isRecent, waitsOf } from '../waits.ts'

interface StatusFlags {
  readonly watch?: boolean
}

export function addStatus(command: Command): void {
  command
    .argument(
      '[document]',
      'the file or title of a document, its id, or the short id in the table; default: all',
    )
    .option('--watch', 'print every change; for one document, until it has ended')
    .action((document: string | undefined, flags: StatusFlags) => status(document, flags, configOf(command)))
  addOptions(command, [
    ...brokerOptions,
    'workspace',
    'flow',
    'flows',
    'collection',
    'base',
    'prices',
    'json',
  ])
}

async function status(document: string | undefined, flags: StatusFlags, config: Config): Promise<void> {
  const prices = readPrices(config.options.prices)
  await withBroker(config, async (session) => {
    await requireFlow(session.broker, config.options)
    await printStatus(document, { ...flags, prices }, session)
  })
}

async function printStatus(
  document: string | undefined,
  { watch, prices }: StatusFlags & { readonly prices: Prices },
  session: BrokerSession,
): Promise<void> {
  const { broker, config } = session
  const { json, base, collection } = config.options
  const isShown = (view: StatusView) => config.origins.collection !== 'flag' || view.collection === collection
  const follower = followStatuses(session)
  const known = await follower.now()
  const statuses = new Map([...(known ?? [])].map(([id, { payload }]) => [id, payload]))
  const waits = await waitsOf(statuses, follower.flow(), { broker, place: config.options, now: Date.now() })
  if (!known && !watch)
    throw new GraphmillError('document_unknown', 'No ledger keeps the statuses of this flow.')
  const views = [...(known?.values() ?? [])].map((message) =>
    viewStatus(message, prices, waits.get(message.documentId) ?? []),
  )
  const found = document === undefined ? undefined : findDocument(document, views, base)
  if (document !== undefined && !found && !watch)
    throw new GraphmillError('document_unknown', `The ledger knows no document ${document}.`)
  const shown = found ? [found] : document === undefined ? sorted(views.filter(isShown)) : []
  for (const view of shown) if (json) printJson(view)
  if (document !== undefined && !found)
    process.stderr.write(`waiting for the ledger to hear of ${document}\n`)
  else if (!json) printForPeople(found ?? shown, prices)
  noteLost(follower.flow().lost)
  if (!watch || (found && hasEnded(found))) return
  for await (const view of changesOf(document, found?.documentId, follower, { prices, base })) {
    if (!isShown(view)) continue
    if (json) printJson(view)
    else printChange(view)
  }
}

/** The changes of all documents, or of the one with this id or title until it has ended. */
async function* changesOf(
  document: string | undefined,
  documentId: string | undefined,
  follower: StatusFollower,
  { prices, base }: { readonly prices: Prices; readonly base: string | undefined },
): AsyncGenerator<StatusView> {
  let id = documentId
  for await (const message of follower.changes()) {
    const view = viewStatus(message, prices, null)
    if (document !== undefined) {
      id ??= findDocument(document, [view], base)?.documentId
      if (view.documentId !== id) continue
    }
    yield view
    if (document !== undefined && hasEnded(view)) return
  }
}

interface StatusFollower {
  /** What was lost in the flow, and what its processors wait for. */
  flow(): FlowStatus
  /** The current statuses by documentId; undefined if no ledger has ever run in the flow. */
  now(): Promise<ReadonlyMap<string, Message<'Status'>> | undefined>
  /** Every newer status. Waits for a ledger if there is none. Ends when the signal aborts. */
  changes(): AsyncGenerator<Message<'Status'>>
}

/** Reads the newest status of each document: first the current ones, then each newer one. */
function followStatuses({ broker, config, signal }: BrokerSession): StatusFollower {
  const { topic } = outputRoute('status', config.options)
  const { schemas } = openSchemas(broker, config)
  const newest = new Map<string, Message<'Status'>>()
  let flow: Message<'Status'> | undefined
  const positions: Record<number, string> = {}

  async function take(entry: ReadMessage): Promise<Message<'Status'> | undefined> {
    positions[entry.partition] = entry.position
    const message = await decodeEntry(entry, 'Status', { schemas, signal, onUnreadable: reportSkipped })
    const isOfFlow = message?.documentId === flowStatusId
    const before = isOfFlow ? flow : newest.get(message?.documentId ?? '')
    if (!message || !isNewer(message.payload, before?.payload)) return undefined
    if (isOfFlow) {
      flow = message
      return undefined
    }
    newest.set(message.documentId, message)
    return message
  }

  return {
    flow: () => flow?.payload ?? { lost: [], waiting: [] },
    async now() {
      try {
        for await (const entry of readToEnd(broker, topic, signal)) await take(entry)
      } catch (thrown) {
        if (toGraphmillError(thrown).code !== 'topic_missing') throw thrown
        return undefined
      }
      return newest
    },
    async *changes() {
      while (!signal.aborted) {
        try {
          for await (const entry of broker.read({ topic, from: { ...positions }, until: 'never' }, signal)) {
            const message = await take(entry)
            if (message) yield message
          }
        } catch (thrown) {
          if (toGraphmillError(thrown).code !== 'topic_missing') throw thrown
          await pause(topicPollMs, signal)
        }
      }
    },
  }
}

/** Records of facts and triples belong to no unit, so no document shows their loss. */
function noteLost(lost: FlowStatus['lost']): void {
  for (const gap of lost.filter(isRecent))
    process.stderr.write(`note: ${gapText(gap)}; found ${new Date(gap.time).toISOString()}\n`)
}

/** Milliseconds between two looks for the topic of a ledger that has not started yet. */
const topicPollMs = 1000

const ended = new Set(['done', 'partial', 'failed', 'removed'])
const hasEnded = ({ state }: StatusView) => ended.has(state)

const sorted = (views: readonly StatusView[]) =>
  [...views].sort((one, other) => (one.updatedAt < other.updatedAt ? -1 : 1))

function printJson(view: StatusView): void {
  printLine(JSON.stringify(view))
}

function printForPeople(shown: readonly StatusView[] | StatusView, prices: Prices): void {
  if ('documentId' in shown) statusLines(shown, prices).forEach(printLine)
  else if (shown.length === 0) process.stderr.write('no documents yet\n')
  else {
    printTable(statusRows(shown), false)
    const sentences = new Set(shown.flatMap(({ waitsFor }) => waitsFor ?? []))
    for (const sentence of [...sentences].slice(0, mostWaits)) printLine(hanging('waits for', sentence))
  }
}

/** The most sentences for all documents together; for a single document all are printed. */
const mostWaits = 20

function printChange(view: StatusView): void {
  const { state, done, partial, dead, facts, rejected } = statusRow(view)
  const name = view.title ? cutText(view.title) : shortId(view.documentId)
  printLine(
    `${name}: ${state}, ${done} units done, ${partial} partial, ${dead} dead, ${facts} facts, ${rejected} rejected`,
  )
}
