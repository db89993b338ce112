// A message of the native client, as the window takes it.
import type { Endpoint } from '../endpoint.ts'
import type { ReceivedMessage } from '../message.ts'
import { decodeMessageId, positionOf } from '../message-id.ts'
import type { NativeMessage, NativeMessageId } from './native-module.ts'

/** `topic` is the name without the partition. */
export function receivedNative(
  endpoint: Endpoint,
  topic: string,
  message: NativeMessage,
  nativeId: NativeMessageId,
): ReceivedMessage {
  const id = decodeMessageId(nativeId.serialize().toString('base64'))
  const partition = Math.max(0, id.partition)
  const position = positionOf(id)
  return {
    id,
    ackId: `${partition} ${position}`,
    message: {
      topic,
      partition,
      position,
      key: message.getPartitionKey(),
      value: message.getData(),
      headers: headersOf(endpoint, topic, message),
      timestamp: message.getPublishTimestamp(),
    },
  }
}

function headersOf(endpoint: Endpoint, topic: string, message: NativeMessage): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(message.getProperties()))
  } catch (err) {
    endpoint.log.warn({ topic, err }, 'the properties of a message could not be read: it is used without any')
    return {}
  }
}
