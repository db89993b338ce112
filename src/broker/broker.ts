// The contract between graphmill and a message broker. Brokers carry bytes and do not know what a message means.
// Every implementation passes the suite in test/broker/suite.ts.

/** Certificates for TLS, in PEM. */
export interface TlsOptions {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  /** Default true. */
  readonly rejectUnauthorized?: boolean
}

/** A message on its way to a topic. */
export interface OutgoingBytes {
  readonly topic: string
  /** Messages with an equal key go to the same partition, in order. */
  readonly key: string
  readonly value: Uint8Array
  readonly headers: Readonly<Record<string, string>>
  /** A foreign message that is replayed: it may be as large as the topic takes. Default: dead letters may, others are limited to `maxMessageBytes`. */
  readonly anySize?: boolean
}

/** A topic that is to be there. */
export interface TopicSpec {
  readonly name: string
  readonly partitions: number
  /** Keep the newest message of each key forever, instead of every message for some time. Default false. */
  readonly compacted?: boolean
  /** How long messages are kept, in milliseconds. Default: forever. */
  readonly retentionMs?: number
  /** The largest message that the topic takes, in bytes. Default: `maxMessageBytes`. */
  readonly maxBytes?: number
}

/** What a member of a group reads, and how. */
export interface Subscription {
  /** Members of one group share the messages of the topic: each goes to one of them. */
  readonly group: string
  readonly topic: string
  /** The most deliveries that may be unsettled at once. */
  readonly maxInFlight: number
  /** The most bytes that are held (fetched and unsettled); one message larger than this still passes, alone. Default 64 MiB. */
  readonly maxBytes?: number
  /**
   * Where a group that was never seen before begins, unless `ensureGroups` gave it a position. `latest`: at the end that a partition
   * has when a member first takes it.
   */
  readonly from: 'earliest' | 'latest'
  /**
   * `member`: the messages of a key go to one member at a time, in order and concurrently. Another member gets the next one
   * only when this one has settled, or lost, all its messages of the key.
   * `key`: the same, and the next message of a key is delivered only after the one before it is settled.
   */
  readonly ordering: 'none' | 'member' | 'key'
  /**
   * Records were deleted before the group had read them. Until the promise has resolved, the same gap is reported again after a
   * crash or by another member. On Kafka the group's position stays before the gap; on Pulsar it is found within half a minute.
   */
  readonly onLost?: (lost: LostRange) => Promise<void>
}

/** Where a group that was never seen before begins. */
export type GroupStart = Pick<Subscription, 'group' | 'topic' | 'from' | 'ordering'>

/** Records of one partition that were deleted before a group had read them. */
export interface LostRange {
  readonly topic: string
  readonly partition: number
  /** The position of the first; undefined when unknown: the group had no position, or the broker only counts. */
  readonly first: string | undefined
  /** The position at which the group goes on; on Pulsar the time of the expiry (ISO 8601). */
  readonly next: string
  /** How many; undefined when unknown. */
  readonly count: number | undefined
  /** All of them are older than this, in milliseconds since 1970. */
  readonly before: number
}

/** A message that was handed to a consumer, until it is settled. */
export interface Delivery {
  readonly topic: string
  readonly partition: number
  /** The position in the partition, as the broker writes it (an offset, a message id). */
  readonly position: string
  readonly key: string
  readonly value: Uint8Array
  readonly headers: Readonly<Record<string, string>>
  /** When the broker or the producer stamped the message, in milliseconds since 1970. */
  readonly timestamp: number
  /** Aborted when this member no longer owns the message; from then on `ack` and `retryLater` do nothing. */
  readonly signal: AbortSignal
  /** 1 on first delivery in this process, then 2, 3, … */
  readonly attempt: number
  /** Set when processes died while the message was in flight and it may be the cause: it is to be handled alone. */
  readonly suspect?: Suspect | undefined
  /** Settles the message. Resolves at once; the broker stores it soon after, and at the latest when the consumer ends. */
  ack(): Promise<void>
  /**
   * Delivers it again in this process after `delayMs`. It is held in memory and still counts as in flight.
   * Once the consumer's signal has aborted, the message is dropped instead: it stays unsettled, and the group gets it again.
   */
  retryLater(delayMs: number): Promise<void>
}

/** A message that may have killed processes. */
export interface Suspect {
  /** Processes that died while they handled it alone. */
  deaths(): Promise<number>
  /**
   * Stores the value that `deaths` is to have if this process dies now. Does nothing when the message was settled or lost.
   * Rejects with a coded error when it cannot be stored.
   */
  record(deaths: number): Promise<void>
}

/** What of a topic is read. */
export interface TopicRange {
  readonly topic: string
  /** Where to begin: at the oldest message, at the end, or just behind the given positions (by partition; others from the oldest). */
  readonly from: 'earliest' | 'latest' | Readonly<Record<number, string>>
  /** `end`: stop at the end that the topic had when the read began. `never`: wait for new messages until aborted. */
  readonly until: 'end' | 'never'
  /** Read only this partition. Default: all. */
  readonly partition?: number
}

/** A message that is read without a group: there is nothing to settle. */
export type ReadMessage = Omit<Delivery, 'signal' | 'attempt' | 'suspect' | 'ack' | 'retryLater'>

export interface Lag {
  /** Messages of the topic that the group has not settled, by topic and partition. */
  readonly partitions: readonly { readonly topic: string; readonly partition: number; readonly lag: number }[]
  readonly total: number
  /** How many members the group has now: with none, nobody will settle them. */
  readonly members: number
}

export interface TopicDescription {
  readonly name: string
  readonly partitions: number
}

export interface Deletion {
  readonly topic: string
  /** From `ends`. */
  readonly ends: readonly string[]
  /** Groups that count although they have no position yet. */
  readonly expected: readonly string[]
  /** Groups that do not count: what they have not settled is deleted as well. */
  readonly ignored: readonly string[]
  /** Deletes nothing, and says which groups are behind. Default false. */
  readonly lookOnly?: boolean
}

/** A group of a topic, and how many messages it has not settled. */
export interface GroupBacklog {
  readonly group: string
  readonly messages: number
  readonly members: number
}

/** What became of a deletion. */
export interface DeletionState {
  /** All groups that count. */
  readonly groups: readonly string[]
  /** Those that have not settled everything before the ends. */
  readonly behind: readonly GroupBacklog[]
  /** Whether nothing before the ends can be read any more. */
  readonly deleted: boolean
}

/** A connection to Kafka, Pulsar, or a memory cluster. */
export interface Broker {
  /** Creates the topics that are missing; those that exist are left as they are. */
  ensureTopics(topics: readonly TopicSpec[]): Promise<void>
  /**
   * Gives groups that have neither a position on their topic nor members their first position, now: what is published once this has
   * resolved is theirs, whenever they join. Nothing is done for a topic that is missing or that keeps nothing. Several processes may
   * do it at once: none moves a group beyond a place that another has promised.
   */
  ensureGroups(starts: readonly GroupStart[]): Promise<void>
  /** Whether the topic exists; an answer may be some seconds old. Rejects when no answer came, and with `topic_refused` when we may not know. */
  hasTopic(topic: string): Promise<boolean>
  /** The topics whose name begins with `prefix`, sorted by name. */
  listTopics(prefix: string): Promise<readonly TopicDescription[]>
  /**
   * Resolves when the broker has stored the message. Concurrent calls are joined into batches; a batch that fails is split,
   * so that only the message that caused it rejects.
   * Rejects with `topic_missing` when a second, independent look has not found the topic either, with `topic_refused` likewise,
   * and with `message_too_large`, `broker_unavailable`, `broker_refused`.
   */
  publish(message: OutgoingBytes): Promise<void>
  /**
   * The messages of a topic, as a member of a group: at most `maxInFlight` unsettled, at most `maxBytes` held.
   * When `signal` aborts, nothing new is yielded and the membership is kept. The iteration ends as soon as every delivery in
   * flight was acked or dropped, the acked ones are committed, and the group was left. `close()` ends it at once.
   * Throws only errors that waiting cannot fix (`topic_missing`, `topic_refused`, `broker_refused`); an unavailable broker is
   * waited for. When a topic is deleted, its in-flight messages are not reassigned, and their signals do not abort (except on
   * Pulsar).
   */
  consume(subscription: Subscription, signal: AbortSignal): AsyncIterable<Delivery>
  read(range: TopicRange, signal: AbortSignal): AsyncIterable<ReadMessage>
  lag(group: string, topic: string): Promise<Lag>
  /** The end of each partition now, as the broker writes it. */
  ends(topic: string): Promise<readonly string[]>
  /**
   * Deletes what lies before the ends and was settled by every group. May be repeated until nothing of it is left. Pulsar deletes whole
   * files: only when all groups have settled all that is in them, which may include messages behind the ends. What some group has not
   * settled is never deleted. Rejects with `broker_refused` or `topic_refused` when we may not delete.
   */
  deleteSettled(deletion: Deletion): Promise<DeletionState>
  deleteTopics(topics: readonly string[]): Promise<void>
  close(): Promise<void>
}

/** The largest message that graphmill writes, except for dead letters, in bytes without key and headers. */
export const maxMessageBytes = 700 * 1024

/** How much larger a dead letter may be, in bytes: it carries a whole message and `dead-*` headers. */
export const maxDeadLetterExtraBytes = 64 * 1024

/** The default of `Subscription.maxBytes`. */
export const defaultMaxHeldBytes = 64 * 1024 * 1024
