// Each test shows the fault in kafkajs as it is installed, and then that the patch takes: it fails when the fault has gone.
import { createRequire } from 'node:module'
import { beforeAll, expect, test, vi } from 'vitest'
import { readMessage } from '../../../src/broker/kafka/message.ts'
import { errorsOfPartitions, hookFetches, hookJoins, patchKafkajs } from '../../../src/broker/kafka/quirks.ts'

const require = createRequire(import.meta.url)
const before = { timer: 0, decode: undefined as unknown }

/** The timers that an idle connection sets. */
function timersOfIdleQueue(): number {
  const { prototype } = require('kafkajs/src/network/requestQueue')
  const queue = { pending: [], throttleCheckTimeoutId: null, throttledUntil: -1, checkPendingRequests() {} }
  prototype.scheduleCheckPendingRequests.call(queue)
  if (queue.throttleCheckTimeoutId === null) return 0
  clearTimeout(queue.throttleCheckTimeoutId)
  return 1
}

const decoder = () => require('kafkajs/src/protocol/recordBatch/record/v0/decoder')

beforeAll(() => {
  Object.assign(before, { timer: timersOfIdleQueue(), decode: decoder() })
  patchKafkajs()
})

test('kafkajs sets a timer when no request waits, and the patch sets none', () => {
  expect([before.timer, timersOfIdleQueue()]).toEqual([1, 0])
})

type Decode = (decoder: object, batch: object) => Parameters<typeof readMessage>[2]

/** A record as it comes, read by this decoder. */
function readRecord(headers: object, decode: Decode = decoder()) {
  const Decoder = require('kafkajs/src/protocol/decoder')
  const { buffer } = require('kafkajs/src/protocol/recordBatch/record/v0')({ key: 'k', value: 'v', headers })
  const whole = new Decoder(buffer)
  const body = new Decoder(whole.readVarIntBytes())
  return readMessage('t', 0, decode(body, { firstOffset: '7', firstTimestamp: '1' }))
}

test('a record of 10,000 headers is read in a moment', () => {
  // kafkajs takes minutes.
  expect(String(before.decode)).toContain('...obj')
  const names = Array.from({ length: 10_000 }, (_, index) => `name ${index}`)
  const start = performance.now()
  const { headers } = readRecord(Object.fromEntries(names.map((name) => [name, 'v'])))
  expect(performance.now() - start).toBeLessThan(2000)
  expect(Object.keys(headers)).toEqual(names)
})

test('headers are read as kafkajs reads them; of a repeated one the last value counts', () => {
  const headers = { one: 'a', empty: '', repeated: ['b', 'c'], é: Buffer.from('ä') }
  const read = readRecord(headers)
  expect(read).toEqual(readRecord(headers, before.decode as Decode))
  expect(read.headers).toEqual({ one: 'a', empty: '', repeated: 'c', é: 'ä' })
  const named = readRecord(JSON.parse('{"__proto__":"a","toString":"b"}')).headers
  expect(Object.entries(named)).toEqual([
    ['__proto__', 'a'],
    ['toString', 'b'],
  ])
})

test.each([
  ['more headers than there are', '\x04\x06one\x02x', { one: 'x' }],
  ['a billion headers', '\x80\x80\x80\x80\x08\x06one\x02x', { one: 'x' }],
  ['null for a value', '\x02\x06one\x01', { one: '' }],
  ['a length below null', '\x04\x06one\x0d\x06two\x02y', { one: '', two: 'y' }],
  ['a length beyond the end', '\x02\x06one\x7ex', { one: 'x' }],
  ['a length without an end', '\x02\x06one\xff\xff', { one: '' }],
])('a record that promises %s is read to its end', (_, bytes, headers) => {
  const Decoder = require('kafkajs/src/protocol/decoder')
  const body = new Decoder(Buffer.from(`\0\0\0\x02k\x02v${bytes}`, 'latin1'))
  const record = decoder()(body, { firstOffset: '7', firstTimestamp: '1' })
  expect(readMessage('t', 0, record)).toMatchObject({ key: 'k', headers })
})

/** A whole produce request, written by way of version 7. */
async function producedBytes(message: object): Promise<{ readonly buffer: Buffer; readonly room?: number }> {
  const { request } = require('kafkajs/src/protocol/requests/produce').protocol({ version: 7 })({
    acks: -1,
    timeout: 1,
    topicData: [{ topic: 't', partitions: [{ partition: 0, messages: [message] }] }],
  })
  return require('kafkajs/src/protocol/request')({ correlationId: 5, clientId: 'graphmill', request })
}

test('a produce request is written by our own code, and is not copied', async () => {
  const message = { key: 'k', value: Buffer.alloc(9000, 'v'), headers: { name: 'text' } }
  vi.spyOn(Date, 'now').mockReturnValue(1_800_000_000_000)
  const ours = await producedBytes(message)
  // kafkajs writes what has a timestamp.
  const theirs = await producedBytes({ ...message, timestamp: '1800000000000' })
  vi.restoreAllMocks()
  expect(ours.buffer.equals(theirs.buffer)).toBe(true)
  expect([ours.room, theirs.room]).toEqual([41, undefined])
  const Encoder = require('kafkajs/src/protocol/encoder')
  const longer = new Encoder().writeString('c'.repeat(40)).writeEncoder(ours).buffer
  expect(longer.equals(Buffer.concat([Buffer.from(`\0(${'c'.repeat(40)}`), theirs.buffer]))).toBe(true)
})

test('a consumer waits for its hook before it joins, and the others hear how that ended', async () => {
  const { prototype } = require('kafkajs/src/consumer/consumerGroup')
  const steps: string[] = []
  const cluster = {} as Parameters<typeof hookJoins>[0]
  hookJoins(cluster, {
    async before() {
      await undefined
      steps.push('before')
    },
    joined: (generation) => void steps.push(`joined ${generation}`),
    failed: async () => steps.push('failed') < 4,
  })
  const retrier = async () => {
    steps.push('join')
    throw new Error('not yet')
  }
  await expect(prototype.joinAndSync.call({ cluster, retrier })).rejects.toThrow('not yet')
  expect(steps.splice(0)).toEqual(['before', 'join', 'failed', 'join', 'failed'])
  await prototype.joinAndSync.call({ cluster, retrier: async () => steps.push('join'), generationId: 3 })
  expect(steps).toEqual(['before', 'join', 'joined 3'])
})

test('a consumer waits for its hook before it fetches, and says how much came', async () => {
  const { prototype } = require('kafkajs/src/consumer/consumerGroup')
  const steps: string[] = []
  const cluster = {
    async refreshMetadataIfNecessary() {
      steps.push('fetch')
      throw Object.assign(new Error('stale'), { name: 'KafkaJSConnectionClosedError' })
    },
    removeBroker() {},
  } as unknown as Parameters<typeof hookFetches>[0]
  hookFetches(cluster, {
    async before(nodeId) {
      await undefined
      steps.push(`before ${nodeId}`)
    },
    after: (nodeId, messages) => steps.push(`after ${nodeId}: ${messages}`),
  })
  const recoverFromFetch = prototype.recoverFromFetch
  expect(await prototype.fetch.call({ cluster, recoverFromFetch }, '1')).toEqual([])
  expect(steps).toEqual(['before 1', 'fetch', 'after 1: 0'])
})

test('the error of a produce request says what was stored', async () => {
  const { parse } = require('kafkajs/src/protocol/requests/produce/v7/response')
  const partitions = [
    { partition: 0, errorCode: 0 },
    { partition: 1, errorCode: 10 },
  ]
  const data = { topics: [{ topicName: 'a', partitions }] }
  const error = await parse(data).catch((thrown: unknown) => thrown)
  const errorOf = errorsOfPartitions(error)!
  expect(errorOf('a', 0)).toBeUndefined()
  expect(errorOf('a', 1)).toMatchObject({ type: 'MESSAGE_TOO_LARGE' })
  // A partition that the answer leaves out may not have stored anything.
  expect(errorOf('a', 2)).toBe(error)
  expect(errorOf('b', 0)).toBe(error)
  expect(errorsOfPartitions(new Error('no answer'))).toBeUndefined()
})
