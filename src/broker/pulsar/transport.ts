// What a way to a Pulsar server offers to members, producers and readers: channels, each opened once and never again by itself.
// Over WebSockets: `websocket.ts`; over the binary protocol: `binary/`.
import { jitteredBackoffMs } from '../../backoff.ts'
import type { OutgoingBytes, Subscription } from '../broker.ts'
import type { ReceivedMessage } from './message.ts'
import type { MessageId } from './message-id.ts'

/** The most unanswered messages of one producer channel. */
export const windowMessages = 2_000

export interface ChannelClosing {
  readonly reason: string
  /** The server closed it because of the size of a message. */
  readonly tooLarge?: boolean
}

export interface Channel {
  /** Resolves when either side has closed the channel, or the connection was lost. */
  readonly closed: Promise<ChannelClosing>
  /** Closes in order: the server still handles what was sent before. Resolves when closed. */
  close(): Promise<unknown>
  /** Gives the channel up at once. */
  terminate(): void
}

export interface ConsumerChannel extends Channel {
  /** Allows the server to send so many more messages. */
  readonly grant: (messages: number) => void
  /** How many messages it holds beyond those. */
  readonly readAhead: number
  ack(ackId: string): void
}

export interface ProducerChannel extends Channel {
  /** The answer comes to `onAnswer` with the same context. */
  send(message: OutgoingBytes, context: string): void
}

/** The server's answer to one message. */
export interface PublishAnswer {
  readonly result: string
  readonly context: string
  /** Why, when `result` is not `ok`. */
  readonly errorMsg: string
}

export interface ConsumerRequest {
  readonly subscription: Subscription
  /** The server knows the member by it. */
  readonly name: string
  /** How many partitions the topic has; 0 for a topic that has none. */
  readonly partitions: number
  readonly signal: AbortSignal
  onMessage(received: ReceivedMessage): void
}

export interface ProducerRequest {
  readonly topic: string
  readonly signal: AbortSignal
  onAnswer(answer: PublishAnswer): void
}

export interface ReaderRequest {
  readonly topic: string
  /** The name of the partition's own topic. */
  readonly name: string
  /** Where to begin: just behind this message, or at the end; undefined: at the oldest. */
  readonly after: MessageId | 'latest' | undefined
  /** Called when nothing more is to be read now. Given where the end of the topic cannot be asked for before. */
  readonly onEnd?: (channel: Channel) => void
  readonly receiverQueueSize: number
  readonly signal: AbortSignal
  /** `taken` lets the server send one more. `channel` is the one being opened. */
  onMessage(received: ReceivedMessage, channel: Channel, taken: () => void): void
}

export interface Reading {
  open(request: ReaderRequest): Promise<Channel>
  /** Call it when all its channels are closed. */
  close(): Promise<void>
}

/**
 * Opening rejects with `topic_missing`, `topic_refused`, `broker_refused`, `certificate_refused`, `tls_failed` or
 * `broker_unavailable`. The signal aborts an opening; an open channel stays open.
 */
export interface PulsarTransport {
  openConsumer(request: ConsumerRequest): Promise<ConsumerChannel>
  openProducer(request: ProducerRequest): Promise<ProducerChannel>
  /** For the partitions of one topic that are read together. */
  openReading(): Reading
  /** Call it when all channels are closed. */
  close(): Promise<void>
}

/** How long to wait before opening again, after `attempt` failures in a row: 0.1 s doubling to 3.2 s, with full jitter. */
export function reopenDelayMs(attempt: number): number {
  return Math.ceil(jitteredBackoffMs(attempt - 1, { firstMs: 100, mostMs: 3200 }))
}
