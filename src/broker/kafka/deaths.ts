// What the metadata of a committed offset says: the deaths of the partition's owners, or that it is a start. Members that do not
// know it write none, and their metadata counts as none.
import type { Cluster } from 'kafkajs'
import type { Deaths } from '../window/deaths.ts'
import type { Commit } from '../window/partition-buffer.ts'
import { findCoordinator } from './quirks.ts'

export const metadataOf = ({ deaths, alone }: Deaths): string => `deaths=${deaths} alone=${alone}`

export function deathsIn(metadata: string | null): Deaths {
  const [, deaths = 0, alone = 0] = /^deaths=(\d{1,6}) alone=(\d{1,6})$/.exec(metadata ?? '') ?? []
  return { deaths: Number(deaths), alone: Number(alone) }
}

/** Of a position that a group was given behind records that were deleted before: no member of it has reported them yet. */
export const startMetadata = 'start'

export interface Committed extends Commit {
  /** It is a start: the first member knows no more than one of a group without a position. */
  readonly isStart: boolean
}

/** What the group has committed, by partition; without the partitions for which it has committed nothing. */
export async function fetchCommitted(
  cluster: Cluster,
  { group, topic, partitions }: { group: string; topic: string; partitions: readonly number[] },
): Promise<Map<number, Committed>> {
  const coordinator = await findCoordinator(cluster, group)
  const asked = partitions.map((partition) => ({ partition }))
  const { responses } = await coordinator.offsetFetch({
    groupId: group,
    topics: [{ topic, partitions: asked }],
  })
  return new Map(
    responses
      .flatMap((response) => response.partitions)
      .filter(({ offset }) => Number(offset) >= 0)
      .map(({ partition, offset, metadata }) => [
        partition,
        { offset: Number(offset), ...deathsIn(metadata), isStart: metadata === startMetadata },
      ]),
  )
}
