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

function textHeaders(headers: IHeaders = {}): Record<string, string> {
  const texts = Object.entries(headers).map(([name, values]) => {
    const value = Array.isArray(values) ? values.at(-1) : values
    return [name, value?.toString() ?? '']
  })
  // Unlike an assignment, this keeps a header that is called __proto__.
  return Object.fromEntries(texts)
}
