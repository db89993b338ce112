// What a partition's window stores of deaths, owner after owner.
import { expect, test } from 'vitest'
import type { Delivery } from '../../../src/broker/broker.ts'
import { deathsIn, metadataOf } from '../../../src/broker/kafka/deaths.ts'
import { InFlightWindow } from '../../../src/broker/window/in-flight-window.ts'
import type { Commit } from '../../../src/broker/window/partition-buffer.ts'

/** An owner of partition 0, which holds ten messages; what it would leave behind is in `stored`. */
function owner(from: Commit | undefined) {
  let stored: Commit | undefined = from
  const store = async () => {
    const commits = window.commits()
    stored = commits.get(0) ?? stored
    window.committed(commits)
  }
  const subscription = { group: 'g', topic: 't', maxInFlight: 4, from: 'earliest', ordering: 'none' } as const
  const window = new InFlightWindow(subscription, { changed() {}, store })
  window.own([0])
  const start = from?.offset ?? 0
  const run = Array.from({ length: 10 - start }, (_, index) => {
    const position = `${start + index}`
    const message = { topic: 't', partition: 0, position, key: '', value: Buffer.from('x'), headers: {} }
    return { offset: start + index, message: { ...message, timestamp: 0 }, keyed: false }
  })
  window.offer(0, run, 10)
  return {
    window,
    stored: () => stored,
    async begin() {
      expect(window.next()).toBeUndefined()
      window.know(0, from)
      await store()
      window.open(0)
      const taken: Delivery[] = []
      for (let one = window.next(); one; one = window.next()) taken.push(one)
      return taken
    },
    store,
  }
}

/** Owners that die as soon as they have begun. */
async function afterDeaths(deaths: number): Promise<Commit | undefined> {
  let stored: Commit | undefined
  for (let death = 0; death < deaths; death++) {
    const dying = owner(stored)
    await dying.begin()
    stored = dying.stored()
  }
  return stored
}

test('owners that die one after the other leave a count behind, and progress ends it', async () => {
  expect(await afterDeaths(1)).toEqual({ offset: 0, deaths: 1, alone: 0 })
  const second = owner(await afterDeaths(1))
  const taken = await second.begin()
  expect(taken).toHaveLength(4)
  expect(taken.every(({ suspect }) => suspect === undefined)).toBe(true)
  expect(second.stored()).toEqual({ offset: 0, deaths: 2, alone: 0 })
  await taken[0]!.ack()
  await second.store()
  expect(second.stored()).toEqual({ offset: 1, deaths: 1, alone: 0 })
})

test('an owner that leaves in order counts no death', async () => {
  const leaving = owner(await afterDeaths(1))
  await leaving.begin()
  leaving.window.release()
  await leaving.store()
  expect(leaving.stored()).toEqual({ offset: 0, deaths: 1, alone: 0 })
})

test('after two deaths as many as were in flight are handed out one at a time', async () => {
  const careful = owner(await afterDeaths(2))
  const first = await careful.begin()
  expect(first).toHaveLength(1)
  await first[0]!.ack()
  for (const position of ['1', '2', '3']) {
    const next = careful.window.next()!
    expect(next).toMatchObject({ position, suspect: {} })
    expect(careful.window.next()).toBeUndefined()
    await next.ack()
  }
  // The rest is handled as ever.
  const rest = [careful.window.next(), careful.window.next()]
  expect(rest.map((one) => one?.suspect)).toEqual([undefined, undefined])
})

test('what is recorded of a suspect is found by the next owner, and not by one that gets it in order', async () => {
  const dying = owner(await afterDeaths(2))
  const [poison] = await dying.begin()
  expect(await poison!.suspect!.deaths()).toBe(0)
  await poison!.suspect!.record(1)
  const died = dying.stored()
  expect(died).toMatchObject({ offset: 0, alone: 1 })
  const next = owner(died)
  const [again] = await next.begin()
  expect(await again!.suspect!.deaths()).toBe(1)
  await again!.suspect!.record(2)
  next.window.release()
  await next.store()
  expect(next.stored()).toMatchObject({ offset: 0, alone: 1 })
})

test('deaths at another offset are not of these messages', async () => {
  const stored = { offset: 3, deaths: 7, alone: 2 }
  const elsewhere = owner({ ...stored, offset: 0 })
  elsewhere.window.own([])
  elsewhere.window.own([0])
  const { window } = elsewhere
  const message = { topic: 't', partition: 0, position: '5', key: '', value: Buffer.from('x'), headers: {} }
  window.offer(0, [{ offset: 5, message: { ...message, timestamp: 0 }, keyed: false }], 6)
  window.know(0, stored)
  expect(window.commits().get(0)).toEqual({ offset: 5, deaths: 1, alone: 0 })
})

test('metadata is read as it was written; that of others says nothing', () => {
  expect(metadataOf({ deaths: 2, alone: 1 })).toBe('deaths=2 alone=1')
  expect(deathsIn('deaths=2 alone=1')).toEqual({ deaths: 2, alone: 1 })
  for (const other of [null, '', 'x', 'deaths=-1 alone=1', 'deaths=9999999 alone=1', '{"a":1}'])
    expect(deathsIn(other)).toEqual({ deaths: 0, alone: 0 })
})
