// A delivery that failed, and what is known of its message, decoded or not.
import type { Delivery } from '../../broker/broker.ts'
import type { GraphmillError } from '../../errors.ts'
import { emptyHeader, type Header, type Message } from '../../messages/envelope.ts'
import type { ConsumerBinding } from './consumer-binding.ts'

export interface FailedDelivery {
  readonly binding: ConsumerBinding
  readonly delivery: Delivery
  /** Undefined when it can't be decoded. */
  readonly message: Message | undefined
  readonly error: GraphmillError
}

/** Where the delivery lies: topic, partition and position. */
export const positionOf = ({ topic, partition, position }: Delivery) => `${topic}:${partition}:${position}`

/** What entries about the delivery inherit from: its envelope, or as much of it as its headers hold. */
export function causeOf({ binding, delivery, message }: FailedDelivery): Header {
  if (message && message.workspace === binding.scope.workspace && message.flow === binding.scope.flow)
    return message
  const { id, source, documentId, chunkId, correlationId, traceparent, versionTime } = delivery.headers
  return {
    ...emptyHeader,
    id: id ?? positionOf(delivery),
    source: source ?? '',
    time: delivery.timestamp,
    ...binding.scope,
    collection: message?.collection ?? '',
    documentId: documentId ?? '',
    chunkId: chunkId ?? '',
    correlationId: correlationId ?? '',
    traceparent: traceparent ?? null,
    versionTime: timeOf(versionTime),
  }
}

/** The time in a header, in milliseconds since 1970; 0 when there is none. */
export function timeOf(header: string | undefined): number {
  return /^[1-9]\d{0,15}$/.test(header ?? '') ? Math.min(Number(header), Number.MAX_SAFE_INTEGER) : 0
}
