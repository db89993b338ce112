// A message as a person sees it: the envelope's fields and the payload, or what is known of bytes that can't be read.
import type { ReadMessage } from '../broker/broker.ts'
import { isDeadTopic } from '../broker/topics.ts'
import { toGraphmillError } from '../errors.ts'
import type { SchemasTopic } from '../flow/schemas-topic.ts'

/** Bytes of an undecodable message that are shown. */
const shownBytes = 200

/** With the headers for dead letters, whose `dead-*` headers say why. */
export async function show(
  entry: ReadMessage,
  {
    topic,
    schemas,
    signal,
  }: { readonly topic: string; readonly schemas: SchemasTopic; readonly signal: AbortSignal },
): Promise<object> {
  const { headers, value, partition, position, key } = entry
  try {
    const message = await schemas.decode(entry, signal)
    return isDeadTopic(topic) ? { ...message, headers } : { ...message }
  } catch (thrown) {
    signal.throwIfAborted()
    const { code, message } = toGraphmillError(thrown)
    const bytes = Buffer.from(value.subarray(0, shownBytes)).toString('base64')
    return {
      undecodable: { code, message, size: value.length, bytes },
      topic,
      partition,
      position,
      key,
      headers,
    }
  }
}
