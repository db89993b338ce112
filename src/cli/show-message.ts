// A message for people: the fields of its envelope and its payload, or, if it can't be decoded, what is known about its bytes.
import type { ReadMessage } from '../broker/broker.ts'
import { isDeadTopic } from '../broker/topics.ts'
import { toGraphmillError } from '../errors.ts'
import type { SchemasTopic } from '../flow/schemas-topic.ts'

/** The number of bytes of an undecodable message that are shown. */
const shownBytes = 200

/** Dead letters include their headers, because the `dead-*` headers say why. */
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
    const undecodable = { code, message, size: value.length, bytes }
    return { undecodable, topic, partition, position, key, headers }
  }
}
