// emit-triples alone on the memory broker: facts in, triples and entity contexts out, 25 facts per message. Each message is published,
// decoded, handled, its outputs stored, and settled by the runner as in a flow. No two facts are equal; making them is not timed.
import { setImmediate as turn } from 'node:timers/promises'
import { emitTriples } from '../processors/emit-triples.ts'
import type { Broker, OutgoingBytes } from '../src/broker/broker.ts'
import { createMemoryCluster } from '../src/broker/memory/memory.ts'
import { inputGroup, outputRoute } from '../src/flow/ports.ts'
import { run } from '../src/flow/run.ts'
import { createOffline } from '../src/llm/offline/offline.ts'
import { createCodec } from '../src/messages/codec.ts'
import type { TypedPayload } from '../src/messages/envelope.ts'
import { loadSchemas } from '../src/messages/registry.ts'
import { median, type Row } from './row.ts'

const factsPerMessage = 25
const rounds = 5
const place = { space: 'gm', workspace: 'bench', flow: 'bench' }
const startedAt = Date.UTC(2026, 0, 1)
const codec = createCodec(loadSchemas())

type Kind = 'definitions' | 'relationships'
type Provenance = 'none' | 'subgraph'

function makeMessage(kind: Kind, number: number): OutgoingBytes {
  const each = Array.from({ length: factsPerMessage }, (_, index) => `Water Mill ${number}-${index}`)
  const found = { run: { id: `run-${number}`, startedAt }, model: 'm' }
  const typed: TypedPayload =
    kind === 'definitions'
      ? {
          type: 'Definitions',
          payload: {
            ...found,
            facts: each.map((entity) => ({
              entity,
              definition: `${entity}: a mill whose wheel is turned by a stream, and grinds corn.`,
            })),
          },
        }
      : {
          type: 'Relationships',
          payload: {
            ...found,
            facts: each.map((subject) => ({
              subject,
              predicate: 'is driven by',
              object: `Race of the River ${number % 97}`,
            })),
          },
        }
  const header = {
    source: `extract-${kind}`,
    time: startedAt,
    ...place,
    collection: 'default',
    documentId: 'urn:d',
    chunkId: `urn:d/0/${number}`,
    correlationId: `request-${number}`,
    causationId: `reply-${number}`,
    replyTo: null,
    deadline: null,
    traceparent: null,
  }
  const { topic } = outputRoute(kind, place)
  return codec.encode(header, typed, { topic, salt: '', id: () => `facts-${number}` })
}

interface Stage {
  readonly broker: Broker
  /** Messages that the broker stored for emit-triples, by topic. */
  readonly stored: ReadonlyMap<string, number>
  settled(kind: Kind): Promise<void>
  stop(): Promise<void>
}

async function openStage(provenance: Provenance): Promise<Stage> {
  const written = new Set(emitTriples.outputs.map((port) => outputRoute(port, place).topic))
  const cluster = createMemoryCluster({
    dropSettled: true,
    discard: (topic) => written.has(topic),
    maxTopicBytes: 8e6,
  })
  const broker = cluster.connect()
  const stored = new Map<string, number>()
  const counted: Broker = {
    ...broker,
    async publish(message) {
      await broker.publish(message)
      stored.set(message.topic, (stored.get(message.topic) ?? 0) + 1)
    },
  }
  const settings = { extractors: [], chunkSize: 2000, chunkOverlap: 100, provenance }
  const store = { write: async () => undefined, close: async () => undefined }
  const runtime = await run(
    {
      broker: counted,
      codec,
      processors: [emitTriples],
      flows: [{ ...place, settings }],
      llm: createOffline(),
      store,
    },
    new AbortController().signal,
  )
  return {
    broker,
    stored,
    async settled(kind) {
      const { topic } = outputRoute(kind, place)
      while ((await broker.lag(inputGroup(kind, place, emitTriples.name), topic)).total > 0) await turn()
    },
    async stop() {
      await runtime.stop(0)
      await broker.close()
    },
  }
}

/** Facts a second. */
async function rate(kind: Kind, provenance: Provenance): Promise<number> {
  const count = 1000
  const stage = await openStage(provenance)
  const messages = Array.from({ length: count }, (_, number) => makeMessage(kind, number))
  const start = process.hrtime.bigint()
  await Promise.all(messages.map((message) => stage.broker.publish(message)))
  await stage.settled(kind)
  const seconds = Number(process.hrtime.bigint() - start) / 1e9
  const triples = stage.stored.get(outputRoute('triples', place).topic) ?? 0
  await stage.stop()
  const least = Math.ceil(((kind === 'definitions' ? 2 : 4) * factsPerMessage) / 50)
  if (triples < count * least) throw new Error(`only ${triples} messages of triples came out`)
  return (count * factsPerMessage) / seconds
}

async function speed(kind: Kind, provenance: Provenance, bound: string): Promise<Row> {
  await rate(kind, provenance)
  const rates: number[] = []
  for (let round = 0; round < rounds; round++) rates.push(await rate(kind, provenance))
  const how = provenance === 'none' ? 'without provenance' : 'with provenance'
  return { name: `emit-triples: ${kind} ${how}`, value: Math.round(median(rates)), unit: 'facts/s', bound }
}

/** Heap growth after the first tenth, while a million facts pass through. */
async function memory(facts: number): Promise<Row> {
  const stage = await openStage('subgraph')
  const used = () => {
    globalThis.gc?.()
    return process.memoryUsage().heapUsed
  }
  const messages = facts / factsPerMessage
  let base = 0
  let peak = 0
  for (let number = 0; number < messages; number++) {
    await stage.broker.publish(makeMessage(number % 2 ? 'definitions' : 'relationships', number))
    if (number === Math.floor(messages / 10)) base = used()
    else if (number > messages / 10 && number % 2000 === 0) peak = Math.max(peak, used())
  }
  for (const kind of ['definitions', 'relationships'] as const) await stage.settled(kind)
  const after = used()
  await stage.stop()
  return {
    name: `emit-triples: heap on top while ${facts / 1e6} million facts pass through`,
    value: Math.round((Math.max(peak, after) - base) / 1e5) / 10,
    unit: 'MB',
    bound: '<= 32',
    note: globalThis.gc ? 'after collection' : 'without --expose-gc: uncollected garbage included',
  }
}

/** The numbers of emit-triples: facts a second, and memory over a million of them. */
export async function emitBench(): Promise<Row[]> {
  return [
    await speed('definitions', 'none', '>= 20000'),
    await speed('definitions', 'subgraph', '>= 10000'),
    await speed('relationships', 'none', '>= 20000'),
    await speed('relationships', 'subgraph', '>= 10000'),
    await memory(1e6),
  ]
}

if (import.meta.main) console.table(await emitBench())
