// What takes the place of kafkajs's own encoder of produce requests writes the same bytes.
import { createRequire } from 'node:module'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { crc32c } from '../../../src/broker/kafka/crc32c.ts'
import { encodeProduce, type ProduceRequest } from '../../../src/broker/kafka/produce-request.ts'

// As they come: nothing here has loaded our client, which patches the request.
const require = createRequire(import.meta.url)
const theirRequest: (request: ProduceRequest) => { encode(): Promise<{ readonly buffer: Buffer }> } =
  require('kafkajs/src/protocol/requests/produce/v3/request')
const theirCrc32c: (bytes: Buffer) => number = require('kafkajs/src/protocol/recordBatch/crc32C')

const now = 1_800_000_000_000
beforeEach(() => void vi.spyOn(Date, 'now').mockReturnValue(now))
afterEach(() => void vi.restoreAllMocks())

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 80 }),
  fc.string({ maxLength: 200 }),
  fc.constantFrom(
    '',
    'a'.repeat(63),
    'a'.repeat(64),
    'ä'.repeat(4096),
    'a'.repeat(8192),
    '\ud800',
    '😀',
    '__proto__',
  ),
)
const length = fc.oneof(fc.nat(200), fc.constantFrom(63, 64, 8191, 8192, 1_100_000))
const bytes = fc.tuple(length, fc.nat(255)).map(([size, byte]) => Buffer.alloc(size, byte))
const plain = fc.record({ key: text, value: bytes, headers: fc.dictionary(text, text, { maxKeys: 20 }) })
const header = fc.oneof(text, bytes, fc.array(text, { maxLength: 4 }))
const any = fc.record(
  {
    key: fc.oneof(text, bytes, fc.constant(null)),
    value: fc.oneof(text, bytes, fc.constant(null)),
    headers: fc.dictionary(text, header, { maxKeys: 20 }),
    timestamp: fc.nat().map(String),
  },
  { requiredKeys: ['value'] },
)

function requestOf(message: fc.Arbitrary<object>): fc.Arbitrary<ProduceRequest> {
  const messages = fc.array(message, { minLength: 1, maxLength: 5 })
  const partitions = fc.array(fc.record({ partition: fc.nat(99), messages }), { maxLength: 3 })
  const topicData = fc.array(fc.record({ topic: text, partitions }), { maxLength: 3 })
  return fc.record({ acks: fc.constantFrom(-1, 0, 1), timeout: fc.nat(), topicData })
}

const written = async (request: ProduceRequest) => (await theirRequest(request).encode()).buffer

/** Without the diff of megabytes that an assertion prints. */
const isSame = (ours: Buffer | undefined, theirs: Buffer) => ours?.equals(theirs) === true

describe('a produce request', () => {
  it('of what graphmill sends is written as kafkajs writes it', async () => {
    await fc.assert(
      fc.asyncProperty(requestOf(plain), fc.nat(70), async (request, room) => {
        const bytes = encodeProduce(request, now, room)!
        expect(isSame(bytes, await written(request))).toBe(true)
        expect(bytes.byteOffset).toBeGreaterThanOrEqual(room)
      }),
      { numRuns: 200 },
    )
  })

  it('of any messages is written as kafkajs writes it, or not at all', async () => {
    await fc.assert(
      fc.asyncProperty(requestOf(any), async (request) => {
        const bytes = encodeProduce(request, now)
        if (bytes !== undefined) expect(isSame(bytes, await written(request))).toBe(true)
      }),
      { numRuns: 200 },
    )
  })

  it('of many messages is written as kafkajs writes it', async () => {
    const messages = Array.from({ length: 9000 }, () => ({ key: 'k', value: Buffer.from('v'), headers: {} }))
    const topicData = [{ topic: 't', partitions: [{ partition: 1, messages }] }]
    const request = { acks: -1, timeout: 1, topicData }
    expect(isSame(encodeProduce(request, now), await written(request))).toBe(true)
  })

  it('that graphmill never sends is left to kafkajs', () => {
    const message = { key: 'k', value: Buffer.from('v'), headers: { name: 'text' } }
    const isWritten = (changed: object, options: object = {}) => {
      const partitions = [{ partition: 0, messages: [message, { ...message, ...changed }] }]
      const request = { acks: -1, timeout: 1, topicData: [{ topic: 't', partitions }], ...options }
      return encodeProduce(request, now) !== undefined
    }
    expect(isWritten({})).toBe(true)
    for (const changed of [
      { key: null },
      { key: Buffer.from('k') },
      { value: null },
      { value: 'v' },
      { headers: undefined },
      { headers: { many: ['a', 'b'] } },
      { headers: { bytes: Buffer.from('b') } },
      { timestamp: '1' },
    ])
      expect(isWritten(changed)).toBe(false)
    for (const options of [{ compression: 1 }, { transactionalId: 'x' }, { producerId: 1 }])
      expect(isWritten({}, options)).toBe(false)
  })
})

it('sums up bytes as kafkajs does, wherever they begin', () => {
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283)
  const any = fc.uint8Array({ maxLength: 300 }).map((each) => Buffer.from(each))
  fc.assert(
    fc.property(any, fc.nat(9), (whole, start) => {
      expect(crc32c(whole.subarray(start))).toBe(theirCrc32c(whole.subarray(start)))
    }),
  )
})
