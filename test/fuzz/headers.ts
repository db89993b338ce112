// Broker headers as any foreign producer may write them, through all that reads them: records of Kafka, Pulsar's
// frames, the codec, dead letters, traces. Only coded errors come out, and what we write we read back.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import type { IHeaders, KafkaMessage } from 'kafkajs'
import type { Delivery } from '../../src/broker/broker.ts'
import { readMessage } from '../../src/broker/kafka/message.ts'
import { patchKafkajs } from '../../src/broker/kafka/quirks.ts'
import { received } from '../../src/broker/pulsar/message.ts'
import { parseTopic } from '../../src/broker/topics.ts'
import { GraphmillError } from '../../src/errors.ts'
import { beginningOf, deadLetter, deathOf, originalHeaders } from '../../src/flow/runner/dead-letter.ts'
import { createCodec } from '../../src/messages/codec.ts'
import { brokerHeaders, type Header, inherit } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { startSpan } from '../../src/observe/trace.ts'
import { below, bytes, chance, many, mutated, pick, type Rng, size, text } from './random.ts'
import type { FuzzTarget } from './target.ts'

const codec = createCodec(loadSchemas())
const require = createRequire(import.meta.url)
patchKafkajs()
const encodeRecord: (record: object) => {
  readonly buffer: Buffer
} = require('kafkajs/src/protocol/recordBatch/record/v0')
const decodePatched: (
  decoder: object,
  batch: object,
) => KafkaMessage = require('kafkajs/src/protocol/recordBatch/record/v0/decoder')
const Decoder: new (bytes: Buffer) => object = require('kafkajs/src/protocol/decoder')
const batch = { firstOffset: '0', firstTimestamp: '0' }
const decodeRecord = (bytes: Buffer) => decodePatched(new Decoder(bytes), batch)

export const headers: FuzzTarget = {
  name: 'headers',
  once(rng) {
    const generated = headersOf(rng)
    recordsRoundTrip(rng, generated)
    foreignRecord(rng, generated)
    const { message } = received('gm.flow.chunk.w.f', {
      messageId: 'CAEQAhgDIAA=',
      payload: bytes(rng, size(rng, 50)).toString('base64'),
      properties: generated,
      publishTime: pick(rng, ['2026-01-01T00:00:00Z', '', 'x']),
    })
    readByAll({ ...message, headers: generated })
    envelopeRoundTrip(rng)
  },
}

/** What kafkajs writes, we read. */
function recordsRoundTrip(rng: Rng, generated: Record<string, string>): void {
  const record = encodeRecord({
    key: text(rng, size(rng, 20)),
    value: bytes(rng, size(rng, 50)),
    headers: generated,
  })
  const decoded = decodeRecord(bodyOf(record.buffer))
  const read = readMessage('t', 0, { ...decoded, size: 0, timestamp: '0' } as never)
  assert.deepStrictEqual(
    new Map(Object.entries(read.headers)),
    // Lone surrogates have no UTF-8, so two names may become one: the last one counts.
    new Map(Object.entries(generated).map(([name, value]) => [name.toWellFormed(), value.toWellFormed()])),
  )
}

function bodyOf(record: Buffer): Buffer {
  let at = 0
  while (record[at]! > 0x7f) at++
  return record.subarray(at + 1)
}

/** Bytes that no client of ours wrote: read or refused, and no more. */
function foreignRecord(rng: Rng, generated: Record<string, string>): void {
  const original = encodeRecord({ key: 'k', value: Buffer.from('v'), headers: generated })
  const buffer = chance(rng, 0.3) ? repeatedHeader(rng) : mutated(rng, bodyOf(original.buffer))
  let decoded: KafkaMessage
  try {
    decoded = decodeRecord(buffer)
  } catch (thrown) {
    // A time with too many bytes is what kafkajs itself refuses.
    assert.ok(thrown instanceof RangeError || String(thrown).includes('Invalid Long'), String(thrown))
    return
  }
  const read = readMessage('t', 0, { ...decoded, size: 0 } as never)
  for (const value of Object.values(read.headers)) assert.equal(typeof value, 'string')
  const repeated: IHeaders = { many: many(size(rng, 100), () => bytes(rng, 3)), none: undefined }
  readMessage('t', 0, { ...decoded, headers: repeated, size: 0 } as never)
}

/** A record whose many headers all have one name. */
function repeatedHeader(rng: Rng): Buffer {
  const count = size(rng, 200_000)
  const varint: number[] = []
  for (let rest = count * 2; ; rest = Math.floor(rest / 128)) {
    varint.push(rest > 127 ? (rest % 128) | 128 : rest)
    if (rest < 128) break
  }
  // attributes, two deltas, no key, no value, then name "a" and value "b" over and over
  return Buffer.concat([
    Buffer.from([0, 0, 0, 1, 1, ...varint]),
    Buffer.from('\x02a\x02b'.repeat(count), 'latin1'),
  ])
}

function readByAll(message: ReturnType<typeof received>['message']): void {
  const delivery = { ...message, attempt: 1 } as Delivery
  const error = new GraphmillError('bytes_undecodable', 'x', { cause: new Error('y') })
  try {
    codec.decode(message.value, message.headers)
  } catch (thrown) {
    assert.ok(thrown instanceof GraphmillError, String(thrown))
  }
  const letter = deadLetter(delivery, error, { processor: 'p', time: 0 })
  const cut = beginningOf(letter)
  assert.equal(typeof deathOf(letter.headers), 'string')
  assert.equal(letter.headers['dead-code'], 'bytes_undecodable')
  assert.equal(cut.headers['dead-code'], 'bytes_undecodable')
  const own = Object.entries(message.headers).filter(([name]) => !name.startsWith('dead-'))
  assert.deepStrictEqual(Object.entries(originalHeaders(letter.headers)), own)
  parseTopic(message.headers['replyTo'] ?? '')
  const span = startSpan('fuzz', { kind: 'consumer', parent: message.headers['traceparent'] ?? null })
  assert.match(span.traceparent, /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/)
  span.end()
}

/** Whatever stands in an envelope's texts comes back as it was, or is refused with a code. */
function envelopeRoundTrip(rng: Rng): void {
  const any = () =>
    chance(rng, 0.7) ? pick(rng, ['', 'a', 'urn:d/0/1', 'é']) : text(rng, size(rng, 200)).toWellFormed()
  const cause: Header = {
    id: any(),
    source: any(),
    time: pick(rng, [0, -1, 1_700_000_000_000, Number.MAX_SAFE_INTEGER]),
    workspace: any(),
    flow: any(),
    collection: any(),
    documentId: any(),
    chunkId: any(),
    correlationId: any(),
    causationId: any(),
    replyTo: chance(rng, 0.5) ? null : any(),
    deadline: chance(rng, 0.5) ? null : below(rng, 2 ** 31),
    traceparent: chance(rng, 0.5) ? null : any(),
    version: any(),
    versionTime: pick(rng, [0, 1_700_000_000_000]),
  }
  const { id: _, ...header } = { id: '', ...inherit(cause, { source: any(), time: cause.time }) }
  const payload = {
    type: 'Chunk',
    payload: { text: any(), part: 0, index: 0, offset: 0, length: 1 },
  } as const
  try {
    const sealed = codec.encode(header, payload, { topic: 't', salt: any(), id: (digest) => digest })
    const decoded = codec.decode(sealed.value, sealed.headers)
    assert.deepStrictEqual(sealed.headers, {
      ...brokerHeaders({ ...header, id: decoded.id }, 'Chunk'),
      'content-crc32': sealed.headers['content-crc32'],
    })
    assert.equal(decoded.documentId, header.documentId)
    assert.equal(decoded.traceparent, header.traceparent)
  } catch (thrown) {
    if (!(thrown instanceof GraphmillError)) throw thrown
  }
}

const names = [
  'id',
  'type',
  'source',
  'correlationId',
  'replyTo',
  'traceparent',
  'content-crc32',
  'replayed',
  'dead-code',
  'dead-topic',
  'dead-position',
  '__proto__',
  'constructor',
  'toString',
  '',
] as const
const values = [
  '',
  '0',
  '-1',
  'NaN',
  '1e999',
  'gm.response.prompt.extract-topics.w.f',
  'gm.flow.chunk.w.f.dead',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  'ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x',
] as const

function headersOf(rng: Rng): Record<string, string> {
  const generated: Record<string, string> = {}
  for (let count = size(rng, 60); count > 0; count--) {
    const name = chance(rng, 0.8) ? pick(rng, names) : text(rng, size(rng, 300))
    const value = chance(rng, 0.5) ? pick(rng, values) : text(rng, size(rng, 3000))
    Object.defineProperty(generated, name, { value, enumerable: true, writable: true, configurable: true })
  }
  return generated
}
