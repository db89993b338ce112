import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { patchKafkajs } from '../../../src/broker/kafka/quirks.ts'
import { decodeRecord } from '../../../src/broker/kafka/record.ts'

const require = createRequire(import.meta.url)

test('this kafkajs is laid out as the patches expect, and all of them take', () => {
  const RequestQueue = require('kafkajs/src/network/requestQueue')
  const Encoder = require('kafkajs/src/protocol/encoder')
  const before = RequestQueue.prototype.scheduleCheckPendingRequests
  expect(new Encoder().buf.length).toBe(512)
  patchKafkajs()
  expect(RequestQueue.prototype.scheduleCheckPendingRequests).not.toBe(before)
  expect(new Encoder().buf.length).toBe(0)
  expect(new Encoder().writeString('mill').buffer).toEqual(Buffer.from('\0\u0004mill'))
  const encode = require('kafkajs/src/protocol/recordBatch/record/v0')
  expect(Object.keys(encode({ key: 'k', value: Buffer.from('v') }))).toEqual(['buf', 'buffer'])
  expect(encode({ key: null, value: null })).toBeInstanceOf(Encoder)
  const decode = require('kafkajs/src/protocol/recordBatch/record/v0/decoder')
  expect(decode.toString()).toContain('decodeRecord')
  const Decoder = require('kafkajs/src/protocol/decoder')
  const cut = Buffer.from([0, 0, 0, 2, 0x6b, 2, 0x76])
  expect(() => decodeRecord({ buffer: cut })).toThrow('ends within')
  expect(decode(new Decoder(cut), { firstOffset: '1', firstTimestamp: '1' })).toMatchObject({ headers: {} })
})
