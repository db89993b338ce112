// Message ids of Pulsar, as bytes of the wire and as positions.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  decodeMessageId,
  encodeMessageId,
  parsePosition,
  positionOf,
  reaches,
} from '../../../src/broker/pulsar/message-id.ts'

const ids = fc.record({
  ledger: fc.maxSafeNat(),
  entry: fc.maxSafeNat(),
  partition: fc.nat(1000),
  batchIndex: fc.integer({ min: -1, max: 10_000 }),
})

test('reads what Pulsar 4.0.8 wrote', () => {
  expect(decodeMessageId('CAQQARgAMAA=')).toEqual({
    ledger: 4,
    entry: 1,
    partition: 0,
    batchIndex: -1,
    batchSize: 0,
  })
})

test('reads a negative number as -1, and skips fields it does not know', () => {
  const minusOne = [...Array(9).fill(0xff), 0x01]
  const bytes = Buffer.from([8, 7, 16, 3, 24, ...minusOne, 42, 2, 9, 9, 56, 1])
  expect(decodeMessageId(bytes.toString('base64'))).toMatchObject({ ledger: 7, entry: 3, partition: -1 })
})

test('refuses bytes that end early', () => {
  expect(() => decodeMessageId(Buffer.from([8, 0x80]).toString('base64'))).toThrow(RangeError)
})

test('writes what it reads, and a position leads back to its id', () => {
  fc.assert(
    fc.property(ids, (id) => {
      const read = decodeMessageId(encodeMessageId(id))
      expect(read).toEqual({ ...id, batchSize: 0 })
      expect(parsePosition(positionOf(read), id.partition)).toEqual(read)
    }),
  )
})

test.each(['', '5', '5:', 'a:b', '1:2:3:4', '1:-2'])('takes %j for no position', (text) => {
  expect(parsePosition(text, 0)).toBeUndefined()
})

test('reaches the end of a batch with its last message only', () => {
  const end = { ledger: 2, entry: 5 }
  const at = (ledger: number, entry: number, batchIndex = -1, batchSize = 0) => ({
    ledger,
    entry,
    partition: 0,
    batchIndex,
    batchSize,
  })
  expect(reaches(at(2, 4), end)).toBe(false)
  expect(reaches(at(1, 9), end)).toBe(false)
  expect(reaches(at(2, 5), end)).toBe(true)
  expect(reaches(at(3, 0), end)).toBe(true)
  expect(reaches(at(2, 5, 0, 3), end)).toBe(false)
  expect(reaches(at(2, 5, 2, 3), end)).toBe(true)
})
