// Encodes and decodes messages. Bytes that are truncated, foreign or corrupt give a coded error, never a wrong message: when the
// writer set the header `content-crc32`, it must match.
import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type avro from 'avsc'
import { maxMessageBytes, type OutgoingBytes } from '../broker/broker.ts'
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { avroType } from './avro-types.ts'
import { brokerHeaders, type HeaderInit, type Message, type TypedPayload } from './envelope.ts'
import { type PayloadName, readRecords, type SchemaSet } from './registry.ts'
import {
  type ComposedSchema,
  confluentPrefix,
  fingerprintOf,
  foreignType,
  readPrefix,
  singleObjectPrefix,
  type WirePrefix,
} from './wire.ts'

/** Where a message goes, and how its id is made. */
export interface Sealing {
  readonly topic: string
  /** Default: the message's id. */
  readonly key?: string | undefined
  /** Goes into the digest besides the payload: cause, processor, topic. */
  readonly salt: string
  /**
   * Makes the id of the digest: 32 hexadecimal digits, over the salt and the payload without `seq`, `usage`, and the fields that
   * their schema excludes with `"identity": false`.
   */
  readonly id: (digest: string) => string
  /** A request: its own id is its correlation id. */
  readonly startsCorrelation?: boolean
}

/** Where a message was received, and its timestamp on the broker, in milliseconds since 1970. */
export interface Receipt {
  readonly topic: string
  readonly timestamp: number
}

export interface Codec {
  /** A whole message, ready to publish. Throws `message_invalid`, and `message_too_large` above 700 KiB. */
  encode(header: Omit<HeaderInit, 'id'>, payload: TypedPayload, sealing: Sealing): OutgoingBytes
  /**
   * `receipt` says which format a topic has that does not have ours. Throws `bytes_undecodable`, `message_too_large` above 700 KiB,
   * or `schema_unknown` with `details.prefix`: then `learn` may help.
   */
  decode(bytes: Uint8Array, headers: Readonly<Record<string, string>>, receipt?: Partial<Receipt>): Message
  /**
   * What the answer to a request needs that cannot be decoded: its header, and an empty payload. Undefined for what is no request, and
   * when nobody could be answered.
   */
  answerable?(headers: Readonly<Record<string, string>>, receipt: Partial<Receipt>): Message | undefined
  /**
   * Adds a writer's schema, by its id in a registry or else by the fingerprint of single-object encoding. Returns the fingerprint.
   * A known schema is never replaced. Throws `bytes_undecodable` when it is not the schema of one of our messages.
   */
  learn(schema: unknown, registryId?: number): string
  /** From now on, messages of `type` are written in Confluent's format with this registry id. */
  writeWithRegistry(type: PayloadName, registryId: number): void
  /** What this build writes: for the schemas topic and for a registry. */
  readonly written: readonly {
    readonly type: PayloadName
    readonly fingerprint: string
    readonly schema: ComposedSchema
  }[]
}

const headerRoom = 64 * 1024
/** Writers' schemas that are remembered, at most. */
const maxWriters = 1000

export function createCodec(schemas: SchemaSet): Codec {
  const types = [...schemas.current].map(([name, schema]): CurrentType => {
    const type = avroType(schema)
    return { name, schema, type, fingerprint: fingerprintOf(type) }
  })
  const { find, learn } = createWriters(schemas, types)
  return {
    written: types.map(({ name: type, fingerprint, schema }) => ({ type, fingerprint, schema })),
    ...createEncoder(types),
    decode: (value, headers) => decode(value, headers, find),
    learn,
  }
}

/** The type of a message as this build writes and reads it. */
interface CurrentType {
  readonly name: PayloadName
  readonly schema: ComposedSchema
  readonly type: avro.Type
  readonly fingerprint: string
}

function createEncoder(types: readonly CurrentType[]): Pick<Codec, 'encode' | 'writeWithRegistry'> {
  const headerType = avroType(readRecords().get('Envelope'))
  const payloadTypes = new Map(
    types.map(({ name, type }) => [name, (type as avro.types.RecordType).fields.at(-1)!.type]),
  )
  const identityTypes = new Map(types.map(({ name, schema }) => [name, identityType(schema)]))
  const prefixes = new Map(types.map(({ name, fingerprint }) => [name, singleObjectPrefix(fingerprint)]))
  // The envelope's fields are written at the start; then the salt and the payload.
  const scratch = Buffer.allocUnsafeSlow(headerRoom + maxMessageBytes + headerRoom)

  function encodeInto(type: avro.Type, value: unknown, at: number, what: string): number {
    let end: number
    try {
      end = type.encode(value, scratch, at)
    } catch (cause) {
      const why = `The ${what} does not fit its schema: ${(cause as Error).message}.`
      throw new GraphmillError('message_invalid', why, { cause })
    }
    if (end < 0) throw tooLarge(`The ${what} is larger than a message may be.`)
    return end
  }

  /** Writes the payload at `start`, where the salt ends. Returns its end, and the digest of the salt and what is part of its identity. */
  function writePayload({ type, payload }: TypedPayload, start: number): { end: number; digest: string } {
    const whole = payloadTypes.get(type)!
    const digestTo = (end: number) => hash('sha256', scratch.subarray(headerRoom, end), 'hex').slice(0, 32)
    const identity = identityTypes.get(type) ?? ('seq' in payload || 'usage' in payload ? whole : undefined)
    if (!identity) {
      const end = encodeInto(whole, payload, start, type)
      return { end, digest: digestTo(end) }
    }
    const same = { ...payload, seq: undefined, usage: undefined }
    const digest = digestTo(encodeInto(identity, same, start, type))
    return { end: encodeInto(whole, payload, start, type), digest }
  }

  return {
    encode(partial, typed, sealing) {
      const { type } = typed
      const start = headerRoom + scratch.write(sealing.salt, headerRoom)
      const { end, digest } = writePayload(typed, start)
      const id = sealing.id(digest)
      const header: HeaderInit = { id, ...partial, ...(sealing.startsCorrelation && { correlationId: id }) }
      const headerEnd = encodeInto(headerType, { type, ...header }, 0, 'envelope')
      if (headerEnd > headerRoom) throw tooLarge('The envelope is larger than 64 KiB.')
      const prefix = prefixes.get(type)!
      const size = prefix.length + headerEnd + end - start
      if (size > maxMessageBytes) throw tooLarge(`A ${type} of ${size} bytes is over ${maxMessageBytes}.`)
      const value = Buffer.allocUnsafe(size)
      scratch.copy(value, prefix.copy(value), 0, headerEnd)
      scratch.copy(value, prefix.length + headerEnd, start, end)
      const headers = brokerHeaders(header, type)
      headers['content-crc32'] = String(crc32(value))
      return { topic: sealing.topic, key: sealing.key ?? header.id, value, headers }
    },
    writeWithRegistry(type, registryId) {
      prefixes.set(type, confluentPrefix(registryId))
    },
  }
}

/** The type of a payload without the fields that are not part of an id; undefined when it has none of them. */
function identityType(schema: ComposedSchema): avro.Type | undefined {
  let isWhole = true
  const strip = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(strip)
    if (!isObject(part)) return part
    const entries = Object.entries(part).map(([key, value]): [string, unknown] => {
      if (key !== 'fields') return [key, key === 'type' || key === 'items' ? strip(value) : value]
      const fields = (value as readonly Readonly<Record<string, unknown>>[]).filter(
        (field) => field['identity'] !== false,
      )
      isWhole &&= fields.length === (value as readonly unknown[]).length
      return [key, fields.map(strip)]
    })
    return Object.fromEntries(entries)
  }
  const payload = strip(schema.fields.at(-1)!.type)
  return isWhole ? undefined : avroType(payload)
}

/** How the messages of a writer are read. */
interface Writer {
  readonly name: PayloadName
  readonly reader: avro.Type
  /** Undefined when the writer's schema is ours. */
  readonly resolver: avro.Resolver | undefined
}

/** The writers that were met. They are resolved when they are first needed: most of the archive never is. */
function createWriters(schemas: SchemaSet, types: readonly CurrentType[]) {
  const readers = new Map(types.map((current) => [current.name, current]))
  const writers = new Map<string, Writer>()

  function writerOf(type: avro.Type): Writer {
    const name = (type.name ?? '').replace(/^graphmill\.(.*)Envelope$/, '$1') as PayloadName
    const current = readers.get(name)
    if (!current) throw undecodable(`No message of this build is called ${type.name}.`)
    const { type: reader, fingerprint } = current
    try {
      const isOurs = fingerprintOf(type) === fingerprint
      return { name, reader, resolver: isOurs ? undefined : reader.createResolver(type) }
    } catch (cause) {
      throw undecodable(`The writer's ${type.name} can't be read as ours.`, cause)
    }
  }

  return {
    find(prefix: WirePrefix): Writer {
      const key = prefix.format === 'confluent' ? `id ${prefix.id}` : prefix.fingerprint
      const known = writers.get(key)
      if (known) return known
      const schema =
        prefix.format === 'single-object' ? schemas.byFingerprint.get(prefix.fingerprint) : undefined
      if (!schema)
        throw new GraphmillError('schema_unknown', `No schema is known for ${prefix.format} ${key}.`, {
          details: { prefix },
        })
      const writer = writerOf(avroType(schema))
      writers.set(key, writer)
      return writer
    },
    learn(schema: unknown, registryId?: number): string {
      let type: avro.Type
      try {
        type = foreignType(schema)
      } catch (cause) {
        throw undecodable("The writer's schema can't be read.", cause)
      }
      const fingerprint = fingerprintOf(type)
      const key = registryId === undefined ? fingerprint : `id ${registryId}`
      // A fingerprint of 64 bits is easily forged: another schema with one of ours must not take its place.
      if (writers.has(key) || schemas.byFingerprint.has(key)) return fingerprint
      if (writers.size >= maxWriters) throw undecodable(`More than ${maxWriters} schemas of writers.`)
      writers.set(key, writerOf(type))
      return fingerprint
    },
  }
}

function decode(
  value: Uint8Array,
  headers: Readonly<Record<string, string>>,
  findWriter: (prefix: WirePrefix) => Writer,
): Message {
  if (value.byteLength > maxMessageBytes)
    throw tooLarge(`A message of ${value.byteLength} bytes is over ${maxMessageBytes}.`)
  const bytes = Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  const prefix = readPrefix(bytes)
  if (!prefix) throw undecodable('The bytes do not begin as an Avro message does.')
  const crc = headers['content-crc32']
  if (crc !== undefined && Number(crc) !== crc32(bytes))
    throw undecodable('The bytes are not those that were written: their CRC-32 differs.')
  const { name, reader, resolver } = findWriter(prefix)
  let decoded: { value: unknown; offset: number }
  try {
    decoded = reader.decode(bytes, prefix.bodyStart, resolver)
  } catch (cause) {
    throw undecodable(`The bytes are no ${name}: ${(cause as Error).message}.`, cause)
  }
  if (decoded.offset !== bytes.length)
    throw undecodable(`The bytes are ${decoded.offset < 0 ? 'cut off' : 'longer than their message'}.`)
  const message = decoded.value as Message
  if (message.type !== name) throw undecodable(`The envelope says ${message.type}, its schema ${name}.`)
  return message
}

const undecodable = (message: string, cause?: unknown) =>
  new GraphmillError('bytes_undecodable', message, { cause })
const tooLarge = (message: string) => new GraphmillError('message_too_large', message)
