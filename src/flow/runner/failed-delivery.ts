// A delivery that failed, and what can be told of it, readable or not.
import type { Delivery } from '../../broker/broker.ts'
import type { GraphmillError } from '../../errors.ts'
import type { Header, Message } from '../../messages/envelope.ts'
import type { ConsumerBinding } from './consumer-binding.ts'

export interface FailedDelivery {
  readonly binding: ConsumerBinding
  readonly delivery: Delivery
  /** Undefined where it can't be read. */
  readonly message: Message | undefined
  readonly error: GraphmillError
}

/** Where the delivery lies. */
export const placeOf = ({ topic, partition, position }: Delivery) => `${topic}:${partition}:${position}`

/** What the last entries about a delivery inherit from: its envelope, or as much as its headers tell. */
export function causeOf({ binding, delivery, message }: FailedDelivery): Header {
  if (message && message.workspace === binding.scope.workspace && message.flow === binding.scope.flow)
    return message
  const { id, source, documentId, chunkId, correlationId, traceparent } = delivery.headers
  return {
    id: id ?? placeOf(delivery),
    source: source ?? '',
    time: delivery.timestamp,
    ...binding.scope,
    collection: message?.collection ?? '',
    documentId: documentId ?? '',
    chunkId: chunkId ?? '',
    correlationId: correlationId ?? '',
    causationId: '',
    replyTo: null,
    deadline: null,
    traceparent: traceparent ?? null,
  }
}
