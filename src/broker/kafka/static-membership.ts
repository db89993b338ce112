// Static membership (KIP-345): a member that comes back is given what it had before, whatever has changed since, and joins again if
// that is out of date.
import type { Cluster } from 'kafkajs'
import { type AssignmentBasis, basisOf } from './assigner.ts'
import { joinAsInstance } from './quirks.ts'

export interface StaticMembership {
  /** Whether the topic has more partitions than the leader knew, or the leader took a member that stays for one that leaves. */
  isOutdated(topic: string, isLeaving: boolean): boolean
}

/** Makes the consumer of this cluster a static member. Call it before the consumer connects. */
export function createStaticMembership(cluster: Cluster, groupInstanceId: string): StaticMembership {
  let basis: AssignmentBasis | undefined
  joinAsInstance(cluster, groupInstanceId, (assignment) => {
    basis = basisOf(assignment)
  })
  return {
    isOutdated(topic, isLeaving) {
      const { partitions = 0, leaves = true } = basis ?? {}
      return partitions < cluster.findTopicPartitionMetadata(topic).length || (leaves && !isLeaving)
    },
  }
}
