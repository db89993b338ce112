// The deaths of a partition's owners, in the metadata of its committed offset. Members that know nothing of it write none,
// and what they wrote counts as none.
import type { Broker, Cluster } from 'kafkajs'
import type { Deaths } from '../window/deaths.ts'

/** What a group has committed for a partition. */
export interface Committed extends Deaths {
  readonly offset: number
}

/** The types of kafkajs do not tell that brokers have it. */
type Coordinator = Broker & {
  offsetFetch(request: {
    readonly groupId: string
    readonly topics: readonly { topic: string; partitions: readonly { partition: number }[] }[]
  }): Promise<{
    readonly responses: readonly {
      readonly partitions: readonly { partition: number; offset: string; metadata: string | null }[]
    }[]
  }>
}

export const metadataOf = ({ deaths, alone }: Deaths): string => `deaths=${deaths} alone=${alone}`

export function deathsIn(metadata: string | null): Deaths {
  const [, deaths = 0, alone = 0] = /^deaths=(\d{1,6}) alone=(\d{1,6})$/.exec(metadata ?? '') ?? []
  return { deaths: Number(deaths), alone: Number(alone) }
}

/** What the group has committed, by partition; nothing of those where it has not. */
export async function fetchCommitted(
  cluster: Cluster,
  { group, topic, partitions }: { group: string; topic: string; partitions: readonly number[] },
): Promise<Map<number, Committed>> {
  const coordinator = (await cluster.findGroupCoordinator({ groupId: group })) as Coordinator
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
        { offset: Number(offset), ...deathsIn(metadata) },
      ]),
  )
}
