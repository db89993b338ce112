// From the messages of Pulsar's consumer and reader sockets to those of the contract.
import type { ReadMessage } from '../broker.ts'
import { decodeMessageId, type MessageId, positionOf } from './message-id.ts'

/** One frame of the server. Foreign messages may have no key and no properties. */
export interface SocketMessage {
  readonly messageId: string
  /** Base64. */
  readonly payload: string
  readonly key?: string
  readonly properties?: Readonly<Record<string, string>>
  /** ISO 8601. */
  readonly publishTime: string
}

export interface ReceivedMessage {
  readonly id: MessageId
  /** What acknowledges the message on the channel that brought it. */
  readonly ackId: string
  readonly message: ReadMessage
}

/** `topic` is the name without the partition. */
export function received(topic: string, frame: SocketMessage): ReceivedMessage {
  const id = decodeMessageId(frame.messageId)
  const message = {
    topic,
    partition: Math.max(0, id.partition),
    position: positionOf(id),
    key: frame.key ?? '',
    value: Buffer.from(frame.payload, 'base64'),
    headers: frame.properties ?? {},
    timestamp: Date.parse(frame.publishTime),
  }
  return { id, ackId: frame.messageId, message }
}
