// The broker in this process: `extract` runs on it, and tests break it on purpose. It keeps the contract of broker.ts as a
// real broker does, with members, marks and repeats, so that what is right here is right on Kafka.
import type { Broker } from '../broker.ts'
import { createMemoryClient } from './client.ts'
import { ClusterTopics, type MemoryClusterOptions } from './cluster-topics.ts'

export type { MemoryClusterOptions } from './cluster-topics.ts'

/** Faults for tests. */
export interface MemoryFaults {
  /**
   * From now on, publishing to the topics for which `matches` is true rejects with `broker_unavailable`. `stored`: the message
   * is stored, and only the answer is lost. Returns a function that ends the fault.
   */
  failPublish(matches: (topic: string) => boolean, options?: { readonly stored?: boolean }): () => void
  /**
   * Every member of a group counts as dead for a moment: it loses its messages in flight, and joins again.
   * `rewind`: how many offsets of each partition were acked but not committed yet, and so come again.
   * Returns the number of members.
   */
  evict(group: string, options?: { readonly rewind?: number }): number
}

/** A broker in this process. */
export interface MemoryCluster {
  /** One more client. */
  connect(): Broker
  readonly faults: MemoryFaults
}

/** Topics and groups that live as long as this object; clients of it share them. */
export function createMemoryCluster(options: MemoryClusterOptions = {}): MemoryCluster {
  const topics = new ClusterTopics(options)
  return {
    connect: () => createMemoryClient(topics),
    faults: {
      failPublish(matches, { stored = false } = {}) {
        const fault = { matches, stored }
        topics.publishFaults.add(fault)
        return () => topics.publishFaults.delete(fault)
      },
      evict(name, { rewind = 0 } = {}) {
        const groups = [...topics].flatMap(({ groups }) => groups.get(name) ?? [])
        const evicted = groups.flatMap((group) => [...group.members].map((member) => ({ group, member })))
        for (const { group, member } of evicted) group.evict(member, rewind)
        return evicted.length
      },
    },
  }
}
