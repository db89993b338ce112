// Which member of a group gets which partitions: each keeps what it has, and only what must move for equal shares moves. The
// members say in their requests to join what they have. A member that is about to leave keeps what its handlers have, and gets no more.
import { type Assigner, AssignerProtocol, type Cluster } from 'kafkajs'

/**
 * The name that members of the first versions offer, too: a group needs one name that all of them know. The leader of the group
 * decides, whatever the name, and those versions leave out what a member has.
 */
const name = 'RoundRobinAssigner'
const version = 0

/** What a member has, and since which generation of its group. */
export interface Claim {
  readonly generation: number
  readonly partitions: readonly number[]
  /** It takes no more messages, and leaves when its handlers have finished those that they have of its partitions. */
  readonly leaves?: boolean
}

/** On what its leader has based the partitions of a member. */
export interface AssignmentBasis {
  /** How many partitions the topic had. */
  readonly partitions: number
  /** Whether the member was about to leave. */
  readonly leaves: boolean
}

/** Of a member that has never joined. */
export const noClaim: Claim = { generation: 0, partitions: [] }

/** The assigner of a member that reads one topic; `claim` says what it has now. */
export function createAssigner(cluster: Cluster, claim: () => Claim): Assigner {
  /** What this member has assigned as leader, by member: those of the first versions do not say what they have. */
  let assigned: ReadonlyMap<string, readonly number[]> = new Map()
  return {
    name,
    version,
    protocol: ({ topics }) => ({
      name,
      metadata: AssignerProtocol.MemberMetadata.encode({
        version,
        topics,
        userData: Buffer.from(JSON.stringify(claim())),
      }),
    }),
    async assign({ members, topics }) {
      const [topic] = topics as [string]
      const partitions = cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId)
      const claims = new Map(
        members.map(({ memberId, memberMetadata }) => [
          memberId,
          claimOf(memberMetadata) ?? { generation: 0, partitions: assigned.get(memberId) ?? [] },
        ]),
      )
      assigned = assignPartitions(partitions, claims)
      const basisFor = (memberId: string): AssignmentBasis => ({
        partitions: partitions.length,
        leaves: claims.get(memberId)?.leaves === true,
      })
      return [...assigned].map(([memberId, own]) => ({
        memberId,
        memberAssignment: AssignerProtocol.MemberAssignment.encode({
          version,
          assignment: { [topic]: [...own] },
          userData: Buffer.from(JSON.stringify(basisFor(memberId))),
        }),
      }))
    },
  }
}

/** Equal shares for all that stay: they differ by at most one partition. The latest claim to a partition counts. */
export function assignPartitions(
  partitions: readonly number[],
  claims: ReadonlyMap<string, Claim>,
): Map<string, number[]> {
  const owners = ownersOf(claims)
  const shares = new Map([...claims.keys()].sort().map((member): [string, number[]] => [member, []]))
  for (const partition of partitions) shares.get(owners.get(partition) ?? '')?.push(partition)
  const staying = [...shares].filter(([member]) => !claims.get(member)!.leaves).map(([, share]) => share)
  // Those that have most may have the one more that not all can have.
  const dealt = (staying.length > 0 ? staying : [...shares.values()]).sort(
    (one, other) => other.length - one.length,
  )
  const kept = [...shares.values()].filter((share) => !dealt.includes(share)).flat()
  const count = partitions.length - kept.length
  const least = Math.floor(count / dealt.length)
  const larger = count % dealt.length
  const sizeOf = (index: number) => least + (index < larger ? 1 : 0)
  for (const [index, share] of dealt.entries()) share.splice(sizeOf(index))
  const given = new Set([...kept, ...dealt.flat()])
  const free = partitions.filter((partition) => !given.has(partition))
  for (const [index, share] of dealt.entries()) share.push(...free.splice(0, sizeOf(index) - share.length))
  return shares
}

function ownersOf(claims: ReadonlyMap<string, Claim>): Map<number, string> {
  const owners = new Map<number, string>()
  const oldestFirst = [...claims].sort(([, one], [, other]) => one.generation - other.generation)
  for (const [member, { partitions }] of oldestFirst)
    for (const partition of partitions) owners.set(partition, member)
  return owners
}

/** Undefined when the leader said nothing: it is of one of the first versions. */
export function basisOf(memberAssignment: Buffer): AssignmentBasis | undefined {
  try {
    return JSON.parse(String(AssignerProtocol.MemberAssignment.decode(memberAssignment)?.userData))
  } catch {
    return undefined
  }
}

/** Undefined for a member that says nothing, or nothing that can be read. */
function claimOf(metadata: Buffer): Claim | undefined {
  try {
    const { userData } = AssignerProtocol.MemberMetadata.decode(metadata) ?? {}
    const { generation, partitions, leaves } = JSON.parse(String(userData)) as Partial<Claim>
    if (!Number.isSafeInteger(generation) || !Array.isArray(partitions)) return undefined
    return { generation: generation!, partitions, leaves: leaves === true }
  } catch {
    return undefined
  }
}
