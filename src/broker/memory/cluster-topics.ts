// The topics of a memory cluster, with their groups, and the faults of publishing that tests ask for.
import { GraphmillError } from '../../errors.ts'
import {
  type Deletion,
  type DeletionState,
  type Lag,
  maxDeadLetterExtraBytes,
  maxMessageBytes,
  type OutgoingBytes,
  type Subscription,
  type TopicDescription,
  type TopicSpec,
} from '../broker.ts'
import { parseTopic, sourceOfDead } from '../topics.ts'
import { MemoryGroup } from './group.ts'
import { MemoryTopic } from './topic.ts'

/** What a memory cluster keeps, and when its publishers wait. */
export interface MemoryClusterOptions {
  /**
   * Forget a message once every group of its topic has settled it and every reader on the topic has passed it. A group must
   * join before the other groups settle the messages that it needs. A topic without a group keeps everything, unless
   * `discard` names it. Default false: everything is kept. `retentionMs` has no effect here.
   */
  readonly dropSettled?: boolean
  /** With `dropSettled`: topics that no group will ever read, so that only present readers hold messages back. */
  readonly discard?: (topic: string) => boolean
  /**
   * Backpressure: `publish` waits, in order, while a group with a member that takes messages is this many bytes behind on
   * the topic (estimated, with 512 bytes a message for what is not value). It does not wait on a topic without groups, or
   * for a group whose members have gone or are draining, so that a drain cannot lock up; nor on response topics: an
   * extractor reads replies and writes requests, and this is the only cycle of a flow that a wait could close.
   * What publishers read and what they publish to must have separate slots. Default: no bound.
   */
  readonly maxTopicBytes?: number
  /** Milliseconds since 1970, for timestamps. Default `Date.now`. */
  readonly now?: () => number
}

type GroupedTopic = MemoryTopic<MemoryGroup>

export interface PublishFault {
  readonly matches: (topic: string) => boolean
  /** The message is stored, and only the answer is lost. */
  readonly stored: boolean
}

export class ClusterTopics {
  readonly #options: MemoryClusterOptions
  readonly #topics = new Map<string, GroupedTopic>()
  readonly publishFaults = new Set<PublishFault>()

  constructor(options: MemoryClusterOptions) {
    this.#options = options
  }

  [Symbol.iterator](): Iterator<GroupedTopic> {
    return this.#topics.values()
  }

  ensure(spec: TopicSpec): void {
    if (this.#topics.has(spec.name)) return
    const { dropSettled = false, discard, maxTopicBytes } = this.#options
    const isBounded = maxTopicBytes !== undefined && parseTopic(spec.name)?.class !== 'response'
    const limits = {
      dropSettled,
      discard: dropSettled && discard?.(spec.name) === true,
      maxBytes: isBounded ? maxTopicBytes : Number.POSITIVE_INFINITY,
    }
    this.#topics.set(spec.name, new MemoryTopic(spec, limits))
  }

  has(name: string): boolean {
    return this.#topics.has(name)
  }

  /** Throws `topic_missing`. */
  get(name: string): GroupedTopic {
    const topic = this.#topics.get(name)
    if (topic === undefined) throw missing(name)
    return topic
  }

  /** Throws `topic_missing`. */
  group({
    group: name,
    topic: topicName,
    from,
  }: Pick<Subscription, 'group' | 'topic' | 'from'>): MemoryGroup {
    const topic = this.get(topicName)
    const group = topic.groups.get(name) ?? new MemoryGroup(topic, from)
    topic.groups.set(name, group)
    return group
  }

  list(prefix: string): TopicDescription[] {
    return [...this]
      .filter(({ spec }) => spec.name.startsWith(prefix))
      .map(({ spec, partitions }) => ({ name: spec.name, partitions: partitions.length }))
      .sort((one, other) => (one.name < other.name ? -1 : 1))
  }

  /** Throws `topic_missing`. */
  lag(groupName: string, topicName: string): Lag {
    const topic = this.get(topicName)
    const group = topic.groups.get(groupName)
    const partitions = topic.partitions.map((log, partition) => {
      const lag = log.end - Math.max(group?.mark(partition) ?? 0, log.begin)
      return { topic: topicName, partition, lag }
    })
    const total = partitions.reduce((sum, { lag }) => sum + lag, 0)
    return { partitions, total, members: group?.members.size ?? 0 }
  }

  /** Throws `topic_missing`. */
  deleteSettled({ topic: name, ends, expected, ignored, lookOnly = false }: Deletion): DeletionState {
    const topic = this.get(name)
    const groups = [...new Set([...topic.groups.keys(), ...expected])].filter((one) => !ignored.includes(one))
    const markOf = (group: string, partition: number) => topic.groups.get(group)?.mark(partition) ?? 0
    const backlogs = groups.map((group) => {
      const messages = ends.reduce((sum, end, partition) => {
        const { begin } = topic.partitions[partition]!
        return sum + Math.max(0, Number(end) - Math.max(markOf(group, partition), begin))
      }, 0)
      return { group, messages, members: topic.groups.get(group)?.members.size ?? 0 }
    })
    if (!lookOnly)
      for (const [partition, end] of ends.entries())
        topic.partitions[partition]!.drop(
          Math.min(Number(end), ...groups.map((group) => markOf(group, partition))),
        )
    const behind = backlogs.filter(({ messages }) => messages > 0)
    return { groups, behind, deleted: !lookOnly && behind.length === 0 }
  }

  /** `client` is the one that publishes. */
  async publish(message: OutgoingBytes, client: object): Promise<void> {
    const fault = this.publishFaults.values().find(({ matches }) => matches(message.topic))
    if (fault === undefined || fault.stored) await this.#store(message, client)
    if (fault !== undefined) throw new GraphmillError('broker_unavailable', 'a fault was requested')
  }

  delete(name: string): void {
    const topic = this.#topics.get(name)
    this.#topics.delete(name)
    topic?.end(missing(name))
  }

  #store(message: OutgoingBytes, client: object): Promise<void> {
    const topic = this.get(message.topic)
    if (message.value.byteLength > this.#maxBytesOf(topic.spec)) {
      const text = `a message of ${message.value.byteLength} bytes is more than ${message.topic} takes`
      throw new GraphmillError('message_too_large', text)
    }
    return topic.publish(message, (this.#options.now ?? Date.now)(), client)
  }

  /** The dead letters of a topic may be as large as its messages, with what their headers need. */
  #maxBytesOf({ name, maxBytes }: TopicSpec): number {
    if (maxBytes !== undefined) return maxBytes
    const source = sourceOfDead(name)
    if (source === undefined) return maxMessageBytes
    return Math.max(this.#topics.get(source)?.spec.maxBytes ?? 0, maxMessageBytes) + maxDeadLetterExtraBytes
  }
}

const missing = (name: string) => new GraphmillError('topic_missing', `there is no topic ${name}`)
