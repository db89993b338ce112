import fc from 'fast-check'
import { type Assigner, AssignerProtocol, type Cluster, PartitionAssigners } from 'kafkajs'
import { expect, test } from 'vitest'
import { assignPartitions, type Claim, createAssigner, noClaim } from '../../../src/broker/kafka/assigner.ts'

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)
const cluster = {
  findTopicPartitionMetadata: () => upTo(6).map((partitionId) => ({ partitionId })),
} as unknown as Cluster
const topics = ['topic']

const { MemberMetadata, MemberAssignment } = AssignerProtocol
const metadataOf = (assigner: Assigner) => assigner.protocol({ topics }).metadata
const ofMember = (memberId: string, claim: Claim) => ({
  memberId,
  memberMetadata: metadataOf(createAssigner(cluster, () => claim)),
})
/** As a member of an earlier version joins. */
const ofOldMember = (memberId: string) => ({
  memberId,
  memberMetadata: metadataOf(PartitionAssigners.roundRobin({ cluster } as never)),
})
async function assign(assigner: Assigner, ...members: { memberId: string; memberMetadata: Buffer }[]) {
  const assigned = await assigner.assign({ members, topics })
  return Object.fromEntries(
    assigned.map(({ memberId, memberAssignment }) => [
      memberId,
      MemberAssignment.decode(memberAssignment)?.assignment['topic'],
    ]),
  )
}

test('shares are equal, and only what must move for that moves, whichever members join and leave', () => {
  const steps = fc.array(fc.record({ joins: fc.boolean(), who: fc.nat(20) }), { maxLength: 30 })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), steps, (count, changes) => {
      const partitions = upTo(count)
      let shares = assignPartitions(partitions, new Map([['m0', noClaim]]))
      for (const [generation, { joins, who }] of changes.entries()) {
        const present = [...shares.keys()]
        const remaining = joins || present.length === 1 ? present : present.toSpliced(who % present.length, 1)
        const claims = new Map<string, Claim>(
          remaining.map((member) => [member, { generation, partitions: shares.get(member)! }]),
        )
        if (joins) claims.set(`m${generation}-${who}`, noClaim)
        const next = assignPartitions(partitions, claims)
        expect([...next.keys()].sort()).toEqual([...claims.keys()].sort())
        expect([...next.values()].flat().sort((a, b) => a - b)).toEqual(partitions)
        const sizes = [...next.values()].map(({ length }) => length)
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1)
        for (const [member, { partitions: before }] of claims) {
          const after = next.get(member)!
          const kept = before.filter((partition) => after.includes(partition)).length
          expect(kept).toBe(Math.min(before.length, after.length))
        }
        shares = next
      }
    }),
  )
})

test('a member that leaves keeps what its handlers have, and gets nothing more', () => {
  const sets = fc.subarray(upTo(12))
  fc.assert(
    fc.property(sets, fc.nat(3), (inFlight, staying) => {
      const claims = new Map<string, Claim>([
        ['leaving', { generation: 1, partitions: inFlight, leaves: true }],
      ])
      for (const number of upTo(staying)) claims.set(`m${number}`, noClaim)
      const shares = assignPartitions(upTo(12), claims)
      expect([...shares.values()].flat().sort((a, b) => a - b)).toEqual(upTo(12))
      // Somebody must have what is left when nobody stays.
      expect(shares.get('leaving')).toEqual(staying === 0 ? expect.arrayContaining(inFlight) : inFlight)
      const sizes = upTo(staying).map((number) => shares.get(`m${number}`)!.length)
      if (staying > 0) expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1)
    }),
  )
})

test('the latest claim to a partition counts: a member that was taken for dead no longer has what others have since', () => {
  const claims = new Map<string, Claim>([
    ['dead', { generation: 3, partitions: [0, 1, 2, 3] }],
    ['alive', { generation: 4, partitions: [0, 1] }],
  ])
  expect(assignPartitions(upTo(4), claims).get('alive')).toEqual([0, 1])
})

test('members say what they have, and keep it', async () => {
  const leader = createAssigner(cluster, () => noClaim)
  const claim = { generation: 7, partitions: [1, 3, 4] }
  expect(await assign(leader, ofMember('a', noClaim), ofMember('b', claim))).toEqual({
    a: [0, 2, 5],
    b: [1, 3, 4],
  })
  const leaving = { generation: 7, partitions: [1], leaves: true }
  expect(await assign(leader, ofMember('a', noClaim), ofMember('b', leaving))).toEqual({
    a: [0, 2, 3, 4, 5],
    b: [1],
  })
})

test('in a group with members of earlier versions, the leader remembers what it gave them', async () => {
  const leader = createAssigner(cluster, () => noClaim)
  expect(leader.name).toBe(PartitionAssigners.roundRobin({ cluster } as never).name)
  const first = await assign(leader, ofOldMember('a'), ofOldMember('b'))
  const second = await assign(leader, ofOldMember('a'), ofOldMember('b'), ofOldMember('0'))
  expect(second).toEqual({ a: first['a']!.slice(0, 2), b: first['b']!.slice(0, 2), 0: expect.anything() })
})

test.each([
  '',
  'null',
  '[]',
  '{"generation":"7","partitions":[0]}',
  '{"generation":1,"partitions":[9,-1,"0",{}]}',
])('a claim of %j to what there is not is none', async (text) => {
  const memberMetadata = MemberMetadata.encode({ version: 0, topics, userData: Buffer.from(text) })
  const leader = createAssigner(cluster, () => noClaim)
  expect(await assign(leader, { memberId: 'a', memberMetadata })).toEqual({ a: upTo(6) })
  expect(await assign(leader, { memberId: 'b', memberMetadata: Buffer.from([1]) })).toEqual({ b: upTo(6) })
})

test('a member without a partition is assigned none', async () => {
  const leader = createAssigner(cluster, () => noClaim)
  const members = upTo(8).map((number) => ofMember(`m${number}`, noClaim))
  expect((await assign(leader, ...members))['m7']).toEqual([])
})
