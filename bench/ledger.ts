// The ledger alone on the memory broker: entries of `progress` in, at most one status per document and second out. All entries of the first
// row belong to one document, so all wait for the same statuses. Making them is not timed.
import { setTimeout as delay } from 'node:timers/promises'
import { ledger } from '../processors/ledger.ts'
import type { OutgoingBytes } from '../src/broker/broker.ts'
import { createMemoryCluster } from '../src/broker/memory/memory.ts'
import { inputGroup, outputRoute } from '../src/flow/ports.ts'
import { run } from '../src/flow/run.ts'
import { createOffline } from '../src/llm/offline/offline.ts'
import { createCodec } from '../src/messages/codec.ts'
import type { ProgressInit } from '../src/messages/generated.ts'
import { loadSchemas } from '../src/messages/registry.ts'
import type { Row } from './row.ts'

const place = { space: 'gm', workspace: 'bench', flow: 'bench' }
const settings = { extractors: [], chunkSize: 2000, chunkOverlap: 100 }
const codec = createCodec(loadSchemas())
const units = ['a', 'b', 'c', 'd', 'e', 'f']
const tokens = { promptTokens: 812, completionTokens: 345 }
const usage = {
  ...tokens,
  totalTokens: null,
  spent: [{ reason: 'first', model: 'm', calls: 1, ...tokens }],
}

function entry(documentId: string, payload: ProgressInit, chunkId = ''): OutgoingBytes {
  const header = {
    source: 'extract-definitions',
    time: Date.UTC(2026, 0, 1),
    ...place,
    collection: 'default',
    documentId,
    chunkId,
    correlationId: chunkId,
    causationId: chunkId,
    replyTo: null,
    deadline: null,
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  }
  const { topic } = outputRoute('progress', place)
  const salt = `${chunkId} ${payload.unit}`
  return codec.encode(header, { type: 'Progress', payload }, { topic, key: documentId, salt, id: (id) => id })
}

function* lifeOf(documentId: string, chunks: number): Generator<OutgoingBytes> {
  yield entry(documentId, { kind: 'document', parts: 1, title: 'mills.txt' })
  yield entry(documentId, { kind: 'part', part: 0, chunks, units })
  for (let index = 0; index < chunks; index++)
    for (const unit of units) {
      const run = { id: `${unit}-${index}`, startedAt: 1 }
      const said = { last: true, model: 'm', facts: { definitions: 2, relationships: 3 }, usage }
      yield entry(documentId, { kind: 'reply', unit, run, ...said }, `${documentId}/0/${index}`)
    }
}

async function settle(documents: number, chunks: number): Promise<Row[]> {
  const ids = Array.from({ length: documents }, (_, number) => `urn:d:${number}`)
  const entries = ids.flatMap((id) => [...lifeOf(id, chunks)])
  const broker = createMemoryCluster({ dropSettled: true }).connect()
  const store = { write: async () => undefined, close: async () => undefined }
  const options = { broker, codec, processors: [ledger], flows: [{ ...place, settings }], store }
  const runtime = await run({ ...options, llm: createOffline() }, new AbortController().signal)
  const cpu = process.cpuUsage()
  const begun = performance.now()
  await Promise.all(entries.map((each) => broker.publish(each)))
  const { topic } = outputRoute('progress', place)
  while ((await broker.lag(inputGroup('progress', place, ledger.name), topic)).total > 0) await delay(5)
  const seconds = (performance.now() - begun) / 1000
  const { user, system } = process.cpuUsage(cpu)
  await runtime.stop(0)
  await broker.close()
  const name =
    documents === 1 ? 'ledger: entries of one document' : `ledger: entries of ${documents} documents`
  const note = `${entries.length} entries; 4,000 a second and document is the most`
  return [
    { name, value: entries.length / seconds, unit: 'entries/s', note },
    { name: `${name}, CPU`, value: (user + system) / entries.length, unit: 'µs/entry' },
  ]
}

export async function ledgerBench(): Promise<Row[]> {
  await settle(1, 500)
  return [...(await settle(1, 30_000)), ...(await settle(50, 600))]
}
