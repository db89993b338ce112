// Each test shows the fault in kafkajs as it is installed, and then that the patch takes: it fails when the fault has gone.
import { createRequire } from 'node:module'
import { beforeAll, expect, test } from 'vitest'
import { hookJoins, patchKafkajs } from '../../../src/broker/kafka/quirks.ts'
import { decodeRecord } from '../../../src/broker/kafka/record.ts'

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

test('a record of many headers is read by our own code, in the form of kafkajs', () => {
  expect(decoder()).not.toBe(before.decode)
  expect(String(before.decode)).toContain('...obj')
  expect(decoder().toString()).toContain('decodeRecord')
  const Decoder = require('kafkajs/src/protocol/decoder')
  const cut = Buffer.from([0, 0, 0, 2, 0x6b, 2, 0x76])
  expect(() => decodeRecord({ buffer: cut })).toThrow('ends within')
  expect(decoder()(new Decoder(cut), { firstOffset: '1', firstTimestamp: '1' })).toMatchObject({
    headers: {},
  })
})

test('a consumer waits for its hook before it joins, and asks the other whether to try again', async () => {
  const { prototype } = require('kafkajs/src/consumer/consumerGroup')
  const steps: string[] = []
  const cluster = {} as Parameters<typeof hookJoins>[0]
  hookJoins(cluster, {
    async before() {
      await undefined
      steps.push('before')
    },
    failed: async () => steps.push('failed') < 4,
  })
  const retrier = async () => {
    steps.push('join')
    throw new Error('not yet')
  }
  await expect(prototype.joinAndSync.call({ cluster, retrier })).rejects.toThrow('not yet')
  expect(steps).toEqual(['before', 'join', 'failed', 'join', 'failed'])
})
