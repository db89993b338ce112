// A record of Kafka on the wire (record batch version 2), written and read in one pass. kafkajs uses an encoder for each header,
// and copies all headers before it for each header that it reads. Source: https://kafka.apache.org/documentation/#record

/** The input of kafkajs's encoder of records. */
export interface KafkaRecord {
  readonly offsetDelta?: number
  readonly timestampDelta?: number
  readonly key?: unknown
  readonly value?: unknown
  readonly headers?: Readonly<Record<string, unknown>>
}

/** Headers are written here first, since their length comes before them. */
const scratch = Buffer.allocUnsafeSlow(16 * 1024)
/** Up to this length, writing a text here is faster than a call into Node. */
const shortText = 48
/** A length takes five bytes at most, a UTF-16 code unit three. */
const lengthBytes = 5
const unitBytes = 3

/** Undefined for rare records, which kafkajs writes: many headers, headers or keys that are no text, timestamps hours apart. */
export function encodeRecord(record: KafkaRecord): Buffer | undefined {
  const { offsetDelta = 0, timestampDelta = 0, key, value, headers = {} } = record
  if (typeof key !== 'string' || !Buffer.isBuffer(value) || !isSmall(offsetDelta) || !isSmall(timestampDelta))
    return undefined
  const headersLength = writeHeaders(headers)
  if (headersLength === undefined) return undefined
  const keyLength = Buffer.byteLength(key)
  const length =
    1 +
    varintLength(timestampDelta) +
    varintLength(offsetDelta) +
    varintLength(keyLength) +
    keyLength +
    varintLength(value.length) +
    value.length +
    headersLength
  const bytes = Buffer.allocUnsafe(varintLength(length) + length)
  let at = writeVarint(bytes, 0, length)
  bytes[at++] = 0 // attributes: none are in use
  at = writeVarint(bytes, at, timestampDelta)
  at = writeVarint(bytes, at, offsetDelta)
  at = writeVarint(bytes, at, keyLength)
  at += bytes.write(key, at)
  at = writeVarint(bytes, at, value.length)
  at += value.copy(bytes, at)
  scratch.copy(bytes, at, 0, headersLength)
  return bytes
}

/** Writes the number of headers and the headers into the scratch. Returns the number of bytes; undefined for rare headers. */
function writeHeaders(headers: Readonly<Record<string, unknown>>): number | undefined {
  const names = Object.keys(headers)
  let at = writeVarint(scratch, 0, names.length)
  for (const name of names) {
    const text = headers[name]
    if (typeof text !== 'string') return undefined
    if (at + 2 * lengthBytes + unitBytes * (name.length + text.length) > scratch.length) return undefined
    at = writeText(at, name)
    at = writeText(at, text)
  }
  return at
}

function writeText(start: number, text: string): number {
  const { length } = text
  if (length <= shortText) {
    let at = writeVarint(scratch, start, length)
    let index = 0
    for (; index < length; index++) {
      const unit = text.charCodeAt(index)
      if (unit > 0x7f) break
      scratch[at++] = unit
    }
    if (index === length) return at
  }
  const at = writeVarint(scratch, start, Buffer.byteLength(text))
  return at + scratch.write(text, at)
}

/** Zigzag encoding takes one bit of 32. */
const isSmall = (value: number) => Number.isInteger(value) && Math.abs(value) < 2 ** 30

function varintLength(value: number): number {
  return Math.max(1, Math.ceil((32 - Math.clz32(zigzag(value))) / 7))
}

function writeVarint(bytes: Buffer, start: number, value: number): number {
  let at = start
  let rest = zigzag(value)
  for (; rest > 0x7f; rest >>>= 7) bytes[at++] = (rest & 0x7f) | 0x80
  bytes[at++] = rest
  return at
}

const zigzag = (value: number) => ((value << 1) ^ (value >> 31)) >>> 0

/** The input of kafkajs's decoder of records: the record's bytes without their length. */
export interface RecordBytes {
  readonly buffer: Buffer
}

export interface BatchContext {
  readonly firstOffset?: string
  readonly firstTimestamp?: string
  readonly maxTimestamp?: string
  readonly magicByte?: number
  readonly isControlBatch?: boolean
  /** 1: the time of the broker, the same for the whole batch. */
  readonly timestampType?: number
}

type HeaderValue = Buffer | null

/** The record in the form of kafkajs: offset and time as decimal strings, header values as bytes. */
export function decodeRecord({ buffer }: RecordBytes, batchContext: BatchContext = {}) {
  const { firstOffset, firstTimestamp, maxTimestamp, magicByte, isControlBatch = false } = batchContext
  const cursor = { buffer, at: 1 }
  const attributes = buffer.readInt8(0)
  const timestampDelta = readVarint(cursor)
  const offsetDelta = readVarint(cursor)
  const isBrokerTime = batchContext.timestampType === 1 && maxTimestamp
  return {
    magicByte,
    attributes,
    timestamp: isBrokerTime ? maxTimestamp : String(Number(firstTimestamp) + timestampDelta),
    offset: String(Number(firstOffset) + offsetDelta),
    key: readBytes(cursor),
    value: readBytes(cursor),
    headers: readHeaders(cursor),
    isControlRecord: isControlBatch,
    batchContext,
  }
}

interface RecordCursor {
  readonly buffer: Buffer
  at: number
}

function readHeaders(cursor: RecordCursor): Record<string, HeaderValue | HeaderValue[]> {
  const headers: Record<string, HeaderValue | HeaderValue[]> = {}
  for (let left = readVarint(cursor); left > 0; left--) {
    const name = readName(cursor)
    const value = readBytes(cursor)
    const before = Object.hasOwn(headers, name) ? headers[name] : undefined
    if (Array.isArray(before)) {
      // In place, since a record of a megabyte may repeat a name 200,000 times.
      before.push(value)
      continue
    }
    const all = before === undefined ? value : [before, value]
    // A name like __proto__ must become an own key.
    if (name in Object.prototype) Object.defineProperty(headers, name, { ...plain, value: all })
    else headers[name] = all
  }
  return headers
}

const plain = { configurable: true, enumerable: true, writable: true }

function readName(cursor: RecordCursor): string {
  const length = readVarint(cursor)
  if (length < 0) return 'null'
  cursor.at += length
  return cursor.buffer.toString('utf8', cursor.at - length, cursor.at)
}

function readBytes(cursor: RecordCursor): HeaderValue {
  const length = readVarint(cursor)
  if (length < 0) return null
  cursor.at += length
  return cursor.buffer.subarray(cursor.at - length, cursor.at)
}

/** Up to 53 bits: deltas of offsets and times within a batch are far smaller. */
function readVarint(cursor: RecordCursor): number {
  let [value, scale] = [0, 1]
  for (;;) {
    const byte = cursor.buffer[cursor.at++]
    if (byte === undefined) throw new RangeError('the record ends within a length')
    value += (byte & 0x7f) * scale
    if (byte < 0x80) break
    scale *= 128
  }
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2
}
