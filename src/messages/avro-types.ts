// The Avro types of messages: avsc's, but counts in foreign bytes are never trusted, maps are ordered, and what every chunk has hundreds
// of (terms, strings, nulls) is written and read by shorter ways, to the same bytes and values.
import avro from 'avsc'

// avsc's readers, writers and skippers are protected members that its typings leave out.
interface Tap {
  readonly buf: Buffer & { utf8Write(text: string, at: number): number }
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
  /** Of a union. */
  readonly types: readonly Internals[]
  /** Of a record. */
  readonly fields: readonly unknown[]
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

/** The members of an IRI's term that are read here. */
interface IriTerm {
  /** Undefined when its bytes are cut off. */
  readonly iri: string | undefined
}

const sharedTerms = 512
/** Characters of an IRI that is shared. */
const [minSharedIri, maxSharedIri] = [12, 200]

/**
 * A `Term`. Two of three terms of a message are IRIs that stood in it before: such a term is found by its bytes among those that were
 * read last, and one object stands for all of them. This costs less than to read it, and later readers compare the same strings.
 */
class TermRecord extends BoundedRecord {
  override _createReader(): Reads['_read'] {
    const read = super._createReader()
    const nulls = this.fields.length - 2
    const known = new Array<IriTerm | undefined>(sharedTerms).fill(undefined)
    return (tap) => {
      const { buf, pos } = tap
      // The strings "i" and iri, and a null for every other field.
      if (buf[pos] !== 2 || buf[pos + 1] !== 0x69 || buf[pos + 2] !== 2) return read(tap)
      let begin = pos + 4
      let length = buf[pos + 3]! / 2
      if (length >= 64) length += (buf[begin++]! - 1) * 64
      if (!(length >= minSharedIri && length <= maxSharedIri)) return read(tap)
      const end = begin + length
      // IRIs of one kind differ in their last characters, or before `/quote` and `/position`.
      const hash =
        length + buf[end - 1]! * 7 + buf[end - 8]! * 31 + buf[end - 10]! * 17 + buf[end - 12]! * 131
      const slot = hash % sharedTerms
      const term = known[slot]
      if (term && isSame(term, buf, begin, end, nulls) && (tap.depth ?? 0) < maxRecordDepth) {
        charge(tap, 1)
        tap.pos = end + nulls
        return term
      }
      const made = read(tap) as IriTerm
      // Only in ASCII are there as many characters as bytes.
      if (tap.pos === end + nulls && made.iri?.length === length) known[slot] = made
      return made
    }
  }
}

function isSame({ iri }: IriTerm, buf: Buffer, begin: number, end: number, nulls: number): boolean {
  if (iri?.length !== end - begin) return false
  for (let at = end - 1; at >= begin; at--) if (buf[at] !== iri.charCodeAt(at - begin)) return false
  for (let at = end; at < end + nulls; at++) if (buf[at] !== 0) return false
  return true
}

/** Strings. avsc measures each before it writes it. */
class Text extends (avro.types.StringType as unknown as InternalClass) {
  override _write(tap: Tap, value: unknown): void {
    if (typeof value !== 'string' || !(writeAscii(tap, value) || writeMedium(tap, value)))
      super._write(tap, value)
  }
}

/** Writes a string of less than 64 ASCII characters. False for others: then the position is as before. */
function writeAscii(tap: Tap, value: string): boolean {
  const { length } = value
  if (length >= 64) return false
  const { buf, pos } = tap
  for (let at = 0; at < length; at++) {
    const code = value.charCodeAt(at)
    if (code > 0x7f) return false
    buf[pos + 1 + at] = code
  }
  buf[pos] = 2 * length
  tap.pos = pos + 1 + length
  return true
}

/** Writes a string whose length in bytes takes two bytes, whatever its characters are. False for others. */
function writeMedium(tap: Tap, value: string): boolean {
  const { buf, pos } = tap
  const longest = 3 * value.length
  if (value.length < 64 || longest >= 8192 || pos + 2 + longest > buf.length) return false
  const written = buf.utf8Write(value, pos + 2)
  buf[pos] = ((2 * written) & 0x7f) | 0x80
  buf[pos + 1] = written >> 6
  tap.pos = pos + 2 + written
  return true
}

/** `null` or one other type. What is null, or text, or has an index of one byte, does not need avsc's search for its branch. */
class Nullable extends (avro.types.UnwrappedUnionType as unknown as InternalClass) {
  override _read(tap: Tap): unknown {
    const branch = tap.buf[tap.pos]
    if (branch !== 0 && branch !== 2) return super._read(tap)
    tap.pos++
    return branch === 0 ? null : this.types[1]!._read(tap)
  }
  override _write(tap: Tap, value: unknown): void {
    if (value === null) tap.buf[tap.pos++] = 0
    else if (typeof value === 'string' && this.types[1] instanceof Text) {
      tap.buf[tap.pos++] = 2
      this.types[1]!._write(tap, value)
    } else super._write(tap, value)
  }
}

class CheckedInt extends (avro.types.IntType as unknown as InternalClass) {
  override _read(tap: Tap): unknown {
    const value = tap.readInt()
    if (value !== (value | 0)) throw new Error('an int of more than 32 bits')
    return value
  }
}

const ownTypes: Readonly<Record<string, InternalClass>> = {
  array: BoundedArray,
  map: BoundedMap,
  record: BoundedRecord,
  error: BoundedRecord,
  int: CheckedInt,
  string: Text,
}

function ownType(schema: unknown): InternalClass | undefined {
  if (Array.isArray(schema)) return schema.length === 2 && schema[0] === 'null' ? Nullable : undefined
  const { type, name } = (schema ?? {}) as { readonly type?: unknown; readonly name?: unknown }
  // Schemas of other writers never read a message themselves, whatever they call `Term`: ours does, by a resolver.
  if (type === 'record' && name === 'Term') return TermRecord
  return typeof type === 'string' && Object.hasOwn(ownTypes, type) ? ownTypes[type] : undefined
}

/** An avsc type whose reading is bounded, with ordered maps. It writes and reads what avsc's own types do, in less time. */
export function avroType(schema: unknown): avro.Type {
  return avro.Type.forSchema(
    schema as avro.Schema,
    {
      typeHook(inner: avro.Schema, options: unknown) {
        const own = ownType(inner)
        return (own ? new own(inner, options) : undefined) as avro.Type
      },
    } as avro.ForSchemaOptions,
  )
}
