// Mends two faults of kafkajs 2.2.4, in every client of the process. Where kafkajs is not laid out as it was, nothing is changed.
// - After its first answer every connection sets a timer of minus a trillion milliseconds, again and again, which costs
//   each a thousand turns a second and prints a warning. This one is set only when requests wait.
// - Every record and every header of one is written into 512 zeroed bytes of its own, and every length in them by way of
//   an array and a buffer. Now they begin with nothing and take what they need from the pool, and lengths are written where
//   they belong. Nothing behind the end of what was written is ever read.
import { createRequire } from 'node:module'

interface RequestQueue {
  throttledUntil: number
  throttleCheckTimeoutId: NodeJS.Timeout | null
  readonly pending: readonly unknown[]
  checkPendingRequests(): void
  scheduleCheckPendingRequests(): void
}

interface Encoder {
  buf: Buffer
  offset: number
  ensureAvailable(length: number): void
  writeUVarInt(value: number): Encoder
}

interface EncoderClass {
  readonly prototype: Encoder
  nextPowerOfTwo(value: number): number
}

const betweenChecksMs = 10

/** What the constructor asks a size for when it is given none. */
const unsized = 511
const smallest = 128

function schedule(this: RequestQueue): void {
  if (this.pending.length === 0 || this.throttleCheckTimeoutId !== null) return
  const check = () => {
    this.throttleCheckTimeoutId = null
    this.checkPendingRequests()
  }
  this.throttleCheckTimeoutId = setTimeout(check, Math.max(this.throttledUntil - Date.now(), betweenChecksMs))
}

function ensureAvailable(this: Encoder, length: number): void {
  const needed = this.offset + length
  if (needed <= this.buf.length) return
  const larger = Buffer.allocUnsafe(Math.max(smallest, 2 * needed))
  this.buf.copy(larger, 0, 0, this.offset)
  this.buf = larger
}

function writeUVarInt(this: Encoder, value: number): Encoder {
  this.ensureAvailable(5)
  let rest = value >>> 0
  for (; rest > 0x7f; rest >>>= 7) this.buf[this.offset++] = (rest & 0x7f) | 0x80
  this.buf[this.offset++] = rest
  return this
}

export function patchKafkajs(): void {
  const require = createRequire(import.meta.url)
  try {
    const queue: { prototype: RequestQueue } = require('kafkajs/src/network/requestQueue')
    if (typeof queue.prototype.scheduleCheckPendingRequests === 'function')
      queue.prototype.scheduleCheckPendingRequests = schedule
    const encoder: EncoderClass = require('kafkajs/src/protocol/encoder')
    const { nextPowerOfTwo } = encoder
    if (typeof encoder.prototype.ensureAvailable !== 'function' || nextPowerOfTwo?.(unsized) !== unsized + 1)
      return
    encoder.nextPowerOfTwo = (value) => (value === unsized ? 0 : nextPowerOfTwo(value))
    Object.assign(encoder.prototype, { ensureAvailable, writeUVarInt })
  } catch {
    // Bundled, or another version: the faults cost time only.
  }
}
