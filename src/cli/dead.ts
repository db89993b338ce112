// `graphmill dead`: the messages that no one could process. `replay` brings each back to its topic, once: what was replayed
// is remembered by the group <space>.dead-replay.<role>.<workspace>.<flow>.
import type { Command } from 'commander'
import type { Broker, ReadMessage } from '../broker/broker.ts'
import { deadTopic, isDeadTopic, parseTopic } from '../broker/topics.ts'
import type { Options } from '../config/options.ts'
import { GraphmillError } from '../errors.ts'
import { originalHeaders } from '../flow/dead-letter.ts'
import { outputRoute } from '../flow/ports.ts'
import { createSchemasTopic, type SchemasTopic } from '../flow/schemas-topic.ts'
import { onShutdown } from '../flow/shutdown.ts'
import { systemClock, uuids } from '../flow/system.ts'
import { type Codec, createCodec } from '../messages/codec.ts'
import { loadSchemas } from '../messages/registry.ts'
import { brokerOptions, openBroker, openRegistry } from './broker.ts'
import { addOptions, configOf } from './options.ts'
import { readToEnd } from './read-to-end.ts'
import { show } from './show-message.ts'
import { printTable } from './table.ts'
import { topicOf } from './topic-names.ts'

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
    .option('--id <ID>', 'only the message with this id, even if it was replayed before')
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
      process.stdout.write(`${JSON.stringify(await show(letter, { topic, schemas, signal }))}\n`)
}

async function replayLetters(place: Place, role: string | undefined, id: string | undefined): Promise<void> {
  const { options } = place
  let replayed = 0
  for (const topic of await deadTopics(place, role))
    replayed +=
      id === undefined
        ? await replayWaiting(place, topic, replayGroup(topic, options.space))
        : await replayOne(place, topic, id)
  if (id !== undefined && replayed === 0)
    throw new GraphmillError('usage', `No dead letter has the id ${id}.`)
  process.stderr.write(`${replayed} replayed\n`)
}

async function replayWaiting(place: Place, topic: string, group: string): Promise<number> {
  const { broker, signal } = place
  const { total } = await broker.lag(group, topic)
  if (total === 0) return 0
  const enough = new AbortController()
  const stop = AbortSignal.any([signal, enough.signal])
  let replayed = 0
  for await (const letter of broker.consume(
    { group, topic, maxInFlight: 1, from: 'earliest', ordering: 'none' },
    stop,
  )) {
    await bringBack(place, letter)
    await letter.ack()
    replayed++
    if (replayed >= total) enough.abort()
  }
  return replayed
}

async function replayOne(place: Place, topic: string, id: string): Promise<number> {
  const { broker, signal } = place
  for await (const letter of broker.read({ topic, from: 'earliest', until: 'end' }, signal)) {
    if (letter.headers['id'] !== id) continue
    await bringBack(place, letter)
    return 1
  }
  return 0
}

// Progress is told first: should the message die again, its new entry comes after this one.
async function bringBack({ broker, codec }: Place, { key, value, headers }: ReadMessage): Promise<void> {
  const topic = headers['dead-topic']
  const parts = topic ? parseTopic(topic) : undefined
  if (!topic || !parts)
    throw new GraphmillError('message_invalid', 'A dead letter does not say which topic it came from.')
  if (headers['documentId'] && 'workspace' in parts) {
    const { space, workspace, flow } = parts
    const id = uuids.next()
    const header = {
      source: 'dead-replay',
      time: systemClock.now(),
      workspace,
      flow,
      collection: '',
      documentId: headers['documentId'],
      chunkId: headers['chunkId'] ?? '',
      correlationId: headers['correlationId'] ?? '',
      causationId: headers['id'] ?? `${topic}:${headers['dead-position']}`,
      replyTo: null,
      deadline: null,
      traceparent: headers['traceparent'] ?? null,
    }
    const route = outputRoute('progress', { space, workspace, flow })
    const entry = { type: 'Progress', payload: { kind: 'replayed', topic } } as const
    const sealing = { topic: route.topic, key: header.documentId, salt: '', id: () => id }
    await broker.publish(codec.encode(header, entry, sealing))
  }
  await broker.publish({ topic, key, value, headers: originalHeaders(headers) })
}
