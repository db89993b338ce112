// How Avro bytes stand on the wire: single-object encoding (C3 01, CRC-64-AVRO fingerprint, body) or, with a schema registry,
// Confluent's (00, 4-byte id, body). Readers take both. Counts in foreign bytes are never trusted.
import avro from 'avsc'

/** The JSON of a composed envelope schema. */
export interface ComposedSchema {
  readonly type: 'record'
  readonly name: string
  readonly namespace: string
  readonly doc: string
  readonly fields: readonly {
    readonly name: string
    readonly type: unknown
    readonly doc?: string
    readonly default?: unknown
  }[]
}

// avsc's readers, writers and skippers are protected members that its typings leave out.
interface Tap {
  readonly buf: Buffer
  pos: number
  readLong(): number
}
interface Internals {
  _read(tap: Tap): unknown
  _write(tap: Tap, value: unknown): void
  _skip(tap: Tap): void
}
type InternalClass = new (schema: unknown, options: unknown) => avro.Type & Internals

// No item of our schemas is smaller than a byte, so a count beyond the bytes that are left is corrupt. avsc would believe it.
function checkedTap(tap: Tap): void {
  const start = tap.pos
  const count = tap.readLong()
  if (count < 0 && tap.readLong() < 0) throw new Error('a block of negative size')
  if (Math.abs(count) > tap.buf.length - tap.pos) throw new Error('a count beyond the end of the message')
  tap.pos = start
}

class BoundedArray extends (avro.types.ArrayType as unknown as InternalClass) {
  override _read(tap: Tap): unknown {
    checkedTap(tap)
    return super._read(tap)
  }
  override _skip(tap: Tap): void {
    checkedTap(tap)
    super._skip(tap)
  }
}

// Maps are written in the order of their keys, so that equal payloads are equal bytes and ids can be made of them.
class BoundedMap extends (avro.types.MapType as unknown as InternalClass) {
  override _read(tap: Tap): unknown {
    checkedTap(tap)
    return super._read(tap)
  }
  override _skip(tap: Tap): void {
    checkedTap(tap)
    super._skip(tap)
  }
  override _write(tap: Tap, value: unknown): void {
    const map = value as Record<string, unknown>
    const keys = Object.keys(map ?? {})
    const ordered = keys.length < 2 ? map : Object.fromEntries(keys.sort().map((key) => [key, map[key]]))
    super._write(tap, ordered)
  }
}

/** An avsc type with bounded counts and ordered maps. */
export function avroType(schema: unknown): avro.Type {
  return avro.Type.forSchema(
    schema as avro.Schema,
    {
      typeHook(inner: avro.Schema, options: unknown) {
        const kind = (inner as { type?: unknown } | null)?.type
        if (kind === 'array') return new BoundedArray(inner, options)
        if (kind === 'map') return new BoundedMap(inner, options)
        return undefined as unknown as avro.Type
      },
    } as avro.ForSchemaOptions,
  )
}

// CRC-64-AVRO (Rabin), as in the Avro specification, "Schema Fingerprints".
const empty = 0xc15d213aa4d7a795n
const table = Array.from({ length: 256 }, (_, byte) => {
  let fp = BigInt(byte)
  for (let bit = 0; bit < 8; bit++) fp = (fp >> 1n) ^ (fp & 1n ? empty : 0n)
  return fp
})

/** The CRC-64-AVRO fingerprint of bytes. */
export function rabin(bytes: Uint8Array): bigint {
  let fp = empty
  for (const byte of bytes) fp = (fp >> 8n) ^ table[Number((fp ^ BigInt(byte)) & 0xffn)]!
  return fp
}

/** The fingerprint of a type's Parsing Canonical Form, as 16 hexadecimal digits of its little-endian bytes. */
export function fingerprintOf(type: avro.Type): string {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(rabin(Buffer.from(JSON.stringify(type.schema()))))
  return bytes.toString('hex')
}

/** The first ten bytes of a single-object encoded message. */
export function singleObjectPrefix(fingerprint: string): Buffer {
  return Buffer.from(`c301${fingerprint}`, 'hex')
}

/** The first five bytes of a message in Confluent's format. */
export function confluentPrefix(id: number): Buffer {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(id, 1)
  return prefix
}

/** What the first bytes of a message say of its writer's schema; `undefined` when they are neither format's. */
export type WirePrefix =
  | { readonly format: 'single-object'; readonly fingerprint: string; readonly bodyStart: 10 }
  | { readonly format: 'confluent'; readonly id: number; readonly bodyStart: 5 }

export function readPrefix(bytes: Buffer): WirePrefix | undefined {
  if (bytes.length >= 10 && bytes[0] === 0xc3 && bytes[1] === 0x01)
    return { format: 'single-object', fingerprint: bytes.toString('hex', 2, 10), bodyStart: 10 }
  if (bytes.length >= 5 && bytes[0] === 0)
    return { format: 'confluent', id: bytes.readUInt32BE(1), bodyStart: 5 }
  return undefined
}
