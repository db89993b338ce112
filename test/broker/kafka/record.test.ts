// What takes the place of kafkajs's own encoder and decoder of records writes the same bytes, and reads the same from them.
import { createRequire } from 'node:module'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeRecord, encodeRecord, type KafkaRecord } from '../../../src/broker/kafka/record.ts'

// As they come: nothing here has loaded our client, which patches them.
const require = createRequire(import.meta.url)
const theirs = {
  encode: require('kafkajs/src/protocol/recordBatch/record/v0') as (record: KafkaRecord) => {
    buffer: Buffer
  },
  decode: require('kafkajs/src/protocol/recordBatch/record/v0/decoder') as typeof decodeRecord,
  Decoder: require('kafkajs/src/protocol/decoder') as new (
    bytes: Buffer,
  ) => { buffer: Buffer; readVarInt(): number; offset: number },
}

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 80 }),
  fc.string({ maxLength: 200 }),
  fc.constantFrom('', 'a'.repeat(63), 'a'.repeat(64), 'ä'.repeat(48), '\ud800', '😀'),
)
const delta = fc.oneof(fc.constant(0), fc.integer({ min: -(2 ** 30) + 1, max: 2 ** 30 - 1 }))
const bytes = fc.uint8Array({ maxLength: 9000 }).map((each) => Buffer.from(each))
const fields = { offsetDelta: fc.nat(5000), timestampDelta: delta }
const ordinary = fc.record({
  ...fields,
  key: text,
  value: bytes,
  headers: fc.dictionary(text, text, { maxKeys: 20, noNullPrototype: true }),
})
const header = fc.oneof(text, bytes, fc.array(text, { minLength: 1, maxLength: 4 }))
/** kafkajs itself takes names of Object.prototype for headers it has seen. */
const name = text.filter((each) => !(each in Object.prototype))
const any = fc.record({
  offsetDelta: fc.nat(5000),
  timestampDelta: fc.oneof(delta, fc.integer({ min: -(2 ** 40), max: 2 ** 40 })),
  key: fc.oneof(text, bytes, fc.constant(null)),
  value: fc.oneof(bytes, fc.constant(null)),
  headers: fc.dictionary(name, header, { maxKeys: 20, noNullPrototype: true }),
})
const batch = fc.record({
  firstOffset: fc.nat().map(String),
  firstTimestamp: fc.integer({ min: -1, max: 2 ** 41 }).map(String),
  maxTimestamp: fc.nat().map(String),
  magicByte: fc.constant(2),
  isControlBatch: fc.boolean(),
  timestampType: fc.constantFrom(0, 1),
})

describe('a record', () => {
  it('that is ordinary is written as kafkajs writes it', () => {
    fc.assert(
      fc.property(ordinary, (record) => {
        expect(encodeRecord(record)!.toString('hex')).toBe(theirs.encode(record).buffer.toString('hex'))
      }),
      { numRuns: 500 },
    )
  })

  it('that is not is left to kafkajs', () => {
    const value = Buffer.from('v')
    for (const rare of [
      { key: null, value },
      { key: Buffer.from('k'), value },
      { key: 'k', value: null },
      { key: 'k', value, headers: { many: ['a', 'b'] } },
      { key: 'k', value, headers: { bytes: value } },
      { key: 'k', value, headers: { long: 'x'.repeat(20_000) } },
      { key: 'k', value, timestampDelta: 2 ** 31 },
    ])
      expect(encodeRecord(rare)).toBeUndefined()
  })

  it('of any kind is read as kafkajs reads it', () => {
    fc.assert(
      fc.property(any, batch, (record, context) => {
        const whole = new theirs.Decoder(theirs.encode(record).buffer)
        whole.readVarInt()
        const body = () => new theirs.Decoder(whole.buffer.subarray(whole.offset))
        expect(decodeRecord(body(), context)).toEqual(theirs.decode(body(), context))
      }),
      { numRuns: 500 },
    )
  })

  it('keeps a header with a name that objects have', () => {
    const written = encodeRecord({
      key: 'k',
      value: Buffer.from('v'),
      headers: { ['__proto__']: 'a', toString: 'b' },
    })!
    const { headers } = decodeRecord({ buffer: written.subarray(1) })
    expect(Object.entries(headers).map(([each, value]) => [each, String(value)])).toEqual([
      ['__proto__', 'a'],
      ['toString', 'b'],
    ])
  })

  it('that repeats a header 100,000 times is read in a moment', () => {
    const count = 100_000
    const number = [0xc0, 0x9a, 0x0c] // 100,000 as a varint
    const headers = Buffer.from('\x02a\x02b'.repeat(count), 'latin1')
    const buffer = Buffer.concat([Buffer.from([0, 0, 0, 1, 1, ...number]), headers])
    const start = performance.now()
    expect(decodeRecord({ buffer }).headers['a']).toHaveLength(count)
    expect(performance.now() - start).toBeLessThan(2000)
  })
})
