import fc from 'fast-check'
import { Partitioners } from 'kafkajs'
import { expect, test } from 'vitest'
import { murmur2, partitionOf } from '../../../src/broker/kafka/partitioner.ts'

test('a key hashes as in Kafka’s own tests of its Java client', () => {
  const hashes = [
    '21',
    'foobar',
    'a-little-bit-long-string',
    'lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8',
  ]
  expect(hashes.map((key) => murmur2(Buffer.from(key)))).toEqual([
    -973932308, -790332482, -985981536, -58897971,
  ])
})

test('a key goes where the default partitioner of kafkajs sends it', () => {
  const theirs = Partitioners.DefaultPartitioner()
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', maxLength: 70 }),
      fc.integer({ min: 1, max: 50 }),
      (key, count) => {
        const partitionMetadata = Array.from({ length: count }, (_, partitionId) => ({
          partitionId,
          leader: 0,
        }))
        const place = { topic: 't', partitionMetadata, message: { key, value: null } } as never
        expect(partitionOf(key, count)).toBe(theirs(place))
      },
    ),
    { numRuns: 500 },
  )
})
