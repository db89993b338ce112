// The Avro decoder under attack: valid messages of every type, also of writers with other schemas, with mutations that aim at
// counts, sizes and lengths. Whatever comes gives a coded error, or a message that fits its schema, within bounds of time and memory.
import { crc32 } from 'node:zlib'
import { maxMessageBytes } from '../../src/broker/broker.ts'
import { GraphmillError } from '../../src/errors.ts'
import { avroType } from '../../src/messages/avro-types.ts'
import { createCodec } from '../../src/messages/codec.ts'
import { loadSchemas, type PayloadName } from '../../src/messages/registry.ts'
import { type ComposedSchema, fingerprintOf, singleObjectPrefix } from '../../src/messages/wire.ts'
import type { FuzzTarget } from './target.ts'

/** What one input may take, in time of the processor; the lower ones are only reported. */
export const limits = { ms: 1000, bytes: 500 * 2 ** 20, reportedMs: 100, reportedBytes: 50 * 2 ** 20 }

type Rng = () => number
type Json = { readonly [key: string]: unknown }

const schemas = loadSchemas()
const codec = createCodec(schemas)
const readers = new Map([...schemas.current].map(([name, schema]) => [name, avroType(schema)]))
const codes = new Set(['bytes_undecodable', 'schema_unknown', 'message_too_large'])

/** Schemas that are in use, and those of later writers: fields of every kind that ours do not have, and must skip. */
const writers: readonly ComposedSchema[] = [
  ...schemas.byFingerprint.values(),
  ...[...schemas.current.values()].map(withMoreFields),
]
const types = writers.map((schema) => avroType(schema))
const names = writers.map((schema) => namesIn(schema))
for (const schema of writers) codec.learn(schema)

function withMoreFields(schema: ComposedSchema): ComposedSchema {
  const node = { type: 'record', name: 'Node', fields: [{ name: 'next', type: ['Node', 'null'] }] }
  const more = [
    { name: 'nothings', type: { type: 'array', items: { type: 'array', items: 'null' } } },
    { name: 'grid', type: { type: 'array', items: { type: 'array', items: 'long' } } },
    { name: 'table', type: { type: 'map', values: { type: 'map', values: 'bytes' } } },
    { name: 'node', type: { type: 'array', items: node } },
    { name: 'kind', type: { type: 'enum', name: 'Kind', symbols: ['A', 'B'] } },
    { name: 'fixed', type: { type: 'fixed', name: 'Fixed', size: 3 } },
    { name: 'numbers', type: { type: 'array', items: ['int', 'double', 'float', 'boolean'] } },
  ]
  return { ...schema, fields: [...more, ...schema.fields] }
}

const int = (rng: Rng, below: number) => Math.floor(rng() * below)
const one = <T>(rng: Rng, of: readonly T[]): T => of[int(rng, of.length)]!

/** Avro's zigzag varint. */
function varint(value: bigint): Buffer {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n))
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  return Buffer.from([...bytes, Number(rest)])
}

/** The records of a schema by name, wherever they are defined. */
function namesIn(schema: unknown, names = new Map<string, unknown>()): Map<string, unknown> {
  if (typeof schema !== 'object' || schema === null) return names
  if ((schema as Json)['type'] === 'record') names.set(String((schema as Json)['name']), schema)
  for (const inner of Object.values(schema)) namesIn(inner, names)
  return names
}

/** The bytes of a random value, blocks with and without sizes. */
function bytesOf(schema: unknown, rng: Rng, names: ReadonlyMap<string, unknown>, depth = 0): Buffer {
  if (Array.isArray(schema)) {
    // Deep in a recursive schema only what ends it.
    const ends = schema.indexOf('null')
    const branch = depth > 12 && ends >= 0 ? ends : int(rng, schema.length)
    return Buffer.concat([varint(BigInt(branch)), bytesOf(schema[branch], rng, names, depth)])
  }
  if (typeof schema === 'string') {
    const named = names.get(schema.replace(/^graphmill\./, ''))
    if (named) return bytesOf(named, rng, names, depth + 1)
    const text = Buffer.from('wörd '.repeat(int(rng, 4)))
    switch (schema) {
      case 'null':
        return Buffer.alloc(0)
      case 'string':
      case 'bytes':
        return Buffer.concat([varint(BigInt(text.length)), text])
      case 'boolean':
        return Buffer.from([int(rng, 2)])
      case 'int':
      case 'long':
        return varint(BigInt(int(rng, 1000) - 10))
      case 'double':
        return Buffer.alloc(8, 1)
      case 'float':
        return Buffer.alloc(4, 1)
      default:
        throw new Error(`no bytes for ${schema}`)
    }
  }
  const { type, fields, items, values, symbols, size } = schema as Json
  const inner = (each: unknown) => bytesOf(each, rng, names, depth + 1)
  switch (type) {
    case 'record':
      return Buffer.concat((fields as { type: unknown }[]).map((field) => inner(field.type)))
    case 'enum':
      return varint(BigInt(int(rng, (symbols as []).length)))
    case 'fixed':
      return Buffer.alloc(Number(size))
    case 'array':
    case 'map': {
      const blocks: Buffer[] = []
      for (let block = int(rng, 3); block > 0; block--) {
        const count = 1 + int(rng, 3)
        const each = () => (type === 'map' ? Buffer.concat([inner('string'), inner(values)]) : inner(items))
        const body = Buffer.concat(Array.from({ length: count }, each))
        const sized = rng() < 0.5
        blocks.push(
          varint(BigInt(sized ? -count : count)),
          ...(sized ? [varint(BigInt(body.length))] : []),
          body,
        )
      }
      return Buffer.concat([...blocks, varint(0n)])
    }
    default:
      return inner(type)
  }
}

/** Numbers at which readers break. */
const hostile = [
  ...[-1n, 0n, 1n, 2n, 64n, 255n, 65_535n, 700_000n, 2n ** 22n, 2n ** 31n, 2n ** 50n, 2n ** 62n],
  ...[-2n, -700_000n, -(2n ** 31n), -(2n ** 50n), -(2n ** 62n)],
].map(varint)
const endless = Buffer.alloc(200, 0xff)

function mutate(bytes: Buffer, rng: Rng): Buffer {
  const at = 10 + int(rng, Math.max(1, bytes.length - 10))
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
  switch (int(rng, 8)) {
    case 0: {
      const changed = Buffer.from(bytes)
      changed[at % bytes.length] = int(rng, 256)
      return changed
    }
    case 1:
      return before
    case 2:
      return Buffer.concat([before, one(rng, hostile), after])
    case 3:
      return Buffer.concat([before, one(rng, hostile), after.subarray(1)])
    case 4:
      return Buffer.concat([before, one(rng, hostile), one(rng, hostile), after])
    case 5: {
      // Long runs of one byte: counts are believed as far as there are bytes.
      const length = rng() < 0.1 ? int(rng, maxMessageBytes - bytes.length) : int(rng, 500)
      return Buffer.concat([
        before,
        one(rng, hostile),
        Buffer.alloc(Math.max(0, length), one(rng, [0, 1, 2, 12])),
        after,
      ])
    }
    case 6:
      return Buffer.concat([before, endless.subarray(0, int(rng, 200)), after])
    default: {
      const from = 10 + int(rng, Math.max(1, bytes.length - 10))
      return Buffer.concat([before, bytes.subarray(from, from + int(rng, 40)), after])
    }
  }
}

function input(rng: Rng): Buffer {
  const index = int(rng, writers.length)
  const prefix = singleObjectPrefix(fingerprintOf(types[index]!))
  let bytes: Buffer = Buffer.concat([prefix, bytesOf(writers[index], rng, names[index]!)])
  for (let mutations = int(rng, 4); mutations > 0; mutations--) bytes = mutate(bytes, rng)
  return bytes
}

function checkDecoding(bytes: Buffer, headers: Readonly<Record<string, string>>): void {
  let message: { readonly type: PayloadName }
  try {
    message = codec.decode(bytes, headers)
  } catch (error) {
    if (error instanceof GraphmillError && codes.has(error.code)) return
    throw error
  }
  if (!readers.get(message.type)!.isValid(message))
    throw new Error('what was decoded does not fit its schema')
}

const heldBytes = () => {
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

export const target: FuzzTarget = {
  name: 'avro-decoder',
  once(rng) {
    const bytes = input(rng)
    const headers: Record<string, string> = rng() < 0.05 ? { 'content-crc32': String(crc32(bytes)) } : {}
    const [held, started] = [heldBytes(), process.cpuUsage()]
    checkDecoding(bytes, headers)
    const { user, system } = process.cpuUsage(started)
    const [ms, more] = [(user + system) / 1000, heldBytes() - held]
    const took = `${Math.round(ms)} ms, ${Math.round(more / 2 ** 20)} MiB: ${bytes.length} bytes, ${bytes.toString('hex', 0, 120)}…`
    if (ms > limits.ms || more > limits.bytes) throw new Error(`decoding took ${took}`)
    if (ms > limits.reportedMs || more > limits.reportedBytes) console.warn(`avro-decoder: ${took}`)
  },
}
