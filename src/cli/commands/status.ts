// `graphmill status`: what the ledger says of the documents of a flow. `--watch` goes on with every change; of one document,
// until it has ended.
import type { Command } from 'commander'
import type { Broker, ReadMessage } from '../../broker/broker.ts'
import type { Config } from '../../config/config.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { outputRoute } from '../../flow/ports.ts'
import { createSchemasTopic, decodeEntry } from '../../flow/schemas-topic.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { readPrices } from '../../llm/limits/prices.ts'
import { createCodec } from '../../messages/codec.ts'
import type { Message } from '../../messages/envelope.ts'
import { loadSchemas } from '../../messages/registry.ts'
import { type FlowStatus, flowStatusId } from '../../progress/flow-status.ts'
import { isNewer } from '../../progress/status-cache.ts'
import { pause } from '../../wait.ts'
import { brokerOptions, openBroker, openRegistry } from '../broker.ts'
import { addOptions, configOf } from '../options.ts'
import { passOver, readToEnd } from '../read-to-end.ts'
import { requireFlow } from '../require-flow.ts'
import { type StatusView, statusLines, statusRow, viewStatus } from '../status-view.ts'
import { printLine, printTable } from '../table.ts'
import { gapText, isRecent, waitsOf } from '../waits.ts'

interface Flags {
  readonly watch?: boolean
}

export function addStatus(program: Command): void {
  const command = program
    .command('status')
    .description('say how far the documents of a flow are, as the ledger keeps it')
    .argument('[document]', 'the id of a document, or its title; default: all')
    .option('--watch', 'go on with every change; of one document, until it has ended')
    .action((document: string | undefined, flags: Flags) => status(document, flags, configOf(command)))
  addOptions(command, [...brokerOptions, 'workspace', 'flow', 'prices', 'json'])
}

async function status(document: string | undefined, flags: Flags, config: Config): Promise<void> {
  const { json } = config.options
  const prices = readPrices(config.options.prices)
  const shutdown = onShutdown()
  const broker = await openBroker(config, shutdown.asked)
  try {
    await requireFlow(broker, config.options)
    const follower = followStatuses(broker, config, shutdown.asked)
    const known = await follower.now()
    const waits = await waitsNow(known ?? new Map(), follower.flow(), broker, config.options)
    if (!known && !flags.watch)
      throw new GraphmillError('document_unknown', 'No ledger keeps the statuses of this flow.')
    const views = [...(known?.values() ?? [])].map((message) =>
      viewStatus(message, prices, waits.get(message.documentId) ?? []),
    )
    const found = document === undefined ? undefined : findDocument(document, views)
    if (document !== undefined && !found && !flags.watch)
      throw new GraphmillError('document_unknown', `The ledger knows no document ${document}.`)
    const shown = found ? [found] : document === undefined ? sorted(views) : []
    for (const view of shown) if (json) print(view)
    if (document !== undefined && !found)
      process.stderr.write(`waiting for the ledger to hear of ${document}\n`)
    else if (!json) printForPeople(found ?? shown)
    noteLost(follower.flow().lost)
    if (!flags.watch || (found && hasEnded(found))) return
    let id = found?.documentId
    for await (const message of follower.changes()) {
      const view = viewStatus(message, prices, null)
      if (document !== undefined) {
        if (id === undefined && view.title === document) id = view.documentId
        if (view.documentId !== (id ?? document)) continue
      }
      if (json) print(view)
      else printChange(view)
      if (document !== undefined && hasEnded(view)) return
    }
  } finally {
    await broker.close()
    shutdown.dispose()
  }
}

/** The newest status of each document: those of now, then each that is newer. */
function followStatuses(broker: Broker, config: Config, signal: AbortSignal) {
  const { topic } = outputRoute('status', config.options)
  const schemas = createSchemasTopic(
    broker,
    createCodec(loadSchemas()),
    config.options.space,
    openRegistry(config),
  )
  const newest = new Map<string, Message<'Status'>>()
  let flow: Message<'Status'> | undefined
  const places: Record<number, string> = {}

  async function take(entry: ReadMessage): Promise<Message<'Status'> | undefined> {
    places[entry.partition] = entry.position
    const message = await decodeEntry(entry, 'Status', { schemas, signal, onUnreadable: passOver })
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
    /** What was lost in the flow, and what its processors wait for. */
    flow: (): FlowStatus => flow?.payload ?? { lost: [], waiting: [] },
    /** Undefined where no ledger has ever run in the flow. */
    async now(): Promise<ReadonlyMap<string, Message<'Status'>> | undefined> {
      try {
        for await (const entry of readToEnd(broker, topic, signal)) await take(entry)
      } catch (thrown) {
        if (toGraphmillError(thrown).code !== 'topic_missing') throw thrown
        return undefined
      }
      return newest
    },
    /** Waits for a ledger, too. Ends when the signal aborts. */
    async *changes(): AsyncGenerator<Message<'Status'>> {
      while (!signal.aborted) {
        try {
          for await (const entry of broker.read({ topic, from: { ...places }, until: 'never' }, signal)) {
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

async function waitsNow(
  known: ReadonlyMap<string, Message<'Status'>>,
  flow: FlowStatus,
  broker: Broker,
  place: Config['options'],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const statuses = new Map([...known].map(([id, { payload }]) => [id, payload]))
  return await waitsOf(statuses, flow, { broker, place, now: Date.now() })
}

/** Records of facts and triples belong to no unit: no document shows that they are gone. */
function noteLost(lost: FlowStatus['lost']): void {
  for (const gap of lost.filter(isRecent))
    process.stderr.write(`note: ${gapText(gap)}; found ${new Date(gap.time).toISOString()}\n`)
}

/** How often it is looked whether a ledger has begun, in milliseconds. */
const topicPollMs = 1000

/** By id, or by a title that only one document has; undefined where none is so. Throws `document_unknown` for a title of many. */
function findDocument(named: string, views: readonly StatusView[]): StatusView | undefined {
  const byId = views.find(({ documentId }) => documentId === named)
  const byTitle = views.filter(({ title }) => title === named)
  if (byId || byTitle.length < 2) return byId ?? byTitle[0]
  throw new GraphmillError(
    'document_unknown',
    `${byTitle.length} documents are called ${named}: ${byTitle.map(({ documentId }) => documentId).join(', ')}.`,
  )
}

const hasEnded = ({ state }: StatusView) => state === 'done' || state === 'partial' || state === 'failed'

const sorted = (views: readonly StatusView[]) =>
  [...views].sort((one, other) => (one.updatedAt < other.updatedAt ? -1 : 1))

function print(view: StatusView): void {
  printLine(JSON.stringify(view))
}

function printForPeople(shown: readonly StatusView[] | StatusView): void {
  if ('documentId' in shown) statusLines(shown).forEach(printLine)
  else if (shown.length === 0) process.stderr.write('no documents yet\n')
  else {
    printTable(shown.map(statusRow), false)
    const sentences = new Set(shown.flatMap(({ waitsFor }) => waitsFor ?? []))
    for (const sentence of [...sentences].slice(0, mostWaits)) printLine(`waits for  ${sentence}`)
  }
}

/** Of all documents together so many sentences are shown; those of one document are shown all. */
const mostWaits = 20

/** A change, while others may follow. */
function printChange(view: StatusView): void {
  const { state, done, partial, dead, facts, rejected } = statusRow(view)
  printLine(
    `${view.title || view.documentId}: ${state}, ${done} units done, ${partial} partial, ${dead} dead, ${facts} facts, ${rejected} rejected`,
  )
}
