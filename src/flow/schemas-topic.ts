// The compacted topic <space>.notify.schemas: each writer publishes there what it writes before its first message, so that
// old readers survive a rolling upgrade.
import type { Broker, ReadMessage } from '../broker/broker.ts'
import { schemasTopic, topicSpec } from '../broker/topics.ts'
import { GraphmillError } from '../errors.ts'
import type { Codec } from '../messages/codec.ts'
import type { Message } from '../messages/envelope.ts'
import type { SchemaRegistry } from '../messages/schema-registry.ts'
import type { ComposedSchema, WirePrefix } from '../messages/wire.ts'

export interface SchemasTopic {
  /** Publishes the schemas that this build writes and that the topic does not hold yet. */
  announce(signal: AbortSignal): Promise<void>
  /** Decodes a message; when its schema is unknown, looks for it in the topic first. Throws as `Codec.decode` does. */
  decode(entry: Encoded, signal: AbortSignal): Promise<Message>
}

type Encoded = Pick<ReadMessage, 'value' | 'headers'>

/** With a registry what is written is registered there, and written in Confluent's format; the topic holds it all the same. */
export function createSchemasTopic(
  broker: Broker,
  codec: Codec,
  space: string,
  registry?: SchemaRegistry,
): SchemasTopic {
  const topic = schemasTopic(space)
  const known = new Set<string>()
  // A stream of unknown messages must not scan the topic once for each.
  let scanned = 0
  let scanning: Promise<void> | undefined

  async function scan(signal: AbortSignal): Promise<void> {
    for await (const entry of broker.read({ topic, from: 'earliest', until: 'end' }, signal)) {
      if (known.has(entry.key)) continue
      known.add(entry.key)
      try {
        codec.learn(JSON.parse(Buffer.from(entry.value).toString('utf8')) as ComposedSchema)
      } catch {
        // A schema that this build can't read leaves its messages unknown: they are dead-lettered with that reason.
      }
    }
    scanned = Date.now()
  }

  /** Looks for the schema that `error` misses; throws `error` again when nobody has published it. */
  async function learn(error: GraphmillError, signal: AbortSignal): Promise<void> {
    const prefix = error.details['prefix'] as WirePrefix
    if (prefix.format === 'confluent') {
      const schema = await registry?.find(prefix.id, signal)
      if (!schema) throw error
      return codec.learn(schema, prefix.id)
    }
    if (!known.has(prefix.fingerprint) && (scanning || Date.now() - scanned > rescanMs)) {
      scanning ??= scan(signal).finally(() => {
        scanning = undefined
      })
      await scanning
    }
    if (!known.has(prefix.fingerprint)) throw error
  }

  return {
    async announce(signal) {
      for (const { type, schema } of registry ? codec.written : [])
        codec.writeWithRegistry(type, await registry!.register(schema, signal))
      await broker.ensureTopics([topicSpec(topic)])
      await scan(signal)
      await Promise.all(
        codec.written
          .filter(({ fingerprint }) => !known.has(fingerprint))
          .map(({ fingerprint, schema }) =>
            broker.publish({
              topic,
              key: fingerprint,
              value: Buffer.from(JSON.stringify(schema)),
              headers: {},
            }),
          ),
      )
    },
    async decode({ value, headers }, signal) {
      try {
        return codec.decode(value, headers)
      } catch (error) {
        if (!(error instanceof GraphmillError) || error.code !== 'schema_unknown') throw error
        await learn(error, signal)
        return codec.decode(value, headers)
      }
    },
  }
}

/** The topic is scanned at most this often for fingerprints that nobody has published, in milliseconds. */
const rescanMs = 1000
