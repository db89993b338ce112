// Dead letters: the original key, bytes and headers, with `dead-*` headers added. Every delivery can be dead-lettered and replayed.
// When the dead-letter topic does not take a letter, only the beginning of its message is kept.
import { type Delivery, maxDeadLetterExtraBytes, type OutgoingBytes } from '../../broker/broker.ts'
import { deadTopic } from '../../broker/topics.ts'
import type { GraphmillError } from '../../errors.ts'

// Headers are bounded so that a letter is never larger than its topic allows.
const longest = maxDeadLetterExtraBytes / 16
/** How many bytes are kept of the value, and of the headers, of a message whose letter would be too large. */
const keptBytes = 16 * 1024
const cut = (text: string) => (text.length > longest ? `${text.slice(0, longest)}…` : text)

/** On a replayed message: the id of the replay's entry on `progress`. */
export const replayedHeader = 'replayed'
/** On a letter that holds only the beginning of its message: the message's length in bytes. */
export const cutHeader = 'dead-cut'

/** The letter for a delivery that `processor` gave up at `time` (milliseconds since 1970). */
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
      // Without the sender's own `dead-*` headers, which would be read as ours.
      ...originalHeaders(delivery.headers),
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

/** A letter for a topic that does not take the whole one: the `dead-*` headers, the other headers that fit, the first bytes. */
export function beginningOf(letter: OutgoingBytes): OutgoingBytes {
  const { topic, key, value, headers } = letter
  let room = keptBytes
  const kept = Object.entries(headers).filter(([name, text]) => {
    const size = name.startsWith('dead-') ? 0 : name.length + Buffer.byteLength(text)
    if (size > room) return false
    room -= size
    return true
  })
  return {
    topic,
    key: cut(key),
    value: value.subarray(0, keptBytes),
    headers: { ...Object.fromEntries(kept), [cutHeader]: String(value.byteLength) },
  }
}

/**
 * The cause of a death on `progress`, from the headers of the message or its letter: the message's id, or the id of the replay that
 * brought it back, so that a replay cancels one death and no later one.
 */
export function deathOf(headers: Readonly<Record<string, string>>): string {
  return headers[replayedHeader] ?? headers['id'] ?? originOf(headers)
}

/** The position of a letter's message, for messages without an id. */
export function originOf(headers: Readonly<Record<string, string>>): string {
  return `${headers['dead-topic']}:${headers['dead-position']}`
}

/** The headers of the message as they were before it died. */
export function originalHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith('dead-')))
}
