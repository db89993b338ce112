// A backlog on a real Kafka: the resident memory of each processor, in a process of its own and all in one, while a hundred thousand
// chunks of ten thousand documents wait; of chunk-text while as many documents do; and of the ledger while it reads their progress, also
// of one document.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Broker, OutgoingBytes } from '../src/broker/broker.ts'
import { connectKafka } from '../src/broker/kafka/kafka.ts'
import { topicSpec } from '../src/broker/topics.ts'
import { inputGroup, outputRoute } from '../src/flow/ports.ts'
import { createSchemasTopic } from '../src/flow/schemas-topic.ts'
import { createCodec } from '../src/messages/codec.ts'
import { emptyHeader, type TypedPayload } from '../src/messages/envelope.ts'
import { loadSchemas } from '../src/messages/registry.ts'
import { bookOf } from '../test/support/graph.ts'
import { startKafka } from '../test/support/kafka-server.ts'
import { measureGraphmill } from '../test/support/load-memory.ts'
import { startGraphmill } from '../test/support/processes.ts'
import { writeFiles } from './bulk-load.ts'
import { type LlmProcess, startLlmProcess } from './llm-process.ts'
import { peakOf } from './process-usage.ts'
import { program } from './program.ts'
import type { Row } from './row.ts'

const codec = createCodec(loadSchemas())
const extractor = 'extract-definitions'
/** Chunks that pass before the memory is measured. */
const handled = 5000
const pollMs = 500

interface Place {
  readonly space: string
  readonly workspace: 'default'
  readonly flow: 'default'
}
const placeOf = (space: string): Place => ({ space, workspace: 'default', flow: 'default' })

interface Backlog {
  readonly documents: number
  /** Of each document. */
  readonly chunks: number
}
const documentCount = 10_000
const backlogs: readonly Backlog[] = [
  { documents: documentCount, chunks: 10 },
  { documents: 1, chunks: 100_000 },
]
const nameOf = ({ documents, chunks }: Backlog) => `${documents} x ${chunks} chunks`
const note = `${nameOf(backlogs[0]!)} waiting, ${handled} handled; the most that was resident`

function encode(
  place: Place,
  typed: TypedPayload<'Chunk' | 'Progress'>,
  documentId: string,
  chunkId = '',
): OutgoingBytes {
  const { topic } = outputRoute(typed.type === 'Chunk' ? 'chunk' : 'progress', place)
  const { space: _, ...scope } = place
  const own = {
    source: 'bench',
    time: Date.now(),
    collection: 'default',
    documentId,
    chunkId,
    correlationId: documentId,
  }
  const header = { ...emptyHeader, ...scope, ...own }
  return codec.encode(header, typed, { topic, key: documentId, salt: chunkId, id: (digest) => digest })
}

const chunksInPart = 250

/** The chunks of all documents. */
function* chunksOf(place: Place, { documents, chunks }: Backlog): Generator<OutgoingBytes> {
  const texts = Array.from({ length: 100 }, (_, number) => bookOf(1, number))
  for (let index = 0; index < chunks; index++)
    for (let document = 0; document < documents; document++) {
      const documentId = idOf(document)
      const text = texts[(index + document) % texts.length]!
      const part = Math.floor(index / chunksInPart)
      const payload = { part, index: index % chunksInPart, offset: 0, length: text.length, text }
      yield encode(place, { type: 'Chunk', payload }, documentId, `${documentId}/${part}/${payload.index}`)
    }
}

/** What the ledger reads about all documents, from their loading to their end. */
function* progressOf(place: Place, { documents, chunks }: Backlog): Generator<OutgoingBytes> {
  const parts = Math.ceil(chunks / chunksInPart)
  const tokens = { promptTokens: 812, completionTokens: 345 }
  const spent = [{ reason: 'first', model: 'test-model', calls: 1, ...tokens }]
  const counted = {
    facts: { definitions: 6 },
    usage: { ...tokens, totalTokens: null, spent },
    model: 'test-model',
  }
  for (let document = 0; document < documents; document++) {
    const documentId = idOf(document)
    const title = `note-${document}.txt`
    yield encode(place, { type: 'Progress', payload: { kind: 'loading', title } }, documentId)
    yield encode(place, { type: 'Progress', payload: { kind: 'document', parts, title } }, documentId)
  }
  for (let part = 0; part < parts; part++)
    for (let document = 0; document < documents; document++) {
      const size = { part, chunks: Math.min(chunksInPart, chunks - part * chunksInPart), units: [extractor] }
      yield encode(place, { type: 'Progress', payload: { kind: 'part', ...size } }, idOf(document))
    }
  for (let index = 0; index < chunks; index++)
    for (let document = 0; document < documents; document++) {
      const chunkId = `${idOf(document)}/${Math.floor(index / chunksInPart)}/${index % chunksInPart}`
      const reply = {
        kind: 'reply',
        unit: extractor,
        run: { id: chunkId, startedAt: 1 },
        last: true,
        ...counted,
      }
      yield encode(place, { type: 'Progress', payload: reply }, idOf(document), chunkId)
    }
}

const idOf = (document: number) => `urn:graphmill:document:${String(document).padStart(32, '0')}`

async function publishAll(broker: Broker, messages: Iterable<OutgoingBytes>): Promise<void> {
  let pending: Promise<void>[] = []
  for (const each of messages) {
    pending.push(broker.publish(each))
    if (pending.length < 2000) continue
    await Promise.all(pending)
    pending = []
  }
  await Promise.all(pending)
}

interface Site {
  readonly broker: Broker
  readonly brokerUrl: string
  readonly llm: LlmProcess
  readonly folder: string
}

/** Topics that hold the backlog of one port. */
async function prepare(
  { broker }: Site,
  place: Place,
  port: 'chunk' | 'progress',
  messages: Iterable<OutgoingBytes>,
) {
  await broker.ensureTopics([topicSpec(outputRoute(port, place).topic)])
  await createSchemasTopic(broker, codec, place.space).announce(new AbortController().signal)
  await publishAll(broker, messages)
}

function start({ brokerUrl, llm, folder }: Site, { space }: Place, processor: string) {
  const flags = [
    '--no-cache',
    '--broker',
    brokerUrl,
    '--space',
    space,
    '--http',
    'off',
    '--extractors',
    'definitions',
  ]
  const more = ['--llm', 'openai', '--model', 'test-model', '--out', join(folder, space)]
  const server = { OPENAI_BASE_URL: llm.url, OPENAI_API_KEY: 'none' }
  return startGraphmill(['run', processor, ...flags, ...more], server, program)
}

/** The processors of the flow, until some thousand of the waiting chunks have passed. */
async function flowMemory(site: Site): Promise<Row[]> {
  const place = placeOf('backlog')
  await prepare(site, place, 'chunk', chunksOf(place, backlogs[0]!))
  const names = [extractor, 'prompt', 'emit-triples', 'store-triples']
  const children = await Promise.all(
    names.map(async (name) => {
      const child = start(site, place, name)
      await child.says('"running"')
      return { name, child }
    }),
  )
  while ((await site.llm.counts()).completed < handled) await delay(pollMs)
  const rows = children.map(({ name, child }) => ({
    name: `backlog: memory of ${name}`,
    value: peakOf(child.pid),
    unit: 'MiB',
    bound: '<= 110',
    note,
  }))
  await Promise.all(children.map(({ child }) => child.end('SIGKILL')))
  return rows
}

/** The whole flow in one process, in the same way. */
async function wholeMemory(site: Site): Promise<Row[]> {
  const place = placeOf('backlog-all')
  await prepare(site, place, 'chunk', chunksOf(place, backlogs[0]!))
  const { completed } = await site.llm.counts()
  const child = start(site, place, '--all')
  await child.says('"running"')
  while ((await site.llm.counts()).completed < completed + handled) await delay(pollMs)
  const value = peakOf(child.pid)
  await child.end('SIGKILL')
  return [{ name: 'backlog: memory of run --all', value, unit: 'MiB', bound: '<= 200', note }]
}

/** chunk-text alone, from the first document to the last. */
async function chunkTextMemory(site: Site): Promise<Row[]> {
  const place = placeOf('documents')
  const folder = join(site.folder, 'texts')
  await writeFiles(folder, documentCount)
  await measureGraphmill(['load', folder, '--broker', site.brokerUrl, '--space', place.space], program)
  const value = await untilRead(site, place, 'chunk-text', 'document')
  const row = { name: 'backlog: memory of chunk-text', value, unit: 'MiB', bound: '<= 110' }
  return [{ ...row, note: `${documentCount} documents of 2 KB waiting; the most that was resident` }]
}

/** The peak of a processor that is started and reads all that waits. */
async function untilRead(
  site: Site,
  place: Place,
  processor: string,
  port: 'document' | 'progress',
): Promise<number> {
  const { topic } = outputRoute(port, place)
  const child = start(site, place, processor)
  await child.says('"running"')
  while ((await site.broker.lag(inputGroup(port, place, processor), topic)).total > 0) await delay(pollMs)
  const peak = peakOf(child.pid)
  await child.end('SIGKILL')
  return peak
}

/** The ledger alone, from the first entry to the last. */
async function ledgerMemory(site: Site, backlog: Backlog): Promise<Row[]> {
  const place = placeOf(`ledger-${backlog.documents}`)
  await prepare(site, place, 'progress', progressOf(place, backlog))
  const value = await untilRead(site, place, 'ledger', 'progress')
  const row = {
    name: `backlog: memory of the ledger, ${nameOf(backlog)}`,
    value,
    unit: 'MiB',
    bound: '<= 110',
  }
  return [{ ...row, note: 'all of their progress waiting; the most that was resident' }]
}

export async function backlogBench(): Promise<Row[]> {
  const [server, llm] = await Promise.all([startKafka(), startLlmProcess()])
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-backlog-'))
  const broker = await connectKafka({ brokers: server.bootstrap })
  const site = { broker, brokerUrl: `kafka://${server.bootstrap.join()}`, llm, folder }
  try {
    await llm.set({ latencyMs: 0 })
    const rows = [...(await flowMemory(site)), ...(await wholeMemory(site)), ...(await chunkTextMemory(site))]
    for (const backlog of backlogs) rows.push(...(await ledgerMemory(site, backlog)))
    return rows
  } finally {
    await broker.close()
    await llm.stop()
    await server.stop()
    await rm(folder, { recursive: true })
  }
}
