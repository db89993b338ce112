// `graphmill dead`: the messages that no one could process. `replay` brings each back to its topic, once: what was replayed
// is remembered by the group <space>.dead-replay. and the rest of the topic's name.
import type { Command } from 'commander'
import type { Broker, ReadMessage } from '../../broker/broker.ts'
import { deadTopic, isDeadTopic, parseTopic } from '../../broker/topics.ts'
import type { Options } from '../../config/options.ts'
import { GraphmillError } from '../../errors.ts'
import { createSchemasTopic, type SchemasTopic } from '../../flow/schemas-topic.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { type Codec, createCodec } from '../../messages/codec.ts'
import { loadSchemas } from '../../messages/registry.ts'
import { brokerOptions, openBroker, openRegistry } from '../broker.ts'
import { failureText } from '../failure.ts'
import { addOptions, configOf } from '../options.ts'
import { readToEnd } from '../read-to-end.ts'
import { idOf, replayOne, replayWaiting } from '../replay.ts'
import { requireFlow } from '../require-flow.ts'
import { show } from '../show-message.ts'
import { printLine, printTable } from '../table.ts'
import { topicOf } from '../topic-names.ts'

interface Place {
  readonly broker: Broker
  readonly codec: Codec
  readonly schemas: SchemasTopic
  readonly options: Options
  readonly signal: AbortSignal
}

export function addDead(program: Command): void {
  const dead = program
    .command('dead')
    .description('list, show and replay the messages that no one could process')
  const list = dead
    .command('list')
    .description('the topics that hold dead letters, and how many wait for a replay')
    .action(() => within(list, listLetters))
  const showing = dead
    .command('show')
    .description('print dead letters, one JSON object a line')
    .argument('[role]', 'a role, such as chunk, or the name of a topic; default: all')
    .action((role: string | undefined) => within(showing, (place) => showLetters(place, role)))
  const replay = dead
    .command('replay')
    .description('publish dead letters to the topics they came from')
    .argument('[role]', 'a role, such as chunk, or the name of a topic; default: all')
    .option('--id <ID>', 'only the newest letter of the message with this id, even if it was replayed before')
    .action((role: string | undefined, { id }: { id?: string }) =>
      within(replay, (place) => replayLetters(place, role, id)),
    )
  addOptions(list, [...brokerOptions, 'workspace', 'flow', 'json'])
  for (const command of [showing, replay]) addOptions(command, [...brokerOptions, 'workspace', 'flow'])
}

async function within(command: Command, act: (place: Place) => Promise<void>): Promise<void> {
  const config = configOf(command)
  const shutdown = onShutdown()
  const broker = await openBroker(config, shutdown.asked)
  try {
    const codec = createCodec(loadSchemas())
    const { options } = config
    const schemas = createSchemasTopic(broker, codec, options.space, openRegistry(config))
    await act({ broker, codec, schemas, options, signal: shutdown.asked })
    shutdown.asked.throwIfAborted()
  } finally {
    await broker.close()
    shutdown.dispose()
  }
}

/** The dead-letter topics of the flow, or those that a role or name means: there may be several receivers of one role. */
async function deadTopics({ broker, options }: Place, role: string | undefined): Promise<string[]> {
  const { space, workspace, flow } = options
  if (role === undefined || !parseTopic(role)) await requireFlow(broker, options)
  const wanted = role === undefined ? undefined : isDeadTopic(role) ? role : deadTopic(topicOf(role, options))
  const names = (await broker.listTopics(`${space}.`)).map(({ name }) => name).filter(isDeadTopic)
  return names.filter((name) => {
    if (wanted !== undefined) return name === wanted
    const parts = parseTopic(name)
    return parts !== undefined && 'workspace' in parts && parts.workspace === workspace && parts.flow === flow
  })
}

/** Names what was replayed of a topic; every dead-letter topic has a group of its own. */
const replayGroup = (topic: string, space: string) => `${space}.dead-replay.${topic.slice(space.length + 1)}`

async function listLetters(place: Place): Promise<void> {
  const { broker, options, signal } = place
  const rows = []
  for (const topic of await deadTopics(place, undefined)) {
    let letters = 0
    for await (const _ of readToEnd(broker, topic, signal)) letters++
    rows.push({ topic, letters, waiting: (await broker.lag(replayGroup(topic, options.space), topic)).total })
  }
  if (rows.length === 0 && !options.json) process.stderr.write('no dead letters\n')
  printTable(rows, options.json)
}

async function showLetters(place: Place, role: string | undefined): Promise<void> {
  const { broker, schemas, signal } = place
  for (const topic of await deadTopics(place, role))
    for await (const letter of readToEnd(broker, topic, signal))
      printLine(JSON.stringify(await show(letter, { topic, schemas, signal })))
}

async function replayLetters(place: Place, role: string | undefined, id: string | undefined): Promise<void> {
  const { broker, codec, schemas, signal, options } = place
  const topics = await deadTopics(place, role)
  let replayed = 0
  let refused = 0
  const onRefused = (letter: ReadMessage, error: GraphmillError) => {
    refused++
    process.stderr.write(`${idOf(letter)} in ${letter.topic} can't be replayed: ${failureText(error)}\n`)
  }
  if (topics.length > 0) await schemas.announce(signal)
  for (const topic of topics) {
    const at = { broker, codec, signal, onRefused }
    if (id === undefined) replayed += await replayWaiting(at, topic, replayGroup(topic, options.space))
    else if (await replayOne(at, topic, id)) replayed++
  }
  if (id !== undefined && replayed + refused === 0)
    throw new GraphmillError('usage', `No dead letter has the id ${id}.`)
  process.stderr.write(
    `${replayed} replayed${refused === 0 ? '' : `, ${refused} not: --id tries one again`}\n`,
  )
  if (refused > 0) process.exitCode = 1
}
