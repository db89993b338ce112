// What takes the place of kafkajs's own decoder of records reads the same as it does, in linear time.
import { createRequire } from 'node:module'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { textHeaders } from '../../../src/broker/kafka/message.ts'
import { decodeRecord } from '../../../src/broker/kafka/record.ts'

// As they come: nothing here has loaded our client, which patches the decoder.
const require = createRequire(import.meta.url)
const theirs = {
  encode: require('kafkajs/src/protocol/recordBatch/record/v0') as (record: object) => {
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
  it('of any kind is read as kafkajs reads it', () => {
    fc.assert(
      fc.property(any, batch, (record, context) => {
        const whole = new theirs.Decoder(theirs.encode(record).buffer)
        whole.readVarInt()
        const body = () => new theirs.Decoder(whole.buffer.subarray(whole.offset))
        const read = theirs.decode(body(), context)
        const headers = textHeaders(read.headers)
        expect(decodeRecord(body(), context)).toEqual({ ...read, headers })
      }),
      { numRuns: 500 },
    )
  })

  it('keeps a header with a name that objects have', () => {
    const names = '\x04\x12__proto__\x02a\x10toString\x02b'
    const buffer = Buffer.from(`\0\0\0\x02k\x02v${names}`, 'latin1')
    expect(Object.entries(decodeRecord({ buffer }).headers)).toEqual([
      ['__proto__', 'a'],
      ['toString', 'b'],
    ])
  })

  it.each([
    ['repeats one', 1, () => 'same.'],
    ['has others', 100_000, (index: number) => String(index).padStart(5, '0')],
  ])('of 100,000 headers is read in a moment when it %s', (_, names, name) => {
    const count = 100_000
    const number = [0xc0, 0x9a, 0x0c] // 100,000 as a varint
    const headers = Array.from({ length: count }, (_, index) => `\x0a${name(index)}\x02b`).join('')
    const buffer = Buffer.concat([Buffer.from([0, 0, 0, 1, 1, ...number]), Buffer.from(headers, 'latin1')])
    const start = performance.now()
    expect(Object.keys(decodeRecord({ buffer }).headers)).toHaveLength(names)
    expect(performance.now() - start).toBeLessThan(2000)
  })
})
