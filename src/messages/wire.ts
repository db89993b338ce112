// The wire format: Avro's single-object encoding (C3 01, CRC-64-AVRO fingerprint, body) or, with a schema registry, Confluent's
// (00, 4-byte id, body). Readers take both. Counts in foreign bytes are never trusted.
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
  /** Ours: records, items and entries so far, and how many records are open. */
  values?: number
  depth?: number
  readLong(): number
  readInt(): number
  readString(): string
  skipString(): void
}
interface Reads {
  _read(tap: Tap): unknown
}
interface Internals extends Reads {
  readonly itemsType: Internals
  readonly valuesType: Internals
  _write(tap: Tap, value: unknown): void
  _skip(tap: Tap): void
  _update(resolver: Reads, type: unknown, options: unknown): void
  _createReader(): Reads['_read']
  _createSkipper(): (tap: Tap) => void
}
type InternalClass = new (schema: unknown, options: unknown) => avro.Type & Internals

/** Records, items and entries of a message, at most. Only an attack fits more into 700 KiB. */
const maxValues = 200_000
/** How deep records may be nested: a quoted triple takes two levels. */
const maxRecordDepth = 64

function charge(tap: Tap, values: number): void {
  tap.values = (tap.values ?? 0) + values
  if (tap.values > maxValues) throw new Error(`more than ${maxValues} values`)
}

/** The reader or skipper of a record, bounded. A failed tap is never used again, so its counts need no reset. */
function bounded<T>(read: (tap: Tap) => T): (tap: Tap) => T {
  return (tap) => {
    charge(tap, 1)
    tap.depth = (tap.depth ?? 0) + 1
    if (tap.depth > maxRecordDepth) throw new Error(`records more than ${maxRecordDepth} deep`)
    const value = read(tap)
    tap.depth--
    return value
  }
}

/**
 * Reads the blocks of an array or a map. Each count is checked against the bytes that are left, since no item of our schemas is
 * smaller than a byte, and each size against the bytes that the block took. avsc checks neither.
 */
function readBlocks(tap: Tap, readItem: () => void): void {
  const { buf } = tap
  for (let count = tap.readLong(); count !== 0; count = tap.readLong()) {
    const size = count < 0 ? tap.readLong() : undefined
    const items = Math.abs(count)
    const left = buf.length - tap.pos
    // Not `>`: a broken number may be read as NaN.
    if (!(items <= left)) throw new Error('a count beyond the end of the message')
    if (size !== undefined && !(size >= 0 && size <= left)) throw new Error('a block of an impossible size')
    charge(tap, items)
    const start = tap.pos
    for (let item = 0; item < items; item++) {
      readItem()
      if (!(tap.pos <= buf.length)) throw new Error('cut off within a block')
    }
    if (size !== undefined && tap.pos !== start + size) throw new Error('a block of another size')
  }
}

class BoundedArray extends (avro.types.ArrayType as unknown as InternalClass) {
  // Also called on resolvers, which have `itemsType`, too.
  override _read(tap: Tap): unknown {
    const { itemsType } = this
    const items: unknown[] = []
    readBlocks(tap, () => items.push(itemsType._read(tap)))
    return items
  }
  override _skip(tap: Tap): void {
    readBlocks(tap, () => this.itemsType._skip(tap))
  }
}

// Maps are written in the order of their keys, so that equal payloads give equal bytes, and equal ids.
class BoundedMap extends (avro.types.MapType as unknown as InternalClass) {
  override _read(tap: Tap): unknown {
    const { valuesType } = this
    const entries: [string, unknown][] = []
    readBlocks(tap, () => entries.push([tap.readString(), valuesType._read(tap)]))
    // Not by assignment, which gives the key `__proto__` another meaning.
    return Object.fromEntries(entries)
  }
  override _skip(tap: Tap): void {
    readBlocks(tap, () => {
      tap.skipString()
      this.valuesType._skip(tap)
    })
  }
  override _write(tap: Tap, value: unknown): void {
    const map = value as Record<string, unknown>
    const keys = Object.keys(map ?? {})
    const ordered = keys.length < 2 ? map : Object.fromEntries(keys.sort().map((key) => [key, map[key]]))
    super._write(tap, ordered)
  }
}

class BoundedRecord extends (avro.types.RecordType as unknown as InternalClass) {
  override _createReader(): Reads['_read'] {
    return bounded(super._createReader())
  }
  override _createSkipper(): (tap: Tap) => void {
    return bounded(super._createSkipper())
  }
  override _update(resolver: Reads, type: unknown, options: unknown): void {
    super._update(resolver, type, options)
    resolver._read = bounded(resolver._read)
  }
}

class CheckedInt extends (avro.types.IntType as unknown as InternalClass) {
  override _read(tap: Tap): unknown {
    const value = tap.readInt()
    if (value !== (value | 0)) throw new Error('an int of more than 32 bits')
    return value
  }
}

const boundedTypes: Readonly<Record<string, InternalClass>> = {
  array: BoundedArray,
  map: BoundedMap,
  record: BoundedRecord,
  error: BoundedRecord,
  int: CheckedInt,
}

/** An avsc type whose reading is bounded, with ordered maps. */
export function avroType(schema: unknown): avro.Type {
  return avro.Type.forSchema(
    schema as avro.Schema,
    {
      typeHook(inner: avro.Schema, options: unknown) {
        const kind = (inner as { type?: unknown } | null)?.type
        const own =
          typeof kind === 'string' && Object.hasOwn(boundedTypes, kind) ? boundedTypes[kind] : undefined
        return (own ? new own(inner, options) : undefined) as avro.Type
      },
    } as avro.ForSchemaOptions,
  )
}

/** JSON values, characters and depth of a writer's schema: many times those of ours. */
const maxSchemaValues = 5000
const maxSchemaLength = 128 * 1024
const maxSchemaDepth = 64

/** The type of a foreign schema. One that is larger than any honest schema is refused before avsc compiles it. Throws Error. */
export function foreignType(schema: unknown): avro.Type {
  let values = 0
  let level: unknown[] = [schema]
  for (let depth = 0; level.length > 0; depth++) {
    values += level.length
    if (depth > maxSchemaDepth || values > maxSchemaValues) throw new Error('the schema is too large')
    level = level.flatMap((value) =>
      typeof value === 'object' && value !== null ? Object.values(value) : [],
    )
  }
  if (JSON.stringify(schema).length > maxSchemaLength) throw new Error('the schema is too large')
  const type = avroType(schema)
  if (!avro.Type.isType(type, 'record')) throw new Error('the schema is no record')
  return type
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

/** What the first bytes of a message say about its writer's schema. */
export type WirePrefix =
  | { readonly format: 'single-object'; readonly fingerprint: string; readonly bodyStart: 10 }
  | { readonly format: 'confluent'; readonly id: number; readonly bodyStart: 5 }

/** Undefined when the bytes begin like neither format. */
export function readPrefix(bytes: Buffer): WirePrefix | undefined {
  if (bytes.length >= 10 && bytes[0] === 0xc3 && bytes[1] === 0x01)
    return { format: 'single-object', fingerprint: bytes.toString('hex', 2, 10), bodyStart: 10 }
  if (bytes.length >= 5 && bytes[0] === 0)
    return { format: 'confluent', id: bytes.readUInt32BE(1), bodyStart: 5 }
  return undefined
}
