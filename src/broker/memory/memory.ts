// The broker in this process: `extract` runs on it, tests break it on purpose. It keeps the contract of broker.ts as a
// real broker does, with members, marks and repeats, so that what is right here is right on Kafka.
import { GraphmillError } from '../../errors.ts'
import {
  type Broker,
  maxDeadLetterExtraBytes,
  maxMessageBytes,
  type OutgoingBytes,
  type TopicSpec,
} from '../broker.ts'
import { parseTopic, sourceOfDead } from '../topics.ts'
import { consumeLoop, type Member } from '../window/consume-loop.ts'
import { MemoryGroup } from './group.ts'
import { MemoryMember } from './member.ts'
import { readMemory } from './reader.ts'
import { MemoryTopic } from './topic.ts'

export interface MemoryClusterOptions {
  /**
   * Forget a message once every group of its topic has settled it and every reader on the topic has passed it.
   * Groups must have joined before what they need is settled by the others. A topic without a group keeps everything,
   * unless `discard` names it. Default false: everything is kept. `retentionMs` has no effect here.
   */
  readonly dropSettled?: boolean
  /** With `dropSettled`: topics that no group will ever read, so that only the readers of the moment hold messages back. */
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

/** Ways to break it, for tests. */
export interface MemoryFaults {
  /**
   * From now on, publishing to the topics that `matches` takes rejects with `broker_unavailable`.
   * `stored`: the message was stored all the same, and only the answer was lost. Returns what ends the fault.
   */
  failPublish(matches: (topic: string) => boolean, options?: { readonly stored?: boolean }): () => void
  /**
   * Takes every member of a group for dead for a moment: each loses what it has in hand, and joins again.
   * `rewind`: how many offsets of each partition had been acked but not committed yet, and so come again.
   * Returns the number of members.
   */
  evict(group: string, options?: { readonly rewind?: number }): number
}

export interface MemoryCluster {
  /** One more client. */
  connect(): Broker
  readonly faults: MemoryFaults
}

type Topic = MemoryTopic<MemoryGroup>

interface PublishFault {
  readonly matches: (topic: string) => boolean
  readonly stored: boolean
}

/** Topics and groups that live as long as this object; clients of it share them. */
export function createMemoryCluster(options: MemoryClusterOptions = {}): MemoryCluster {
  const { dropSettled = false, discard = () => false, maxTopicBytes = Number.POSITIVE_INFINITY } = options
  const now = options.now ?? Date.now
  const topics = new Map<string, Topic>()
  const publishFaults = new Set<PublishFault>()

  function ensureTopic(spec: TopicSpec): void {
    if (topics.has(spec.name)) return
    const replies = parseTopic(spec.name)?.class === 'response'
    topics.set(
      spec.name,
      new MemoryTopic(spec, {
        dropSettled,
        discard: dropSettled && discard(spec.name),
        maxBytes: replies ? Number.POSITIVE_INFINITY : maxTopicBytes,
      }),
    )
  }

  function topicOf(name: string): Topic {
    const topic = topics.get(name)
    if (topic === undefined) throw missing(name)
    return topic
  }

  function groupOf(name: string, topicName: string): MemoryGroup {
    const topic = topicOf(topicName)
    const group = topic.groups.get(name) ?? new MemoryGroup(topic)
    topic.groups.set(name, group)
    return group
  }

  /** The dead letters of a topic may be as large as its messages, with what their headers need. */
  function maxBytesOf({ name, maxBytes }: TopicSpec): number {
    if (maxBytes !== undefined) return maxBytes
    const source = sourceOfDead(name)
    if (source === undefined) return maxMessageBytes
    return Math.max(topics.get(source)?.spec.maxBytes ?? 0, maxMessageBytes) + maxDeadLetterExtraBytes
  }

  function store(message: OutgoingBytes, client: object): Promise<void> {
    const topic = topicOf(message.topic)
    if (message.value.byteLength > maxBytesOf(topic.spec)) {
      const text = `a message of ${message.value.byteLength} bytes is more than ${message.topic} takes`
      throw new GraphmillError('message_too_large', text)
    }
    return topic.publish(message, now(), client)
  }

  function connect(): Broker {
    const members = new Set<Member>()
    const closed = new AbortController()
    const checkOpen = () => {
      if (closed.signal.aborted) throw closedError()
    }
    /** Iterates over what `generate` yields, until `return` is called, even while a `next` is pending, or the client closes. */
    function iterable<T>(
      generate: (closing: AbortSignal) => AsyncGenerator<T, void>,
    ): AsyncIterable<T, void> {
      return {
        [Symbol.asyncIterator]() {
          const returned = new AbortController()
          const closing = AbortSignal.any([closed.signal, returned.signal])
          const items = closing.aborted ? refused() : generate(closing)
          return {
            next: () => items.next(),
            return() {
              returned.abort()
              return items.return()
            },
          }
        },
      }
    }
    const client: Broker = {
      async ensureTopics(specs) {
        checkOpen()
        for (const spec of specs) ensureTopic(spec)
      },
      async hasTopic(topic) {
        checkOpen()
        return topics.has(topic)
      },
      async listTopics(prefix) {
        checkOpen()
        return [...topics.values()]
          .filter(({ spec }) => spec.name.startsWith(prefix))
          .map(({ spec, partitions }) => ({ name: spec.name, partitions: partitions.length }))
          .sort((one, other) => (one.name < other.name ? -1 : 1))
      },
      async publish(message) {
        checkOpen()
        const fault = publishFaults.values().find(({ matches }) => matches(message.topic))
        if (fault === undefined || fault.stored) await store(message, client)
        if (fault !== undefined) throw new GraphmillError('broker_unavailable', 'a fault was requested')
      },
      consume: (subscription, signal) =>
        iterable((closing) => {
          const group = () => groupOf(subscription.group, subscription.topic)
          const join = (wake: () => void) => new MemoryMember(group(), subscription, signal, wake)
          return consumeLoop(join, { signal, closing, members })
        }),
      read: (range, signal) =>
        iterable((closing) =>
          readMemory(() => topicOf(range.topic), range, AbortSignal.any([signal, closing])),
        ),
      async lag(groupName, topicName) {
        checkOpen()
        const topic = topicOf(topicName)
        const group = topic.groups.get(groupName)
        const partitions = topic.partitions.map((log, partition) => ({
          topic: topicName,
          partition,
          lag: log.end - Math.max(group?.mark(partition) ?? 0, log.begin),
        }))
        const total = partitions.reduce((sum, one) => sum + one.lag, 0)
        return { partitions, total, members: group?.members.size ?? 0 }
      },
      async deleteTopics(names) {
        checkOpen()
        for (const name of names) {
          const topic = topics.get(name)
          topics.delete(name)
          topic?.end(missing(name))
        }
      },
      async close() {
        closed.abort()
        for (const topic of topics.values()) topic.failPublishers(closedError(), client)
      },
    }
    return client
  }

  return {
    connect,
    faults: {
      failPublish(matches, { stored = false } = {}) {
        const fault = { matches, stored }
        publishFaults.add(fault)
        return () => publishFaults.delete(fault)
      },
      evict(name, { rewind = 0 } = {}) {
        let evicted = 0
        for (const { groups } of topics.values()) {
          const group = groups.get(name)
          for (const member of [...(group?.members ?? [])]) {
            group?.evict(member, rewind)
            evicted++
          }
        }
        return evicted
      },
    },
  }
}

const missing = (name: string) => new GraphmillError('topic_missing', `there is no topic ${name}`)
const closedError = () => new GraphmillError('broker_unavailable', 'the connection to the broker was closed')

// biome-ignore lint/correctness/useYield: it throws at the first `next`
async function* refused(): AsyncGenerator<never, void> {
  throw closedError()
}
