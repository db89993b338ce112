import { expect, test } from 'vitest'
import { createTopicLookup } from '../../src/broker/topic-lookup.ts'
import { GraphmillError } from '../../src/errors.ts'

function lookupOf(answers: readonly boolean[]) {
  const left = [...answers]
  const asked: string[] = []
  let time = 0
  const lookup = createTopicLookup(
    async (topic) => {
      asked.push(topic)
      return left.length > 1 ? left.shift()! : left[0]!
    },
    { now: () => time, pause: async () => undefined },
  )
  const pass = (ms: number) => {
    time += ms
  }
  return { lookup, asked, pass }
}

test('remembers for a while that a topic exists, and then asks again', async () => {
  const { lookup, asked, pass } = lookupOf([true])
  expect(await Promise.all([lookup.exists('t'), lookup.exists('t')])).toEqual([true, true])
  pass(4999)
  await lookup.exists('t')
  expect(asked).toEqual(['t'])
  pass(1)
  await lookup.exists('t')
  expect(asked).toEqual(['t', 't'])
})

test('believes that a topic is missing only after several looks, and remembers that, too', async () => {
  const { lookup, asked, pass } = lookupOf([false])
  expect(await lookup.exists('t')).toBe(false)
  expect(asked).toHaveLength(3)
  expect(await lookup.exists('t')).toBe(false)
  expect(asked).toHaveLength(3)
  pass(5000)
  await lookup.exists('t')
  expect(asked).toHaveLength(6)
})

test('finds a topic that the first look missed', async () => {
  const { lookup, asked } = lookupOf([false, true])
  expect(await lookup.exists('t')).toBe(true)
  expect(asked).toHaveLength(2)
})

test('remembers that a topic is refused, and no other failure', async () => {
  const codes = ['broker_unavailable', 'topic_refused'] as const
  let asked = 0
  let time = 0
  const ask = async () => {
    throw new GraphmillError(codes[Math.min(asked++, 1)]!, 'no')
  }
  const lookup = createTopicLookup(ask, { now: () => time, pause: async () => undefined })
  await expect(lookup.exists('t')).rejects.toMatchObject({ code: 'broker_unavailable' })
  for (let n = 0; n < 3; n++)
    await expect(lookup.exists('t')).rejects.toMatchObject({ code: 'topic_refused' })
  expect(asked).toBe(2)
  time = 5000
  await expect(lookup.exists('t')).rejects.toMatchObject({ code: 'topic_refused' })
  expect(asked).toBe(3)
})

test('asks again at once when it is to look, and when the topic was made or deleted', async () => {
  const { lookup, asked } = lookupOf([true])
  await lookup.exists('t')
  await lookup.look('t')
  expect(asked).toHaveLength(2)
  lookup.forget(['t'])
  await lookup.exists('t')
  expect(asked).toHaveLength(3)
})

test('remembers no failure', async () => {
  let fails = true
  const lookup = createTopicLookup(async () => {
    if (fails) throw new Error('down')
    return true
  })
  await expect(lookup.exists('t')).rejects.toThrow('down')
  fails = false
  expect(await lookup.exists('t')).toBe(true)
})

test('remembers ten thousand topics, and forgets the oldest first', async () => {
  const { lookup, asked } = lookupOf([true])
  for (let n = 0; n <= 10_000; n++) await lookup.exists(`t${n}`)
  const before = asked.length
  await lookup.exists('t10000')
  await lookup.exists('t1')
  expect(asked).toHaveLength(before)
  await lookup.exists('t0')
  expect(asked).toHaveLength(before + 1)
})
