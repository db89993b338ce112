// Pulsar's WebSocket API as a transport: the paths of its endpoints, and its frames. Consumers pull.
import type { OutgoingBytes } from '../broker.ts'
import { topicPath } from './admin.ts'
import type { Endpoint } from './endpoint.ts'
import { received, type SocketMessage } from './message.ts'
import { encodeMessageId } from './message-id.ts'
import { openSocket } from './socket.ts'
import type { Channel, ConsumerRequest, PublishAnswer, PulsarTransport, ReaderRequest } from './transport.ts'

/** The server takes no larger queue. */
const maxReceiverQueue = 1_000

export function webSocketTransport(endpoint: Endpoint): PulsarTransport {
  return {
    async openConsumer(request) {
      const { topic } = request.subscription
      const socket = await openSocket(endpoint, {
        path: consumerPath(endpoint, request),
        signal: request.signal,
        onMessage: (frame) => request.onMessage(received(topic, frame as SocketMessage)),
      })
      return {
        ...socket,
        readAhead: 0, // the server holds them
        grant: (permitMessages) => socket.send(JSON.stringify({ type: 'permit', permitMessages })),
        ack: (messageId) => socket.send(JSON.stringify({ messageId })),
      }
    },

    async openProducer({ topic, signal, onAnswer }) {
      const path = `/producer${topicPath(endpoint, topic)}`
      const onMessage = (answer: unknown): void => onAnswer(answer as PublishAnswer)
      const socket = await openSocket(endpoint, { path, signal, onMessage })
      return { ...socket, send: (message, context) => socket.send(frameOf(message, context)) }
    },

    openReading: () => ({ open: (request) => openReader(endpoint, request), async close() {} }),

    async close() {},
  }
}

function openReader(
  endpoint: Endpoint,
  { topic, name, after, receiverQueueSize, signal, onMessage }: ReaderRequest,
): Promise<Channel> {
  const messageId = after === undefined ? 'earliest' : after === 'latest' ? after : encodeMessageId(after)
  const query = new URLSearchParams({ messageId, receiverQueueSize: String(receiverQueueSize) })
  return openSocket(endpoint, {
    path: `/reader${topicPath(endpoint, name)}?${query}`,
    signal,
    onMessage: (frame, socket) => {
      const one = received(topic, frame as SocketMessage)
      onMessage(one, socket, () => socket.send(JSON.stringify({ messageId: one.ackId })))
    },
  })
}

function consumerPath(endpoint: Endpoint, { subscription, name, partitions }: ConsumerRequest): string {
  const { topic, group, maxInFlight, ordering, from } = subscription
  // What the server takes from every partition for us, beyond what we asked for.
  const queue = Math.ceil(maxInFlight / Math.max(1, partitions))
  const query = new URLSearchParams({
    subscriptionType: ordering === 'none' ? 'Shared' : 'Key_Shared',
    subscriptionInitialPosition: from === 'latest' ? 'Latest' : 'Earliest',
    consumerName: name,
    pullMode: 'true',
    receiverQueueSize: String(Math.min(queue, maxReceiverQueue)),
  })
  return `/consumer${topicPath(endpoint, topic)}/${encodeURIComponent(group)}?${query}`
}

/** Base64 needs no escapes, so the payload, which is nearly all of the frame, is not scanned for any. */
function frameOf({ key, value, headers }: OutgoingBytes, context: string): string {
  const payload = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
  return `{"payload":"${payload}","key":${JSON.stringify(key)},"properties":${JSON.stringify(headers)},"context":"${context}"}`
}
