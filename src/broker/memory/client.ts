// One client of a memory cluster: its members, its readers and its waiting publishers end when it is closed.
import { GraphmillError } from '../../errors.ts'
import type { Broker } from '../broker.ts'
import { consumeLoop, type Member } from '../window/consume-loop.ts'
import type { ClusterTopics } from './cluster-topics.ts'
import { MemoryMember } from './member.ts'
import { readMemory } from './reader.ts'

export function createMemoryClient(topics: ClusterTopics): Broker {
  const members = new Set<Member>()
  const closed = new AbortController()
  const checkOpen = () => {
    if (closed.signal.aborted) throw closedError()
  }
  const client: Broker = {
    async ensureTopics(specs) {
      checkOpen()
      for (const spec of specs) topics.ensure(spec)
    },
    async ensureGroups(starts) {
      checkOpen()
      for (const start of starts) if (topics.has(start.topic)) topics.group(start)
    },
    async hasTopic(topic) {
      checkOpen()
      return topics.has(topic)
    },
    async listTopics(prefix) {
      checkOpen()
      return topics.list(prefix)
    },
    async publish(message) {
      checkOpen()
      await topics.publish(message, client)
    },
    consume(subscription, signal) {
      const group = () => topics.group(subscription)
      const join = (wake: () => void) => new MemoryMember(group(), subscription, signal, wake)
      return iterable(closed.signal, (closing) => consumeLoop(join, { signal, closing, members }))
    },
    read(range, signal) {
      const open = () => topics.get(range.topic)
      return iterable(closed.signal, (closing) => readMemory(open, range, AbortSignal.any([signal, closing])))
    },
    async lag(group, topic) {
      checkOpen()
      return topics.lag(group, topic)
    },
    async ends(topic) {
      checkOpen()
      return topics.get(topic).partitions.map(({ end }) => String(end))
    },
    async deleteSettled(deletion) {
      checkOpen()
      return topics.deleteSettled(deletion)
    },
    async deleteTopics(names) {
      checkOpen()
      for (const name of names) topics.delete(name)
    },
    async close() {
      closed.abort()
      for (const topic of topics) topic.failPublishers(closedError(), client)
    },
  }
  return client
}

/** Iterates over what `generate` yields, until `return` is called, even while a `next` is pending, or `closed` aborts. */
function iterable<T>(
  closed: AbortSignal,
  generate: (closing: AbortSignal) => AsyncGenerator<T, void>,
): AsyncIterable<T, void> {
  return {
    [Symbol.asyncIterator]() {
      const returned = new AbortController()
      const closing = AbortSignal.any([closed, returned.signal])
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

const closedError = () => new GraphmillError('broker_unavailable', 'the connection to the broker was closed')

// biome-ignore lint/correctness/useYield: it throws at the first `next`
async function* refused(): AsyncGenerator<never, void> {
  throw closedError()
}
