// Dead letters: the original key, bytes and headers, with `dead-*` headers added. Whatever could be delivered can be
// dead-lettered, and replayed.
import { type Delivery, maxDeadLetterExtraBytes, type OutgoingBytes } from '../broker/broker.ts'
import { deadTopic } from '../broker/topics.ts'
import type { GraphmillError } from '../errors.ts'

// Headers are bounded so that a letter is never larger than its topic allows.
const longest = maxDeadLetterExtraBytes / 16
const cut = (text: string) => (text.length > longest ? `${text.slice(0, longest)}…` : text)

/** The letter for a delivery that `processor` has given up at `time` (milliseconds since 1970). */
export function deadLetter(
  delivery: Delivery,
  error: GraphmillError,
  by: { readonly processor: string; readonly time: number },
): OutgoingBytes {
  const cause =
    error.cause instanceof Error ? error.cause.message : error.cause === undefined ? '' : String(error.cause)
  return {
    topic: deadTopic(delivery.topic),
    key: delivery.key,
    value: delivery.value,
    headers: {
      ...delivery.headers,
      'dead-code': error.code,
      'dead-message': cut(error.message),
      ...(cause && { 'dead-cause': cut(cause) }),
      'dead-attempts': String(delivery.attempt),
      'dead-processor': by.processor,
      'dead-topic': delivery.topic,
      'dead-position': `${delivery.partition}:${delivery.position}`,
      'dead-time': new Date(by.time).toISOString(),
    },
  }
}

/** The headers of the message as they were before it died. */
export function originalHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith('dead-')))
}
