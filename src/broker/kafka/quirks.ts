// Works around four faults of kafkajs 2.2.4, in every client of the process. Where kafkajs is not laid out as it was, nothing is changed.
// - After its first answer every connection sets a timer of minus a trillion milliseconds, again and again, which costs
//   each a thousand turns a second and prints a warning. This one is set only when requests wait.
// - Whatever it encodes begins with 512 zeroed bytes of its own. Now it begins with nothing, and takes what it needs from
//   Node's pool; nothing behind the end of what was written is ever read.
// - Each header of a record is encoded so, by way of some ten small objects, and each one read copies all before it.
//   Ordinary records are written, and all are read, in one go instead.
// - A member joins again in the moment in which it hears of a rebalance, so that others begin again what it has nearly done.
//   And when it can't join it goes on as before, maybe in a new generation with the partitions of the old one. Now its
//   `JoinHooks` are asked first.
import { createRequire } from 'node:module'
import { isDeepStrictEqual } from 'node:util'
import type { Cluster } from 'kafkajs'
import {
  type BatchContext,
  decodeRecord,
  encodeRecord,
  type KafkaRecord,
  type RecordBytes,
} from './record.ts'

interface RequestQueue {
  throttledUntil: number
  throttleCheckTimeoutId: NodeJS.Timeout | null
  readonly pending: readonly unknown[]
  checkPendingRequests(): void
  scheduleCheckPendingRequests(): void
}

/** What of an encoder others look at. */
interface Encoded {
  readonly buf: Buffer
  readonly buffer: Buffer
}

interface Encoder {
  buf: Buffer
  offset: number
  ensureAvailable(length: number): void
}

interface EncoderClass {
  readonly prototype: Encoder
  nextPowerOfTwo(value: number): number
}

const betweenChecksMs = 10

function schedule(this: RequestQueue): void {
  if (this.pending.length === 0 || this.throttleCheckTimeoutId !== null) return
  const check = () => {
    this.throttleCheckTimeoutId = null
    this.checkPendingRequests()
  }
  this.throttleCheckTimeoutId = setTimeout(check, Math.max(this.throttledUntil - Date.now(), betweenChecksMs))
}

/** What the constructor asks a size for when it is given none. */
const unsized = 511
const smallest = 128

function ensureAvailable(this: Encoder, length: number): void {
  const needed = this.offset + length
  if (needed <= this.buf.length) return
  const larger = Buffer.allocUnsafe(Math.max(smallest, 2 * needed))
  this.buf.copy(larger, 0, 0, this.offset)
  this.buf = larger
}

interface ConsumerGroup {
  readonly cluster: Cluster
  joinAndSync(): Promise<void>
}

/** None of them may reject. */
export interface JoinHooks {
  /** Waited for before each time that the consumer joins its group. */
  before(): Promise<void>
  /** It could not join; resolves to whether it is to try again. */
  failed(error: unknown): Promise<boolean>
}

const joinHooks = new WeakMap<Cluster, JoinHooks>()

/** For the consumer of this cluster. */
export function hookJoins(cluster: Cluster, hooks: JoinHooks): void {
  joinHooks.set(cluster, hooks)
}

type RecordEncoder = (record: KafkaRecord) => Encoded
type RecordDecoder = typeof decodeRecord

/** By these it is seen whether kafkajs still does the same. */
const sample = { key: 'k', value: Buffer.from('v'), headers: { one: 'x', two: 'y' } }
const batch = { firstOffset: '7', firstTimestamp: '1', maxTimestamp: '2', magicByte: 2, timestampType: 0 }

const patches: readonly ((require: NodeJS.Require) => void)[] = [
  (require) => {
    const { prototype }: { prototype: RequestQueue } = require('kafkajs/src/network/requestQueue')
    if (typeof prototype.scheduleCheckPendingRequests === 'function')
      prototype.scheduleCheckPendingRequests = schedule
  },
  (require) => {
    const encoder: EncoderClass = require('kafkajs/src/protocol/encoder')
    const { nextPowerOfTwo, prototype } = encoder
    if (typeof prototype.ensureAvailable !== 'function' || nextPowerOfTwo(unsized) !== unsized + 1) return
    encoder.nextPowerOfTwo = (value) => (value === unsized ? 0 : nextPowerOfTwo(value))
    prototype.ensureAvailable = ensureAvailable
  },
  // Its requests are loaded when they are first sent, and find these then.
  (require) => {
    const path = require.resolve('kafkajs/src/protocol/recordBatch/record/v0/index')
    const encode: RecordEncoder = require(path)
    const written = encodeRecord(sample)!
    if (!written.equals(encode(sample).buffer)) return
    require.cache[path]!.exports = (record: KafkaRecord): Encoded => {
      const bytes = encodeRecord(record)
      return bytes ? { buf: bytes, buffer: bytes } : encode(record)
    }
    const decoderPath = require.resolve('kafkajs/src/protocol/recordBatch/record/v0/decoder')
    const decode: RecordDecoder = require(decoderPath)
    const Decoder = require('kafkajs/src/protocol/decoder')
    const read = () => new Decoder(written.subarray(1))
    if (isDeepStrictEqual(decodeRecord(read(), batch), decode(read(), batch)))
      require.cache[decoderPath]!.exports = (decoder: RecordBytes, context: BatchContext) => {
        try {
          return decodeRecord(decoder, context)
        } catch {
          return decode(decoder, context)
        }
      }
  },
  (require) => {
    const { prototype }: { prototype: ConsumerGroup } = require('kafkajs/src/consumer/consumerGroup')
    const { joinAndSync } = prototype
    if (typeof joinAndSync !== 'function') return
    prototype.joinAndSync = async function () {
      const hooks = joinHooks.get(this.cluster)
      await hooks?.before()
      for (;;)
        try {
          return await joinAndSync.call(this)
        } catch (error) {
          if (!(await hooks?.failed(error))) throw error
        }
    }
  },
]

export function patchKafkajs(): void {
  const require = createRequire(import.meta.url)
  for (const patch of patches)
    try {
      patch(require)
    } catch {
      // Bundled, or another version: the fault costs time only.
    }
}
