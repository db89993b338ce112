// Where a group is in its partitions, and which records were deleted before the group had read them: those between its
// position and the first record that is left. Gaps further on (compaction, transactions) are no loss.
import type { Cluster } from 'kafkajs'
import type { LostRange } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import type { KafkaSettings } from './client.ts'
import { type Committed, fetchCommitted } from './deaths.ts'
import { readKafka } from './read.ts'

export interface FoundPlace {
  readonly partition: number
  /** The group's position; undefined when it has committed nothing, or its offsets have expired. */
  readonly committed: Committed | undefined
  /** The offset of the first record that is left, and the offset behind the last one. */
  readonly low: number
  readonly high: number
}

interface PlacesQuery {
  readonly topic: string
  readonly group: string
  readonly partitions: readonly number[]
}

/** Asks the cluster of a connected consumer. Rejects with what kafkajs throws. */
export async function findPlaces(
  cluster: Cluster,
  { topic, group, partitions: wanted }: PlacesQuery,
): Promise<FoundPlace[]> {
  const partitions = wanted.map((partition) => ({ partition }))
  const committed = await fetchCommitted(cluster, { group, topic, partitions: wanted })
  const [lows, highs] = await Promise.all([offsets(true), offsets(false)])
  return wanted.map((partition) => {
    const [low, high] = [lows.get(partition) ?? 0, highs.get(partition) ?? 0]
    return { partition, committed: committed.get(partition), low, high }
  })

  async function offsets(fromBeginning: boolean): Promise<Map<number, number>> {
    const [answer] = await cluster.fetchTopicsOffset([{ topic, partitions, fromBeginning }])
    return new Map(answer?.partitions.map(({ partition, offset }) => [partition, Number(offset)]))
  }
}

export interface UnreadGap {
  readonly partition: number
  /** The group's; undefined when it has none. */
  readonly position: number | undefined
  readonly low: number
}

/** The records that a group at `position` has lost when the log begins at `low`. They are older than what is left. */
export async function rangeOf(
  settings: KafkaSettings,
  { partition, position, low }: UnreadGap,
  {
    topic,
    lookup,
    signal,
  }: { readonly topic: string; readonly lookup: TopicLookup; readonly signal: AbortSignal },
): Promise<LostRange> {
  let before = Date.now()
  const behind = { [partition]: String(low - 1) }
  const range = { topic, from: behind, until: 'end', partition } as const
  for await (const first of readKafka(settings, range, { signal, lookup })) {
    before = Math.min(before, first.timestamp)
    break
  }
  signal.throwIfAborted()
  return {
    topic,
    partition,
    first: position === undefined ? undefined : String(position),
    next: String(low),
    count: position === undefined ? undefined : low - position,
    before,
  }
}
