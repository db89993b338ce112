// Envelopes compared with raw avsc on the same values. Ours also makes the id, the headers and the checksum, and checks it.

import { avroType } from '../src/messages/avro-types.ts'
import { createCodec } from '../src/messages/codec.ts'
import type { Header, TypedPayload } from '../src/messages/envelope.ts'
import { loadSchemas } from '../src/messages/registry.ts'
import { median, type Row } from './row.ts'

const rounds = 5

const header: Omit<Header, 'id'> = {
  source: 'extract-definitions',
  time: 1_700_000_000_000,
  workspace: 'default',
  flow: 'default',
  collection: 'default',
  documentId: 'urn:graphmill:document:0123456789abcdef0123456789abcdef',
  chunkId: 'urn:graphmill:document:0123456789abcdef0123456789abcdef/0/17',
  correlationId: '0123456789abcdef0123456789abcdef',
  causationId: 'fedcba9876543210fedcba9876543210',
  replyTo: null,
  deadline: null,
  traceparent: null,
  version: '',
  versionTime: 0,
}
const run = { id: '01920000-0000-7000-8000-000000000000', startedAt: 1_700_000_000_000 }
const label = { type: 'i', iri: 'http://www.w3.org/2000/01/rdf-schema#label' }

/** The messages that follow from a chunk, about in the proportion of a real flow. */
const samples: readonly TypedPayload[] = [
  {
    type: 'Chunk',
    payload: {
      part: 0,
      index: 17,
      offset: 31_415,
      length: 2000,
      text: 'The miller grinds the grain. '.repeat(70),
    },
  },
  {
    type: 'PromptResponse',
    payload: {
      promptId: 'extract-definitions',
      run,
      seq: 1,
      object: JSON.stringify(
        Array.from({ length: 8 }, (_, n) => ({
          entity: `mill ${n}`,
          definition: 'a machine that grinds grain',
        })),
      ),
      endOfStream: false,
      accepted: 9,
      context: { unit: 'extract-definitions' },
    },
  },
  {
    type: 'Definitions',
    payload: {
      run,
      model: 'm',
      facts: Array.from({ length: 8 }, (_, n) => ({
        entity: `mill ${n}`,
        definition: 'a machine that grinds grain',
      })),
    },
  },
  {
    type: 'Triples',
    payload: {
      triples: Array.from({ length: 16 }, (_, n) => ({
        s: { type: 'i', iri: `http://trustgraph.ai/e/mill-${n}` },
        p: label,
        o: { type: 'l', value: `mill ${n}` },
      })),
    },
  },
]

export async function envelopeBench(): Promise<Row[]> {
  const schemas = loadSchemas()
  const codec = createCodec(schemas)
  const types = samples.map(({ type }) => avroType(schemas.current.get(type)))
  const sealing = {
    topic: 'gm.flow.chunk.default.default',
    key: 'k',
    salt: 'cause\nprocessor\ntopic\n',
    id: (digest: string) => digest,
  }
  const repeats = 5000
  const ours: number[] = []
  const raw: number[] = []
  for (let round = 0; round <= rounds; round++) {
    const began = performance.now()
    for (let n = 0; n < repeats; n++)
      for (const sample of samples) {
        const { value, headers } = codec.encode(header, sample, sealing)
        codec.decode(value, headers)
      }
    const between = performance.now()
    for (let n = 0; n < repeats; n++)
      for (const [at, sample] of samples.entries())
        types[at]!.fromBuffer(
          types[at]!.toBuffer({ ...header, id: 'x', type: sample.type, payload: sample.payload }),
        )
    if (round === 0) continue // warm-up
    ours.push(between - began)
    raw.push(performance.now() - between)
  }
  const messages = repeats * samples.length
  return [
    {
      name: 'envelope: encode and decode, against raw avsc',
      value: median(raw.map((time, at) => time / ours[at]!)),
      unit: 'ratio',
      bound: '>= 0.7',
      note: 'with id, headers and CRC-32',
    },
    { name: 'envelope: encode and decode', value: (messages / median(ours)) * 1000, unit: 'messages/s' },
  ]
}
