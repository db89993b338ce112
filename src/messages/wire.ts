// The wire format: Avro's single-object encoding (C3 01, CRC-64-AVRO fingerprint, body) or, with a schema registry, Confluent's
// (00, 4-byte id, body). Readers take both.
import avro from 'avsc'
import { avroType } from './avro-types.ts'

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
