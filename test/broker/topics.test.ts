import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  deadTopic,
  groupName,
  isDeadTopic,
  limitsTopic,
  parseTopic,
  schemasTopic,
  sourceOfDead,
  type TopicParts,
  type TopicRole,
  topicName,
  topicRoles,
  topicSpec,
} from '../../src/broker/topics.ts'
import { type GraphmillError, toGraphmillError } from '../../src/errors.ts'

const place = { space: 'gm', workspace: 'default', flow: 'default' }

/** Short parts from a small alphabet, so that equal and confusable ones come up often; `dead` and the roles too. */
const part = fc.oneof(
  fc.stringMatching(/^[ab_-]{1,3}$/),
  fc.stringMatching(/^[a-z0-9_-]{1,12}$/),
  fc.constantFrom(
    'dead',
    'flow',
    'response',
    'prompt',
    'schemas',
    'limits',
    'notify',
    'default',
    'extract-definitions',
  ),
)
const classAndRole = fc.constantFrom(
  ...Object.entries(topicRoles).flatMap(([topicClass, roles]) =>
    Object.keys(roles)
      .filter((role) => role !== 'schemas' && role !== 'limits')
      .map((role) => ({ class: topicClass, role })),
  ),
)
const topicParts: fc.Arbitrary<TopicParts> = fc
  .record({ space: part, workspace: part, flow: part, receiver: part, of: classAndRole })
  .map(
    ({ of, receiver, ...rest }) =>
      ({ ...rest, ...of, ...(of.class === 'response' ? { receiver } : {}) }) as TopicParts,
  )

/** A name with what it was made of, whichever function made it. */
const named = fc.oneof(
  topicParts.map((parts) => ({ input: JSON.stringify(parts), name: topicName(parts) })),
  topicParts.map((parts) => ({ input: `dead ${JSON.stringify(parts)}`, name: deadTopic(topicName(parts)) })),
  part.map((space) => ({ input: `schemas ${space}`, name: schemasTopic(space) })),
  part.map((space) => ({ input: `limits ${space}`, name: limitsTopic(space) })),
  part.map((space) => ({ input: `dead schemas ${space}`, name: deadTopic(schemasTopic(space)) })),
)

test('names topics as the contract says', () => {
  expect(topicName({ ...place, class: 'flow', role: 'chunk' })).toBe('gm.flow.chunk.default.default')
  expect(topicName({ ...place, class: 'request', role: 'prompt' })).toBe('gm.request.prompt.default.default')
  expect(topicName({ ...place, class: 'response', role: 'prompt', receiver: 'extract-definitions' })).toBe(
    'gm.response.prompt.extract-definitions.default.default',
  )
  expect(topicName({ ...place, class: 'notify', role: 'status' })).toBe('gm.notify.status.default.default')
  expect(schemasTopic('gm')).toBe('gm.notify.schemas')
  expect(limitsTopic('gm')).toBe('gm.notify.limits')
  expect(deadTopic('gm.flow.chunk.default.default')).toBe('gm.flow.chunk.default.default.dead')
  expect(groupName({ ...place, processor: 'extract-topics', role: 'chunk' })).toBe(
    'gm.extract-topics.chunk.default.default',
  )
})

test('never gives one name to two different inputs', () => {
  fc.assert(
    fc.property(named, named, (one, other) => {
      expect(one.name === other.name).toBe(one.input === other.input)
    }),
    { numRuns: 2000 },
  )
  const groupParts = fc.record({ space: part, processor: part, workspace: part, flow: part })
  const roles = fc.constantFrom<TopicRole>('chunk', 'prompt', 'triples')
  fc.assert(
    fc.property(groupParts, roles, groupParts, roles, (one, role, other, otherRole) => {
      const a = { ...one, role }
      const b = { ...other, role: otherRole }
      expect(groupName(a) === groupName(b)).toBe(JSON.stringify(a) === JSON.stringify(b))
    }),
    { numRuns: 1000 },
  )
})

test('reads back from a name what it was made of', () => {
  fc.assert(
    fc.property(topicParts, (parts) => {
      expect(parseTopic(topicName(parts))).toEqual({ ...parts, dead: false })
      expect(parseTopic(deadTopic(topicName(parts)))).toEqual({ ...parts, dead: true })
    }),
  )
  expect(parseTopic('gm.notify.schemas')).toEqual({
    space: 'gm',
    class: 'notify',
    role: 'schemas',
    dead: false,
  })
})

test('takes a flow called dead for a flow, and only the suffix for dead letters', () => {
  const name = topicName({ ...place, flow: 'dead', class: 'flow', role: 'chunk' })
  expect([isDeadTopic(name), isDeadTopic(deadTopic(name))]).toEqual([false, true])
  expect([sourceOfDead(name), sourceOfDead(deadTopic(name))]).toEqual([undefined, name])
  expect([isDeadTopic('foreign.topic'), isDeadTopic('foreign.topic.dead')]).toEqual([false, true])
})

test.each([
  'gm',
  'gm.flow.chunk',
  'gm.flow.chunk.default',
  'gm.flow.unknown.default.default',
  'gm.flow.toString.default.default',
  'gm.constructor.name.default.default',
  'gm.response.prompt.default.default',
  'gm.notify.schemas.default.default',
  'gm.flow.chunk.default.default.dead.dead',
  'gm.flow.chunk.Default.default',
  'gm.flow.chunk.default.',
  'gm.flow.chunk.default.default-partition-0',
  `gm.flow.chunk.default.${'x'.repeat(230)}`,
])('does not take %s for a topic of ours', (name) => {
  expect(parseTopic(name)).toBeUndefined()
})

test.each([
  ['upper case', { ...place, flow: 'Default' }],
  ['a dot', { ...place, workspace: 'a.b' }],
  ['an empty part', { ...place, space: '' }],
  ['a line end', { ...place, flow: 'a\n' }],
  ['a letter outside ASCII', { ...place, flow: 'é' }],
  ['the end of a Pulsar partition', { ...place, flow: 'x-partition-3' }],
  ['more than a broker takes', { ...place, flow: 'x'.repeat(240) }],
])('refuses %s in a name', (_, bad) => {
  expect(codeOf(() => topicName({ ...bad, class: 'flow', role: 'chunk' }))).toBe('topic_name_invalid')
  expect(codeOf(() => groupName({ ...bad, processor: 'p', role: 'chunk' }))).toBe('topic_name_invalid')
})

test('refuses a class, role or receiver that does not belong together', () => {
  const bad = [
    { ...place, class: 'flow', role: 'prompt' },
    { ...place, class: 'notify', role: 'schemas' },
    { ...place, class: 'other', role: 'chunk' },
    { ...place, class: 'response', role: 'prompt' },
    { ...place, class: 'request', role: 'prompt', receiver: 'x' },
  ] as unknown as TopicParts[]
  for (const parts of bad) expect(codeOf(() => topicName(parts))).toBe('topic_name_invalid')
})

test('makes topics with the partitions, retention and size of their role', () => {
  const week = 7 * 24 * 60 * 60 * 1000
  const spec = (parts: Pick<TopicParts, 'class' | 'role'>) =>
    topicSpec(topicName({ ...place, ...parts } as TopicParts))
  expect(spec({ class: 'flow', role: 'chunk' })).toEqual({
    name: 'gm.flow.chunk.default.default',
    partitions: 12,
  })
  expect(spec({ class: 'flow', role: 'triples' }).partitions).toBe(3)
  // Kept for ever: a request that expires unread is a fact that is never found.
  const requests = ['prompt', 'prompt-live', 'text-completion'] as const
  for (const role of requests) expect(spec({ class: 'request', role })).not.toHaveProperty('retentionMs')
  expect(spec({ class: 'notify', role: 'status' })).toMatchObject({ partitions: 3, compacted: true })
  expect(topicSpec('gm.response.prompt.me.default.default')).toMatchObject({
    partitions: 12,
    retentionMs: week,
  })
  expect(topicSpec(schemasTopic('gm'))).toMatchObject({ compacted: true })
  expect(topicSpec(limitsTopic('gm'))).toMatchObject({ compacted: true, partitions: 1 })
  expect(topicSpec('gm.flow.chunk.default.default.dead')).toEqual({
    name: 'gm.flow.chunk.default.default.dead',
    partitions: 1,
  })
  expect(topicSpec('gm.flow.chunk.default.default', { partitions: 1, retentionMs: 5 })).toMatchObject({
    partitions: 1,
    retentionMs: 5,
  })
  expect(codeOf(() => topicSpec('somebody.elses'))).toBe('topic_name_invalid')
})

function codeOf(act: () => unknown): GraphmillError['code'] | undefined {
  try {
    act()
    return undefined
  } catch (error) {
    return toGraphmillError(error).code
  }
}
