// The compacted topic <space>.notify.schemas: each writer publishes its schemas there before its first message, so that older readers
// can read its messages during a rolling upgrade.
import type { Broker, ReadMessage } from '../broker/broker.ts'
import { schemasTopic, topicSpec } from '../broker/topics.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import type { Codec, Receipt } from '../messages/codec.ts'
import type { Message } from '../messages/envelope.ts'
import type { PayloadName } from '../messages/registry.ts'
import type { SchemaRegistry } from '../messages/schema-registry.ts'
import type { WirePrefix } from '../messages/wire.ts'
import { shareRuns, unlessAborted, wait } from '../wait.ts'

export interface SchemasTopic {
  /** Publishes the schemas that this build writes and the topic does not hold yet. */
  announce(signal: AbortSignal): Promise<void>
  /**
   * Decodes a message; when its schema is unknown, looks for it in the topic first, which may take a second.
   * Throws as `Codec.decode` does.
   */
  decode(entry: Encoded, signal: AbortSignal): Promise<Message>
}

type Encoded = Pick<ReadMessage, 'value' | 'headers'> & Partial<Receipt>

/** With a registry, schemas are also registered there, and messages are written in Confluent's format. */
export function createSchemasTopic(
  broker: Broker,
  codec: Codec,
  space: string,
  registry?: SchemaRegistry,
): SchemasTopic {
  const topic = schemasTopic(space)
  /** Fingerprints of the schemas in the topic that this build can read. */
  const learned = new Set<string>()
  /** When the last scan ended, by `performance.now()`. */
  let scanned = Number.NEGATIVE_INFINITY
  /** Fingerprints of messages whose schema a scan did not find: it was not announced in time. */
  const missed = new Set<string>()

  /**
   * Scans the topic after the call, since the writer of a message announced its schema before. There is at most one scan in
   * `rescanMs`: a stream of unknown messages must not scan once for each.
   */
  const scanAgain = shareRuns(scan, () => wait(Math.max(0, scanned + rescanMs - performance.now())))

  // Not under a caller's signal: an aborted read ends like one that has reached the end, for all callers.
  async function scan(): Promise<void> {
    const { signal } = new AbortController()
    for await (const { key, value } of broker.read({ topic, from: 'earliest', until: 'end' }, signal)) {
      if (learned.has(key)) continue
      try {
        // By its content: the key may name another schema.
        learned.add(codec.learn(JSON.parse(Buffer.from(value).toString('utf8'))))
      } catch {
        // The messages of a schema that this build can't read are dead-lettered with that reason.
      }
    }
    scanned = performance.now()
  }

  /** Looks for the schema that is missing by `error`. */
  async function learn(error: GraphmillError, signal: AbortSignal): Promise<void> {
    const prefix = error.details['prefix'] as WirePrefix
    if (prefix.format === 'confluent') {
      const schema = await registry?.find(prefix.id, signal)
      if (schema) codec.learn(schema, prefix.id)
      return
    }
    const { fingerprint } = prefix
    if (missed.has(fingerprint) && performance.now() - scanned < rescanMs) return
    await unlessAborted(scanAgain(), signal)
    if (missed.size >= maxMissed) missed.clear()
    if (learned.has(fingerprint)) missed.delete(fingerprint)
    else missed.add(fingerprint)
  }

  return {
    async announce(signal) {
      for (const { type, schema } of registry ? codec.written : [])
        codec.writeWithRegistry(type, await registry!.register(schema, signal))
      await broker.ensureTopics([topicSpec(topic)])
      await unlessAborted(scanAgain(), signal)
      await Promise.all(
        codec.written
          .filter(({ fingerprint }) => !learned.has(fingerprint))
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
    async decode(entry, signal) {
      const { value, headers } = entry
      try {
        return codec.decode(value, headers, entry)
      } catch (error) {
        if (!(error instanceof GraphmillError) || error.code !== 'schema_unknown') throw error
        await learn(error, signal)
        return codec.decode(value, headers, entry)
      }
    },
  }
}

/** Called for an entry that can't be decoded or has another type; it is skipped. */
export type OnUnreadable = (entry: ReadMessage, error: GraphmillError) => void

/** Decodes an entry of a topic that is only read. Resolves to undefined for a foreign or deleted entry, which must not end the read. */
export async function decodeEntry<N extends PayloadName>(
  entry: ReadMessage,
  type: N,
  {
    schemas,
    signal,
    onUnreadable,
  }: { readonly schemas: SchemasTopic; readonly signal: AbortSignal; readonly onUnreadable: OnUnreadable },
): Promise<Message<N> | undefined> {
  try {
    const message = await schemas.decode(entry, signal)
    if (message.type !== type)
      throw new GraphmillError('message_invalid', `It is a ${message.type}, not a ${type}.`)
    return message as Message<N>
  } catch (thrown) {
    const error = toGraphmillError(thrown)
    if (error.retry !== 'never') throw error
    onUnreadable(entry, error)
    return undefined
  }
}

/** The most fingerprints of foreign messages that are remembered. */
const maxMissed = 1000

/** The shortest time between two scans, in milliseconds. */
const rescanMs = 1000
