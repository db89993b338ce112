// `graphmill status`: what the ledger says of the documents of a flow. `--watch` goes on with every change; of one document,
// until it has ended.
import type { Command } from 'commander'
import type { Broker, ReadMessage } from '../broker/broker.ts'
import type { Config } from '../config/config.ts'
import { coded, GraphmillError } from '../errors.ts'
import { outputRoute } from '../flow/ports.ts'
import { createSchemasTopic, decodeEntry } from '../flow/schemas-topic.ts'
import { onShutdown } from '../flow/shutdown.ts'
import { isNewer } from '../flow/status-shelf.ts'
import { readPrices } from '../llm/prices.ts'
import { createCodec } from '../messages/codec.ts'
import type { Message } from '../messages/envelope.ts'
import { loadSchemas } from '../messages/registry.ts'
import { brokerOptions, openBroker } from './broker.ts'
import { addOptions, configOf } from './options.ts'
import { passOver, readToEnd } from './read-to-end.ts'
import { type StatusView, statusLines, statusRow, viewStatus } from './status-view.ts'
import { printTable } from './table.ts'

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
    const follower = followStatuses(broker, config, shutdown.asked)
    const views = [...(await follower.now()).values()].map((message) => viewStatus(message, prices))
    const wanted = document === undefined ? views : [findDocument(document, views)]
    for (const view of sorted(wanted)) if (json) print(view)
    if (!json) printForPeople(document === undefined ? sorted(wanted) : wanted[0]!)
    if (!flags.watch) return
    const only = document === undefined ? undefined : wanted[0]!
    if (only && hasEnded(only)) return
    for await (const message of follower.changes()) {
      if (only && message.documentId !== only.documentId) continue
      const view = viewStatus(message, prices)
      if (json) print(view)
      else printLine(view)
      if (only && hasEnded(view)) return
    }
  } finally {
    await broker.close()
    shutdown.dispose()
  }
}

/** The newest status of each document: those of now, then each that is newer. */
function followStatuses(broker: Broker, { options }: Config, signal: AbortSignal) {
  const { topic } = outputRoute('status', options)
  const schemas = createSchemasTopic(broker, createCodec(loadSchemas()), options.space)
  const newest = new Map<string, Message<'Status'>>()
  const places: Record<number, string> = {}

  async function take(entry: ReadMessage): Promise<Message<'Status'> | undefined> {
    places[entry.partition] = entry.position
    const message = await decodeEntry(entry, 'Status', { schemas, signal, onUnreadable: passOver })
    if (!message || !isNewer(message.payload, newest.get(message.documentId)?.payload)) return undefined
    newest.set(message.documentId, message)
    return message
  }

  return {
    async now(): Promise<ReadonlyMap<string, Message<'Status'>>> {
      try {
        for await (const entry of readToEnd(broker, topic, signal)) await take(entry)
      } catch (thrown) {
        if (coded(thrown).code !== 'topic_missing') throw thrown
        throw new GraphmillError('document_unknown', 'No ledger keeps the statuses of this flow.', {
          cause: thrown,
        })
      }
      return newest
    },
    async *changes(): AsyncGenerator<Message<'Status'>> {
      for await (const entry of broker.read({ topic, from: { ...places }, until: 'never' }, signal)) {
        const message = await take(entry)
        if (message) yield message
      }
    },
  }
}

/** By id, or by a title that only one document has. Throws `document_unknown`. */
function findDocument(named: string, views: readonly StatusView[]): StatusView {
  const byId = views.find(({ documentId }) => documentId === named)
  const byTitle = views.filter(({ title }) => title === named)
  if (byId ?? byTitle.length === 1) return (byId ?? byTitle[0])!
  if (byTitle.length > 1)
    throw new GraphmillError(
      'document_unknown',
      `${byTitle.length} documents are called ${named}: ${byTitle.map(({ documentId }) => documentId).join(', ')}.`,
    )
  throw new GraphmillError('document_unknown', `The ledger knows no document ${named}.`)
}

const hasEnded = ({ state }: StatusView) => state === 'done' || state === 'partial' || state === 'failed'

const sorted = (views: readonly StatusView[]) =>
  [...views].sort((one, other) => (one.updatedAt < other.updatedAt ? -1 : 1))

function print(view: StatusView): void {
  process.stdout.write(`${JSON.stringify(view)}\n`)
}

function printForPeople(shown: readonly StatusView[] | StatusView): void {
  if ('documentId' in shown) for (const line of statusLines(shown)) process.stdout.write(`${line}\n`)
  else if (shown.length === 0) process.stderr.write('no documents yet\n')
  else printTable(shown.map(statusRow), false)
}

/** A change, while others may follow. */
function printLine(view: StatusView): void {
  const { document, state, done, partial, dead, facts, rejected } = statusRow(view)
  process.stdout.write(
    `${document}: ${state}, ${done} units done, ${partial} partial, ${dead} dead, ${facts} facts, ${rejected} rejected\n`,
  )
}
