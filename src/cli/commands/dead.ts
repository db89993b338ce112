// `graphmill dead`: the messages that could not be processed. `replay` publishes each to its topic again, once: the group
// <space>.dead-replay. plus the rest of the topic's name records what was replayed.
import type { Command } from 'commander'
import type { ReadMessage } from '../../broker/broker.ts'
import { deadTopic, isDeadTopic, parseTopic } from '../../broker/topics.ts'
import { GraphmillError } from '../../errors.ts'
import { replayGroup } from '../../flow/unsettled-letters.ts'
import { type BrokerSession, brokerOptions, openSchemas, withBroker } from '../broker.ts'
import { failureText } from '../failure.ts'
import { nameOf } from '../flows.ts'
import { addOptions, configOf } from '../options.ts'
import { readToEnd } from '../read-to-end.ts'
import { idOf, replayOne, replayWaiting } from '../replay.ts'
import { requireFlow } from '../require-flow.ts'
import { show } from '../show-message.ts'
import { printLine, printTable } from '../table.ts'
import { flowOfTopic, topicOf } from '../topic-names.ts'

export function addDead(dead: Command): void {
  const list = dead
    .command('list')
    .description('list the topics that contain dead letters, and how many wait for a replay')
    .action(() => withDeadLetters(list, listLetters))
  const showing = dead
    .command('show')
    .description('print dead letters, one JSON object per line')
    .argument('[role]', 'a role, such as chunk, or the full name of a topic; default: all')
    .action((role?: string) => withDeadLetters(showing, (session) => showLetters(session, role)))
  const replay = dead
    .command('replay')
    .description('publish dead letters to the topics they came from')
    .argument('[role]', 'a role, such as chunk, or the full name of a topic; default: all')
    .option('--id <ID>', 'only the newest dead letter of the message with this id, even if replayed before')
    .action((role: string | undefined, { id }: { id?: string }) =>
      withDeadLetters(replay, (session) => replayLetters(session, role, id)),
    )
  addOptions(list, [...brokerOptions, 'workspace', 'flow', 'flows', 'json'])
  for (const command of [showing, replay])
    addOptions(command, [...brokerOptions, 'workspace', 'flow', 'flows'])
}

function withDeadLetters(command: Command, act: (session: BrokerSession) => Promise<void>): Promise<void> {
  return withBroker(configOf(command), async (session) => {
    await act(session)
    session.signal.throwIfAborted()
  })
}

/** The dead-letter topics of the flow, or those of a role or topic name: one role may have several receivers. */
async function deadTopics({ broker, config }: BrokerSession, role: string | undefined): Promise<string[]> {
  const { options } = config
  if (role === undefined || !parseTopic(role)) await requireFlow(broker, options)
  const wanted = role === undefined ? undefined : isDeadTopic(role) ? role : deadTopic(topicOf(role, options))
  const names = (await broker.listTopics(`${options.space}.`)).map(({ name }) => name).filter(isDeadTopic)
  return names.filter((name) =>
    wanted === undefined ? flowOfTopic(name) === nameOf(config) : name === wanted,
  )
}

async function listLetters(session: BrokerSession): Promise<void> {
  const { broker, config, signal } = session
  const { space, json } = config.options
  const rows = []
  for (const topic of await deadTopics(session, undefined)) {
    let letters = 0
    for await (const _ of readToEnd(broker, topic, signal)) letters++
    rows.push({ topic, letters, waiting: (await broker.lag(replayGroup(topic, space), topic)).total })
  }
  if (rows.length === 0 && !json) process.stderr.write('no dead letters\n')
  printTable(rows, json)
}

async function showLetters(session: BrokerSession, role: string | undefined): Promise<void> {
  const { broker, config, signal } = session
  const { schemas } = openSchemas(broker, config)
  for (const topic of await deadTopics(session, role))
    for await (const letter of readToEnd(broker, topic, signal))
      printLine(JSON.stringify(await show(letter, { topic, schemas, signal })))
}

async function replayLetters(
  session: BrokerSession,
  role: string | undefined,
  id: string | undefined,
): Promise<void> {
  const { broker, config, signal } = session
  const { codec, schemas } = openSchemas(broker, config)
  const topics = await deadTopics(session, role)
  let replayed = 0
  let refused = 0
  const onRefused = (letter: ReadMessage, error: GraphmillError) => {
    refused++
    process.stderr.write(`${idOf(letter)} in ${letter.topic} can't be replayed: ${failureText(error)}\n`)
  }
  if (topics.length > 0) await schemas.announce(signal)
  for (const topic of topics) {
    const at = { broker, codec, signal, onRefused }
    if (id !== undefined) replayed += Number(await replayOne(at, topic, id))
    else replayed += await replayWaiting(at, topic, replayGroup(topic, config.options.space))
  }
  if (id !== undefined && replayed + refused === 0)
    throw new GraphmillError('usage', `No dead letter has the id ${id}.`)
  process.stderr.write(
    `${replayed} replayed${refused === 0 ? '' : `, ${refused} not: --id retries a single one`}\n`,
  )
  if (refused > 0) process.exitCode = 1
}
