// Messages to bytes and back. Bytes that are truncated, foreign or corrupt give a coded error, never a wrong message:
// the header `content-crc32`, where the writer set it, must fit.
import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type avro from 'avsc'
import { maxMessageBytes, type OutgoingBytes } from '../broker/broker.ts'
import { GraphmillError } from '../errors.ts'
import { brokerHeaders, type Header, type Message, type TypedPayload } from './envelope.ts'
import { type PayloadName, readRecords, type SchemaSet } from './registry.ts'
import {
  avroType,
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
  /** What the digest is taken over, besides the payload: cause, processor, topic. */
  readonly salt: string
  /** From the digest (32 hexadecimal digits, over salt and payload without `seq` and `usage`) to the id. */
  readonly id: (digest: string) => string
  /** A request: its own id is its correlation id. */
  readonly startsCorrelation?: boolean
}

export interface Codec {
  /** A whole message, ready to publish. Throws `message_invalid`, and `message_too_large` above 700 KiB. */
  encode(header: Omit<Header, 'id'>, payload: TypedPayload, sealing: Sealing): OutgoingBytes
  /**
   * Throws `bytes_undecodable`, `message_too_large` above 700 KiB, or `schema_unknown` with `details.prefix` when `learn` may
   * help.
   */
  decode(bytes: Uint8Array, headers: Readonly<Record<string, string>>): Message
  /**
   * Makes a writer's schema known: by the fingerprint of single-object encoding, which it returns, or by its id in a registry.
   * What is known already stays as it is. Throws `bytes_undecodable` for what is no schema of a message of ours.
   */
  learn(schema: unknown, registryId?: number): string
  /** Messages of `type` are from now on written in Confluent's format under this id of the registry. */
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

interface Writer {
  readonly name: PayloadName
  readonly reader: avro.Type
  readonly resolver: avro.Resolver | undefined
}

export function createCodec(schemas: SchemaSet): Codec {
  const headerType = avroType(readRecords().get('Envelope'))
  const readers = new Map<PayloadName, avro.Type>()
  const payloadTypes = new Map<PayloadName, avro.Type>()
  const prefixes = new Map<PayloadName, Buffer>()
  const writers = new Map<string, Writer>()
  const written: Codec['written'][number][] = []
  for (const [name, schema] of schemas.current) {
    const reader = avroType(schema)
    readers.set(name, reader)
    payloadTypes.set(name, (reader as avro.types.RecordType).fields.at(-1)!.type)
    const fingerprint = fingerprintOf(reader)
    prefixes.set(name, singleObjectPrefix(fingerprint))
    written.push({ type: name, fingerprint, schema })
  }
  // The envelope's fields are written at its start; behind them salt and payload, perhaps twice.
  const scratch = Buffer.allocUnsafeSlow(headerRoom + 2 * (maxMessageBytes + headerRoom))

  function writerOf(type: avro.Type): Writer {
    const name = (type.name ?? '').replace(/^graphmill\.(.*)Envelope$/, '$1') as PayloadName
    const reader = readers.get(name)
    if (!reader)
      throw new GraphmillError('bytes_undecodable', `No message of this build is called ${type.name}.`)
    try {
      return {
        name,
        reader,
        resolver: fingerprintOf(type) === fingerprintOf(reader) ? undefined : reader.createResolver(type),
      }
    } catch (cause) {
      throw new GraphmillError('bytes_undecodable', `The writer's ${type.name} can't be read as ours.`, {
        cause,
      })
    }
  }

  // Writers are resolved when they are first met: most of the archive never is.
  function findWriter(prefix: WirePrefix): Writer {
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
  }

  function encodeInto(type: avro.Type, value: unknown, at: number, what: string): number {
    let end: number
    try {
      end = type.encode(value, scratch, at)
    } catch (cause) {
      throw new GraphmillError(
        'message_invalid',
        `The ${what} does not fit its schema: ${(cause as Error).message}.`,
        { cause },
      )
    }
    if (end < 0) throw new GraphmillError('message_too_large', `The ${what} is larger than a message may be.`)
    return end
  }

  return {
    written,
    encode(partial, typed, sealing) {
      const type = payloadTypes.get(typed.type)!
      const start = headerRoom + scratch.write(sealing.salt, headerRoom)
      const end = encodeInto(type, typed.payload, start, typed.type)
      let digest: string
      if ('seq' in typed.payload || 'usage' in typed.payload) {
        const same = { ...typed.payload, seq: undefined, usage: undefined }
        const sameEnd = encodeInto(type, same, end, typed.type)
        digest = hash(
          'sha256',
          Buffer.concat([scratch.subarray(headerRoom, start), scratch.subarray(end, sameEnd)]),
          'hex',
        )
      } else digest = hash('sha256', scratch.subarray(headerRoom, end), 'hex')
      const id = sealing.id(digest.slice(0, 32))
      const header: Header = { id, ...partial, ...(sealing.startsCorrelation && { correlationId: id }) }
      const headerEnd = encodeInto(headerType, { type: typed.type, ...header }, 0, 'envelope')
      if (headerEnd > headerRoom)
        throw new GraphmillError('message_too_large', 'The envelope is larger than 64 KiB.')
      const prefix = prefixes.get(typed.type)!
      const size = prefix.length + headerEnd + end - start
      if (size > maxMessageBytes)
        throw new GraphmillError(
          'message_too_large',
          `A ${typed.type} of ${size} bytes is over ${maxMessageBytes}.`,
        )
      const value = Buffer.allocUnsafe(size)
      scratch.copy(value, prefix.copy(value), 0, headerEnd)
      scratch.copy(value, prefix.length + headerEnd, start, end)
      const headers = brokerHeaders(header, typed.type)
      headers['content-crc32'] = String(crc32(value))
      return { topic: sealing.topic, key: sealing.key ?? header.id, value, headers }
    },
    decode(value, headers) {
      if (value.byteLength > maxMessageBytes)
        throw new GraphmillError(
          'message_too_large',
          `A message of ${value.byteLength} bytes is over ${maxMessageBytes}.`,
        )
      const bytes = Buffer.isBuffer(value)
        ? value
        : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      const prefix = readPrefix(bytes)
      if (!prefix)
        throw new GraphmillError('bytes_undecodable', 'The bytes do not begin as an Avro message does.')
      const crc = headers['content-crc32']
      if (crc !== undefined && Number(crc) !== crc32(bytes))
        throw new GraphmillError(
          'bytes_undecodable',
          'The bytes are not those that were written: their CRC-32 differs.',
        )
      const { name, reader, resolver } = findWriter(prefix)
      let decoded: { value: unknown; offset: number }
      try {
        decoded = reader.decode(bytes, prefix.bodyStart, resolver)
      } catch (cause) {
        throw new GraphmillError(
          'bytes_undecodable',
          `The bytes are no ${name}: ${(cause as Error).message}.`,
          { cause },
        )
      }
      if (decoded.offset !== bytes.length)
        throw new GraphmillError(
          'bytes_undecodable',
          `The bytes are ${decoded.offset < 0 ? 'cut off' : 'longer than their message'}.`,
        )
      const message = decoded.value as Message
      if (message.type !== name)
        throw new GraphmillError(
          'bytes_undecodable',
          `The envelope says ${message.type}, its schema ${name}.`,
        )
      return message
    },
    learn(schema, registryId) {
      let type: avro.Type
      try {
        type = foreignType(schema)
      } catch (cause) {
        throw new GraphmillError('bytes_undecodable', "The writer's schema can't be read.", { cause })
      }
      const fingerprint = fingerprintOf(type)
      const key = registryId === undefined ? fingerprint : `id ${registryId}`
      // A fingerprint of 64 bits is easily forged: another schema with one of ours must not take its place.
      if (writers.has(key) || schemas.byFingerprint.has(key)) return fingerprint
      if (writers.size >= maxWriters)
        throw new GraphmillError('bytes_undecodable', `More than ${maxWriters} schemas of writers.`)
      writers.set(key, writerOf(type))
      return fingerprint
    },
    writeWithRegistry(type, registryId) {
      prefixes.set(type, confluentPrefix(registryId))
    },
  }
}
