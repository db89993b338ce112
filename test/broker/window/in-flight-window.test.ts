// The window of a consumer, without a broker: its bounds, its marks, and what becomes of dropped messages.
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import type { Delivery, Subscription } from '../../../src/broker/broker.ts'
import { InFlightWindow } from '../../../src/broker/window/in-flight-window.ts'
import type { IncomingMessage } from '../../../src/broker/window/partition-buffer.ts'

const base: Subscription = { group: 'g', topic: 't', maxInFlight: 10, from: 'earliest', ordering: 'none' }

const windowOf = (options: Partial<Subscription> = {}) =>
  new InFlightWindow({ ...base, ...options }, { changed() {} })

function incoming(partition: number, offset: number, { key = `${offset}`, bytes = 1 } = {}): IncomingMessage {
  const value = new Uint8Array(bytes)
  const message = { topic: 't', partition, position: `${offset}`, key, value, headers: {}, timestamp: 0 }
  return { offset, message, keyed: true }
}

const run = (partition: number, from: number, count: number) =>
  Array.from({ length: count }, (_, index) => incoming(partition, from + index))

function takeAll(window: InFlightWindow): Delivery[] {
  const all: Delivery[] = []
  for (let one = window.next(); one !== undefined; one = window.next()) all.push(one)
  return all
}

/** How far each partition may be committed, without the partitions for which that is done. */
const marksOf = (window: InFlightWindow) =>
  new Map([...window.commits()].map(([partition, { offset }]) => [partition, offset]))

const positions = (deliveries: readonly Delivery[]) => deliveries.map((one) => Number(one.position))

describe('the window of a consumer', () => {
  test('never marks what is not settled, whatever the order of settling', () => {
    const orders = fc.shuffledSubarray([...Array(30).keys()])
    fc.assert(
      fc.property(orders, (order) => {
        const window = windowOf({ maxInFlight: 30 })
        window.own([0])
        window.offer(0, run(0, 0, 30), 30)
        const deliveries = takeAll(window)
        const settled = new Set<number>()
        for (const index of order) {
          void deliveries[index]!.ack()
          settled.add(index)
          let mark = 0
          while (settled.has(mark)) mark++
          expect(marksOf(window).get(0) ?? 0).toBe(mark)
        }
      }),
    )
  })

  test('takes turns among partitions', () => {
    const window = windowOf({ maxInFlight: 6 })
    window.own([0, 1, 2])
    for (const partition of [0, 1, 2]) window.offer(partition, run(partition, 0, 10), 10)
    const counts = takeAll(window).map((one) => one.partition)
    expect(counts.toSorted()).toEqual([0, 0, 1, 1, 2, 2])
  })

  test('takes only what there is room for, and asks for more after something was settled', async () => {
    const window = windowOf({ maxBytes: 1000 })
    window.own([0])
    const messages = [300, 300, 300, 300].map((bytes, index) => incoming(0, index, { key: 'k', bytes }))
    expect(window.offer(0, messages, 4)).toBe(3)
    expect(window.wants(0)).toBe(false)
    const [first] = takeAll(window)
    expect(window.wants(0)).toBe(false)
    await first!.ack()
    await window.next()?.ack()
    expect(window.offer(0, messages.slice(3), 4)).toBe(1)
  })

  test('a message larger than the bound passes alone', () => {
    const window = windowOf({ maxBytes: 1000 })
    window.own([0])
    const large = incoming(0, 0, { bytes: 5000 })
    expect(window.offer(0, [large, incoming(0, 1)], 2)).toBe(1)
    expect(window.offer(0, [incoming(0, 1)], 2)).toBe(0)
  })

  test('drops partitions that are no longer ours: their deliveries abort and can do nothing', async () => {
    const window = windowOf()
    window.own([0, 1])
    window.offer(0, run(0, 0, 2), 2)
    window.offer(1, run(1, 0, 2), 2)
    const deliveries = takeAll(window)
    expect(window.own([1, 2])).toEqual(new Map([[1, 2]]))
    expect(window.outstanding).toBe(2)
    for (const one of deliveries) {
      expect(one.signal.aborted).toBe(one.partition === 0)
      await one.ack()
    }
    expect(window.outstanding).toBe(0)
    expect(marksOf(window)).toEqual(new Map([[1, 2]]))
  })

  test('a partition that comes back begins again, and its messages that were in flight stay lost', async () => {
    const window = windowOf()
    window.own([0])
    window.offer(0, run(0, 0, 2), 2)
    const before = takeAll(window)
    window.own([])
    expect(window.own([0])).toEqual(new Map())
    window.offer(0, run(0, 0, 2), 2)
    await before[0]!.ack()
    expect(marksOf(window)).toEqual(new Map())
    expect(positions(takeAll(window))).toEqual([0, 1])
  })

  test('begins again when the offsets of a partition go back: its log was cut or created again', async () => {
    const window = windowOf()
    window.own([0])
    window.offer(0, run(0, 50, 3), 53)
    const old = takeAll(window)
    expect(window.offer(0, run(0, 0, 2), 2)).toBe(2)
    expect(old.every((one) => one.signal.aborted)).toBe(true)
    const fresh = takeAll(window)
    expect(positions(fresh)).toEqual([0, 1])
    await Promise.all(fresh.map((one) => one.ack()))
    expect(marksOf(window)).toEqual(new Map([[0, 2]]))
  })

  test('hands out no more than may settle: a thousand above the mark', async () => {
    const window = windowOf({ maxInFlight: 100 })
    window.own([0])
    let offset = 0
    const fill = () => {
      if (!window.wants(0)) return
      window.offer(0, run(0, offset, 500), offset + 500)
      offset += 500
    }
    fill()
    const stuck = window.next()!
    let settled = 0
    for (let one = window.next(); one !== undefined; one = window.next()) {
      await one.ack()
      settled++
      fill()
    }
    expect(settled).toBe(1000)
    expect(marksOf(window)).toEqual(new Map())
    await stuck.ack()
    expect(marksOf(window)).toEqual(new Map([[0, 1001]]))
    expect(window.next()).toBeDefined()
  })

  test('asks for more before what may be in flight at once has come', () => {
    const wait = (maxInFlight: number) => {
      const window = windowOf({ maxInFlight })
      window.own([0])
      let offset = 0
      for (; window.wants(0); offset += 500) window.offer(0, run(0, offset, 500), offset + 500)
      return offset
    }
    expect(wait(100)).toBe(500)
    expect(wait(32_000)).toBe(16_000)
  })

  test('holds no more of many partitions than of one, and lets a hot one take most of it', () => {
    const partitions = [...Array(12).keys()]
    const window = windowOf({ maxInFlight: 100 })
    window.own(partitions)
    let [hot, offered] = [0, 0]
    for (; window.wants(0); hot += 100) window.offer(0, run(0, hot, 100), hot + 100)
    expect(hot).toBe(500)
    const rest = partitions.slice(1)
    while (rest.some((partition) => window.wants(partition)))
      for (const partition of rest) {
        if (!window.wants(partition)) continue
        const next = window.position(partition) ?? 0
        window.offer(partition, run(partition, next, 5), next + 5)
        offered += 5
      }
    expect(offered).toBeGreaterThan(425)
    expect(offered).toBeLessThan(500)
  })

  test('counts the bytes of all partitions together', () => {
    const partitions = [...Array(12).keys()]
    const window = windowOf({ maxInFlight: 100 })
    window.own(partitions)
    let bytes = 0
    for (let offset = 0; partitions.some((partition) => window.wants(partition)); offset++)
      for (const partition of partitions) {
        if (!window.wants(partition)) continue
        window.offer(partition, [incoming(partition, offset, { bytes: 10_000 })], offset + 1)
        bytes += 10_000
      }
    expect(bytes).toBeLessThan(2.5 * 1024 * 1024)
  })

  test('asks every partition again when what was waiting is gone', () => {
    const window = windowOf({ maxInFlight: 100 })
    window.own([0, 1])
    for (let offset = 0; window.wants(0); offset += 500) window.offer(0, run(0, offset, 500), offset + 500)
    for (let offset = 0; window.wants(1); offset += 500) window.offer(1, run(1, offset, 500), offset + 500)
    expect([window.wants(0), window.wants(1)]).toEqual([false, false])
    for (let one = window.next(); one !== undefined; one = window.next()) void one.ack()
    expect([window.wants(0), window.wants(1)]).toEqual([true, true])
  })

  test('hands out all that may be in flight when the messages of a member settle together', () => {
    const window = windowOf({ maxInFlight: 5000, ordering: 'member' })
    window.own([0])
    let offset = 0
    let taken = 0
    while (window.wants(0)) {
      window.offer(0, run(0, offset, 500), offset + 500)
      offset += 500
      taken += takeAll(window).length
      if (taken === 5000) break
    }
    expect(taken).toBe(5000)
    expect(window.next()).toBeUndefined()
  })

  test('a message that is asked for again keeps its slot, and only its last delivery settles it', async () => {
    vi.useFakeTimers()
    const window = windowOf({ maxInFlight: 1 })
    window.own([0])
    window.offer(0, run(0, 0, 2), 2)
    const first = window.next()!
    await first.retryLater(1000)
    expect(window.next()).toBeUndefined()
    vi.advanceTimersByTime(1000)
    const again = window.next()!
    expect([again.position, again.attempt]).toEqual(['0', 2])
    await first.ack()
    expect(window.outstanding).toBe(1)
    await again.ack()
    expect(window.next()!.position).toBe('1')
    vi.useRealTimers()
  })

  test('draining drops all that no handler has, and waits for the rest', async () => {
    vi.useFakeTimers()
    const window = windowOf({ maxInFlight: 3 })
    window.own([0])
    window.offer(0, run(0, 0, 10), 10)
    const [one, two, three] = takeAll(window) as [Delivery, Delivery, Delivery]
    await two.retryLater(50)
    window.drain()
    vi.advanceTimersByTime(100)
    expect(window.next()).toBeUndefined()
    expect(window.outstanding).toBe(2)
    await three.retryLater(50)
    await one.ack()
    expect(window.outstanding).toBe(0)
    expect(marksOf(window)).toEqual(new Map([[0, 1]]))
    expect(window.wants(0)).toBe(false)
    vi.useRealTimers()
  })

  test('with order by key, any order of settling gives each key in order, and all of it', () => {
    const steps = fc.array(fc.nat(), { minLength: 40, maxLength: 40 })
    fc.assert(
      fc.property(steps, (choices) => {
        const window = windowOf({ ordering: 'key', maxInFlight: 5 })
        window.own([0])
        const all = Array.from({ length: 40 }, (_, index) => incoming(0, index, { key: `k${index % 3}` }))
        window.offer(0, all, 40)
        const inFlight: Delivery[] = []
        const settled: Delivery[] = []
        for (const choice of choices) {
          inFlight.push(...takeAll(window))
          expect(new Set(inFlight.map((one) => one.key)).size).toBe(inFlight.length)
          const [one] = inFlight.splice(choice % inFlight.length, 1)
          void one!.ack()
          settled.push(one!)
        }
        for (const key of ['k0', 'k1', 'k2']) {
          const ofKey = positions(settled.filter((one) => one.key === key))
          expect(ofKey).toEqual(ofKey.toSorted((a, b) => a - b))
        }
        expect(marksOf(window)).toEqual(new Map([[0, 40]]))
      }),
    )
  })
})
