import { expect, test } from 'vitest'
import { createConsumers } from '../../src/observe/consumers.ts'

const place = (topic: string) => ({ processor: 'p', topic, group: `g-${topic}`, workspace: 'w', flow: 'f' })

test('the broker is asked once in a while, however many callers look', async () => {
  let now = 0
  let asked = 0
  const consumers = createConsumers({ now: () => now, freshMs: 5000 })
  consumers.add({ ...place('a'), lag: async () => ++asked })
  const looks = await Promise.all([consumers.status(), consumers.status(), consumers.status()])
  expect(looks.map(([consumer]) => consumer!.lag)).toEqual([1, 1, 1])
  now = 5000
  expect((await consumers.status())[0]!.lag).toBe(1)
  now = 5001
  expect((await consumers.status())[0]!.lag).toBe(2)
})

test('a lag that the broker does not tell is unknown, and the others are known', async () => {
  const consumers = createConsumers({ now: () => 0, patienceMs: 20 })
  consumers.add({ ...place('silent'), lag: () => new Promise(() => {}) })
  consumers.add({
    ...place('away'),
    lag: async () => {
      throw new Error('away')
    },
  })
  consumers.add({ ...place('there'), lag: async () => 7 })
  expect((await consumers.status()).map(({ topic, lag }) => [topic, lag])).toEqual([
    ['silent', null],
    ['away', null],
    ['there', 7],
  ])
})

test('an outdated lag is not shown', async () => {
  let now = 0
  let away = false
  const consumers = createConsumers({ now: () => now })
  consumers.add({
    ...place('a'),
    lag: async () => {
      if (away) throw new Error('away')
      return 3
    },
  })
  expect((await consumers.status())[0]!.lag).toBe(3)
  away = true
  now = 60_000
  expect((await consumers.status())[0]!.lag).toBe(null)
})

test('thousands of consumers are asked a few at a time', async () => {
  let [now, most] = [0, 0]
  const consumers = createConsumers({ now: () => 0 })
  for (let n = 0; n < 1000; n++)
    consumers.add({
      ...place(`t${n}`),
      async lag() {
        most = Math.max(most, ++now)
        await Promise.resolve()
        now--
        return n
      },
    })
  const found = await consumers.status()
  expect(found.map(({ lag }) => lag)).toEqual(Array.from({ length: 1000 }, (_, n) => n))
  expect(most).toBeLessThanOrEqual(8)
})

test('an ended consumer is not listed', async () => {
  const consumers = createConsumers({ now: () => 0 })
  const listed = consumers.add({ ...place('a'), lag: async () => 0 })
  listed.inFlight = 2
  expect(await consumers.status()).toMatchObject([{ topic: 'a', inFlight: 2 }])
  listed.remove()
  expect(await consumers.status()).toEqual([])
})
