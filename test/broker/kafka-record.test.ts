// The encoder that takes the place of kafkajs's own writes the same bytes.
import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodeRecord, type KafkaRecord } from '../../src/broker/kafka-record.ts'

/** Of a process that nothing was mended in. */
function recordsOfKafkajs(records: readonly KafkaRecord[]): string[] {
  const program = `
    const encode = require('kafkajs/src/protocol/recordBatch/record/v0')
    const records = JSON.parse(require('node:fs').readFileSync(0, 'utf8'))
    const bytes = records.map((each) => encode({ ...each, value: Buffer.from(each.value, 'base64') }).buffer)
    console.log(JSON.stringify(bytes.map((each) => each.toString('hex'))))`
  const input = JSON.stringify(
    records.map((each) => ({ ...each, value: (each.value as Buffer).toString('base64') })),
  )
  const options = { input, encoding: 'utf8', maxBuffer: 2 ** 28 } as const
  return JSON.parse(execFileSync(process.execPath, ['-e', program], options))
}

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 80 }),
  fc.string({ maxLength: 200 }),
  fc.constantFrom('', 'a'.repeat(63), 'a'.repeat(64), 'ä'.repeat(48), '\ud800', '😀'),
)
const record = fc.record({
  offsetDelta: fc.nat(5000),
  timestampDelta: fc.oneof(fc.constant(0), fc.integer({ min: -(2 ** 30) + 1, max: 2 ** 30 - 1 })),
  key: text,
  value: fc.uint8Array({ maxLength: 9000 }).map((bytes) => Buffer.from(bytes)),
  headers: fc.dictionary(text, text, { maxKeys: 20, noNullPrototype: true }),
})

test('ordinary records are the bytes of kafkajs', () => {
  const records = fc.sample(record, 1000)
  expect(records.map((each) => encodeRecord(each)?.toString('hex'))).toEqual(recordsOfKafkajs(records))
})

test('what is rare is left to kafkajs', () => {
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
