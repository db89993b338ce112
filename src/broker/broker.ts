// The contract between graphmill and a message broker. Brokers carry bytes and know no message;
// every implementation passes the suite in test/broker/suite.ts.

/** A message on its way to a topic. */
export interface OutgoingBytes {
  readonly topic: string
  /** Messages with an equal key go to the same partition, in order. */
  readonly key: string
  readonly value: Uint8Array
  readonly headers: Readonly<Record<string, string>>
  /** A foreign message that is brought back: it may be as large as the topic takes. Default: `maxMessageBytes`, but for dead letters. */
  readonly anySize?: boolean
}

export interface TopicSpec {
  readonly name: string
  readonly partitions: number
  /** Keep the newest message of each key for ever, instead of every message for some time. Default false. */
  readonly compacted?: boolean
  /** How long messages are kept, in milliseconds. Default: for ever. */
  readonly retentionMs?: number
  /** Largest message that the topic takes, in bytes. Default: `maxMessageBytes`. */
  readonly maxBytes?: number
}

export interface Subscription {
  /** Members of one group share the messages of the topic: each goes to one of them. */
  readonly group: string
  readonly topic: string
  /** The most deliveries that may be unsettled at once. */
  readonly maxInFlight: number
  /** The most bytes that are held (fetched and unsettled); one message larger than this still passes, alone. Default 64 MiB. */
  readonly maxBytes?: number
  /** Where a group that was never seen before begins. */
  readonly from: 'earliest'
  /**
   * `member`: the messages of a key go to one member at a time, in order and side by side; another member gets the next one
   * only when this one has settled, or lost, all that it has in hand of the key.
   * `key`: that, and the next message of a key is delivered only after the one before it is settled.
   */
  readonly ordering: 'none' | 'member' | 'key'
  /**
   * Records were deleted before the group had read them. Until the promise has resolved the same gap is reported again, after a
   * crash or by another member; on Kafka the group's position stays before it. On Pulsar it is found within half a minute.
   */
  readonly onLost?: (lost: LostRange) => Promise<void>
}

/** Records of one partition that were deleted before a group had read them. */
export interface LostRange {
  readonly topic: string
  readonly partition: number
  /** The place of the first; undefined when it is not known: the group had no position, or the broker only counts. */
  readonly first: string | undefined
  /** Where the group goes on; on Pulsar when it was. */
  readonly next: string
  /** How many; undefined when that is not known. */
  readonly count: number | undefined
  /** All of them were older than this, in milliseconds since 1970. */
  readonly before: number
}

export interface Delivery {
  readonly topic: string
  readonly partition: number
  /** The place in the partition, as the broker writes it (an offset, a message id). */
  readonly position: string
  readonly key: string
  readonly value: Uint8Array
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds since 1970 at which the broker or the producer stamped the message. */
  readonly timestamp: number
  /** Aborted when this member no longer owns the message; from then on `ack` and `retryLater` do nothing. */
  readonly signal: AbortSignal
  /** 1 on first delivery in this process, then 2, 3, … */
  readonly attempt: number
  /** Set when processes died while the message was in flight, so that it may be why: it wants to be handled alone. */
  readonly suspect?: Suspect | undefined
  /** The message is done with. Resolves at once; it is committed soon after, and at the latest when the consumer ends. */
  ack(): Promise<void>
  /**
   * Deliver it again, in this process, after `delayMs`. It is held in memory and goes on counting as in flight.
   * Once the consumer's signal has aborted it lets go instead: the message stays unsettled, and the group gets it again.
   */
  retryLater(delayMs: number): Promise<void>
}

/** What is known of a message with which processes may have died. */
export interface Suspect {
  /** Processes that died while they handled it alone. */
  deaths(): Promise<number>
  /**
   * Stores what `deaths` is to be if this process dies now. Nothing of a message that was settled or lost. Rejects with a
   * coded error where it can't be stored.
   */
  record(deaths: number): Promise<void>
}

export interface TopicRange {
  readonly topic: string
  /** Where to begin: the oldest message, the end, or just behind given positions (by partition; others from the oldest). */
  readonly from: 'earliest' | 'latest' | Readonly<Record<number, string>>
  /** `end`: stop at what was the end when the read began. `never`: go on for new messages until aborted. */
  readonly until: 'end' | 'never'
  /** Only this partition. Default: all. */
  readonly partition?: number
}

/** A message that is only read: no group, nothing to settle. */
export type ReadMessage = Omit<Delivery, 'signal' | 'attempt' | 'suspect' | 'ack' | 'retryLater'>

export interface Lag {
  /** Messages of the topic that the group has not settled, by topic and partition. */
  readonly partitions: readonly { readonly topic: string; readonly partition: number; readonly lag: number }[]
  readonly total: number
  /** How many members the group has at the moment: with none, nobody will settle them. */
  readonly members: number
}

export interface TopicDescription {
  readonly name: string
  readonly partitions: number
}

export interface Broker {
  /** Makes the topics that are missing; those that exist are left as they are. */
  ensureTopics(topics: readonly TopicSpec[]): Promise<void>
  /** Whether there is such a topic, as far as is known: an answer may be some seconds old. Rejects when nobody can say, with `topic_refused` when we may not know. */
  hasTopic(topic: string): Promise<boolean>
  /** Topics whose name begins with `prefix`, by name. */
  listTopics(prefix: string): Promise<readonly TopicDescription[]>
  /**
   * Resolves when the broker has stored the message. Concurrent calls are joined into batches;
   * a batch that fails is split, so that only the guilty message rejects.
   * Rejects with `topic_missing`, when a second look that depends on nothing else has not found the topic either; and with
   * `message_too_large`, `topic_refused` (likewise), `broker_unavailable`, `broker_refused`.
   */
  publish(message: OutgoingBytes): Promise<void>
  /**
   * The messages of a topic, as a member of a group: at most `maxInFlight` unsettled, at most `maxBytes` held.
   * When `signal` aborts nothing new is yielded, the membership is kept, and the iteration ends as soon as every delivery in
   * hand was acked or let go, what was acked is committed and the group was left. `close()` ends it at once.
   * Throws only for what waiting cannot mend (`topic_missing`, `topic_refused`, `broker_refused`); a broker that is away is waited for.
   * Of a topic that is gone nobody else is given what is in hand: its signal does not abort for that (but on Pulsar).
   */
  consume(subscription: Subscription, signal: AbortSignal): AsyncIterable<Delivery>
  read(range: TopicRange, signal: AbortSignal): AsyncIterable<ReadMessage>
  lag(group: string, topic: string): Promise<Lag>
  deleteTopics(topics: readonly string[]): Promise<void>
  close(): Promise<void>
}

/** The largest message of ours on any topic but dead letters, in bytes: key and headers not counted. */
export const maxMessageBytes = 700 * 1024

/** Dead letters carry a whole message and `dead-*` headers. */
export const maxDeadLetterExtraBytes = 64 * 1024

/** The default of `Subscription.maxBytes`. */
export const defaultMaxHeldBytes = 64 * 1024 * 1024
