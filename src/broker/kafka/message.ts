// From a record of kafkajs to a message of the contract: text for key and headers, a copy of the value's bytes.
import type { IHeaders, KafkaMessage } from 'kafkajs'
import type { ReadMessage } from '../broker.ts'

/** Foreign producers may omit key, value and header values, and repeat a header: then the last one counts. */
export function readMessage(topic: string, partition: number, message: KafkaMessage): ReadMessage {
  return {
    topic,
    partition,
    position: message.offset,
    key: message.key?.toString() ?? '',
    // A copy: kafkajs hands out slices, and one held message would keep a whole response of megabytes. Small copies share
    // a block of Node's pool, which costs a fifth of an array of their own.
    value: message.value === null ? new Uint8Array() : Buffer.from(message.value),
    headers: textHeaders(message.headers),
    timestamp: Number(message.timestamp),
  }
}

/** Headers as record.ts reads them, or as kafkajs does: bytes, and all values of a repeated one. */
export function textHeaders(headers: IHeaders = {}): Record<string, string> {
  for (const name in headers) if (typeof headers[name] !== 'string') return asText(headers)
  return headers as Record<string, string>
}

function asText(headers: IHeaders): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const name in headers) {
    const values = headers[name]
    const value = Array.isArray(values) ? values.at(-1) : values
    const text = value?.toString() ?? ''
    // An assignment to __proto__ would lose it, and the dead letter with it.
    if (name === '__proto__') Object.defineProperty(texts, name, { ...plain, value: text })
    else texts[name] = text
  }
  return texts
}

const plain = { configurable: true, enumerable: true, writable: true }
