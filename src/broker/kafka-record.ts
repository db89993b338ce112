// A record as Kafka has it on the wire (record batch of version 2), written in one go: kafkajs makes an object of its own for
// each header. Source: https://kafka.apache.org/documentation/#record

/** What kafkajs hands to its encoder of records. */
export interface KafkaRecord {
  readonly offsetDelta?: number
  readonly timestampDelta?: number
  readonly key?: unknown
  readonly value?: unknown
  readonly headers?: Readonly<Record<string, unknown>>
}

/** Headers are put together here, before it is known how long they are. */
const scratch = Buffer.allocUnsafeSlow(16 * 1024)
/** The longest text that is faster written here than by a call into Node. */
const shortText = 48
/** A length takes five bytes at most, a UTF-16 code unit three. */
const lengthBytes = 5
const unitBytes = 3

/** Undefined for what is rare: many headers, headers that are no texts, keys that are none, times apart by hours. */
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

/** Into the scratch, with their number before them; how many bytes that took. */
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

/** Zigzag leaves a bit less than 32. */
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
