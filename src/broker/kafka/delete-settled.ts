// Deletion of records that every group has settled: Kafka's DeleteRecords moves the beginning of a partition. The low-water mark is taken
// over every group that has committed an offset on the topic, also those of other programs.
import kafkajs, { type Admin } from 'kafkajs'
import type { Deletion, DeletionState, GroupBacklog } from '../broker.ts'
import type { KafkaSettings } from './client.ts'
import { withAdmin, withCoordinator } from './topics.ts'

/** How many groups are asked about at once. */
const groupsAtOnce = 8

const { MemberAssignment } = kafkajs.AssignerProtocol

interface FoundGroup extends GroupBacklog {
  readonly marks: Offsets
}

/** By partition. */
type Offsets = readonly number[]

interface Bounds {
  readonly lows: Offsets
  /** Where to delete up to. */
  readonly ends: Offsets
}

export function ends(settings: KafkaSettings, topic: string): Promise<string[]> {
  return withAdmin(settings, topic, async (admin) => {
    const found = await admin.fetchTopicOffsets(topic)
    return found.sort((a, b) => a.partition - b.partition).map(({ high }) => high)
  })
}

export function deleteSettled(settings: KafkaSettings, deletion: Deletion): Promise<DeletionState> {
  const { topic, expected, ignored, lookOnly = false } = deletion
  return withAdmin(settings, topic, async (admin) => {
    const lows = (await admin.fetchTopicOffsets(topic)).sort((a, b) => a.partition - b.partition)
    const bounds = { lows: lows.map(({ low }) => Number(low)), ends: deletion.ends.map(Number) }
    const { groups } = await withCoordinator(() => admin.listGroups())
    const known = new Set([...groups.map(({ groupId }) => groupId), ...expected])
    const rest = [...known].filter((name) => !ignored.includes(name)).values()
    const found: FoundGroup[] = []
    const work = async () => {
      for (const group of rest) {
        const marks = await marksOf(admin, { group, topic }, bounds)
        const members = await membersOf(admin, { group, topic })
        if (!marks && members === 0 && !expected.includes(group)) continue
        found.push(foundGroup({ group, members, marks: marks ?? bounds.lows }, bounds))
      }
    }
    await Promise.all(Array.from({ length: groupsAtOnce }, work))
    const upTo = bounds.ends.map((end, at) => Math.min(end, ...found.map(({ marks }) => marks[at]!)))
    if (!lookOnly) await deleteUpTo(admin, topic, upTo, bounds)
    const behind = found.flatMap(({ group, messages, members }) =>
      messages > 0 ? [{ group, messages, members }] : [],
    )
    const names = found.map(({ group }) => group).sort()
    return { groups: names, behind, deleted: !lookOnly && behind.length === 0 }
  })
}

/** Where the group goes on, by partition: at the beginning where it has no position. Undefined when it has none at all. */
async function marksOf(
  admin: Admin,
  { group, topic }: { readonly group: string; readonly topic: string },
  { lows }: Bounds,
): Promise<Offsets | undefined> {
  const [committed] = await withCoordinator(() => admin.fetchOffsets({ groupId: group, topics: [topic] }))
  const offsets = new Map(
    committed?.partitions.map(({ partition, offset }) => [partition, Number(offset)] as const),
  )
  if (![...offsets.values()].some((offset) => offset >= 0)) return undefined
  return lows.map((low, partition) => Math.max(low, offsets.get(partition) ?? -1))
}

/** How many members of the group read the topic. */
async function membersOf(
  admin: Admin,
  { group, topic }: { readonly group: string; readonly topic: string },
): Promise<number> {
  const { groups } = await withCoordinator(() => admin.describeGroups([group]))
  const members = groups[0]?.members ?? []
  return members.filter(({ memberAssignment }) => {
    const decoded = memberAssignment.length > 0 ? MemberAssignment.decode(memberAssignment) : null
    return decoded !== null && Object.hasOwn(decoded.assignment, topic)
  }).length
}

function foundGroup(group: Omit<FoundGroup, 'messages'>, { ends }: Bounds): FoundGroup {
  return {
    ...group,
    messages: ends.reduce((sum, end, at) => sum + Math.max(0, end - group.marks[at]!), 0),
  }
}

async function deleteUpTo(admin: Admin, topic: string, offsets: Offsets, { lows }: Bounds): Promise<void> {
  const partitions = offsets.flatMap((offset, partition) =>
    offset > lows[partition]! ? [{ partition, offset: String(offset) }] : [],
  )
  if (partitions.length > 0) await admin.deleteTopicRecords({ topic, partitions })
}
