import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { planPart } from '../../src/flow/contents.ts'
import type { Context } from '../../src/flow/processor.ts'
import { emissionKey, splitKeys } from '../../src/messages/emission.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { createProgressAggregate, type ProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import { createRetractionCache } from '../../src/progress/retraction-cache.ts'
import { isKeyWithdrawn, type Withdrawal } from '../../src/rdf/support.ts'

const documentId = 'urn:doc'
const unit = 'extract-definitions'

function entry(versionTime: number, payload: object, chunkId = ''): Message<'Progress'> {
  const counts = { facts: {}, rejected: {}, repaired: 0, duplicates: 0, ungrounded: 0, usage: null, seq: 0 }
  const blank = { part: null, units: [], unit: null, run: null, error: null, lost: null, topic: null }
  const version = versionTime ? `v${versionTime}` : ''
  const header = {
    documentId,
    chunkId,
    causationId: `cause ${versionTime}`,
    time: 1000,
    version,
    versionTime,
  }
  return { ...header, payload: { ...blank, ...counts, ...payload } } as never
}

type Chunk = readonly [chunkId: string, sentBy: number]
const keyOf = ([chunkId, versionTime]: Chunk) => emissionKey({ documentId, chunkId, versionTime })
const keysOf = (chunks: readonly Chunk[]) => Buffer.from(chunks.map(keyOf).join(''), 'latin1')

function announce(aggregate: ProgressAggregate, versionTime: number, chunks: readonly Chunk[]): void {
  aggregate.add(entry(versionTime, { kind: 'document', parts: 1, title: '' }))
  const part = { kind: 'part', part: 0, chunks: chunks.length, units: [unit] }
  aggregate.add(entry(versionTime, { ...part, keys: keysOf(chunks) }))
}

const reply = { kind: 'reply', unit, run: { id: 'r', startedAt: 1 }, last: true, facts: { definitions: 1 } }
const finish = (aggregate: ProgressAggregate, chunks: readonly Chunk[]) => {
  for (const [chunkId, versionTime] of chunks) aggregate.add(entry(versionTime, reply, chunkId))
}
const chunksOf = (versionTime: number, count: number): Chunk[] =>
  Array.from({ length: count }, (_, at) => [`${documentId}/${versionTime} ${at}`, versionTime])
const settle = (aggregate: ProgressAggregate) => aggregate.settle(documentId, { partial: false })

describe('chunks of older versions', () => {
  test('are forgotten when a version is processed, however often a document is edited', () => {
    let aggregate = createProgressAggregate()
    const stays: Chunk = [`${documentId}/stays`, 1]
    for (let version = 1; version <= 42; version++) {
      const own = chunksOf(version, 2000)
      announce(aggregate, version, [...own, stays])
      finish(aggregate, version === 1 ? [...own, stays] : own)
      const settled = settle(aggregate)!
      expect(splitKeys(settled.retractions?.kept ?? Buffer.of())).toHaveLength(version === 1 ? 0 : 2002)
      const state = aggregate.save(documentId)!
      expect(state.length).toBeLessThan(40_000)
      aggregate = createProgressAggregate()
      aggregate.restore(state)
    }
    // Late replies to what was withdrawn change nothing.
    finish(aggregate, chunksOf(7, 10))
    expect(aggregate.status(documentId)).toMatchObject({ state: 'done', chunks: 2001, units: { done: 2001 } })
  })

  test('are kept until all parts of the newest version are known, whatever has ended', () => {
    const aggregate = createProgressAggregate()
    const [one, two] = [chunksOf(1, 3), chunksOf(2, 2)]
    announce(aggregate, 1, one)
    finish(aggregate, one)
    settle(aggregate)
    const kept = one[1]!
    aggregate.add(entry(2, { kind: 'part', part: 1, chunks: 2, units: [unit], keys: keysOf(two) }))
    finish(aggregate, two)
    expect(settle(aggregate)).toBeUndefined()
    aggregate.add(entry(2, { kind: 'document', parts: 2, title: '' }))
    aggregate.add(entry(2, { kind: 'part', part: 0, chunks: 1, units: [unit], keys: keysOf([kept]) }))
    const { kept: keys } = settle(aggregate)!.retractions!
    const own = emissionKey({ documentId, chunkId: '', versionTime: 2 })
    expect(new Set(splitKeys(keys!))).toEqual(new Set([own, ...[...two, kept].map(keyOf)]))
  })

  test('of more versions than fit a message end the document, and do not hold it up', () => {
    const aggregate = createProgressAggregate()
    for (const version of [1, 2, 3]) {
      // Its parts are never complete, so that nothing can be forgotten.
      const payload = { kind: 'part', part: 0, chunks: 30_000, units: [unit] }
      aggregate.add(entry(version, { ...payload, keys: keysOf(chunksOf(version, 30_000)) }))
    }
    expect(aggregate.status(documentId)).toMatchObject({
      state: 'failed',
      error: { type: 'document_too_large' },
    })
    aggregate.add(entry(4, { kind: 'removed', reason: 'removed' }))
    settle(aggregate)
    announce(aggregate, 5, chunksOf(5, 30_000))
    finish(aggregate, chunksOf(5, 30_000))
    expect(aggregate.status(documentId)).toMatchObject({ state: 'done', chunks: 30_000 })
  })
})

describe('a document of very many chunks', () => {
  const context = {
    scope: {},
    settings: { extractors: ['extract-topics'] },
    async *read() {},
  } as unknown as Context
  const plan = (chunkIds: readonly string[]) =>
    planPart(
      { documentId, version: 'v', versionTime: 3, payload: { part: 0, last: true, again: false } } as never,
      chunkIds,
      context,
    )

  test('is known by its texts up to 40,000 chunks', async () => {
    const ids = chunksOf(3, 40_001).map(([id]) => id)
    const whole = await plan(ids.slice(1))
    expect([whole?.toSend?.size, whole?.keys.length]).toEqual([40_000, 240_000])
    const beyond = await plan(ids)
    expect([beyond?.toSend, beyond?.keys.length]).toEqual([undefined, 0])
    // The part is known: the version is whole.
    expect(beyond?.contents.parts).toEqual([{ part: 0, last: true, emissions: [] }])
  })

  test('is replaced all the same: what older versions stated is withdrawn', () => {
    const aggregate = createProgressAggregate()
    const placed = (versionTime: number) => {
      aggregate.add(entry(versionTime, { kind: 'document', parts: 1, title: '' }))
      aggregate.add(entry(versionTime, { kind: 'part', part: 0, chunks: 2, units: [unit] }))
      // Of the version before, which has the same places.
      finish(
        aggregate,
        [0, 1].map((at): Chunk => [`${documentId}/0/${at}`, versionTime - 5]),
      )
      expect(settle(aggregate)).toBeUndefined()
      finish(
        aggregate,
        [0, 1].map((at): Chunk => [`${documentId}/0/${at}`, versionTime]),
      )
      return settle(aggregate)
    }
    expect(placed(10)).toMatchObject({ versionTime: 10, retractions: undefined })
    expect(placed(15)).toMatchObject({
      version: 'v15',
      versionTime: 14,
      retractions: { reason: 'superseded' },
    })
    expect(aggregate.status(documentId)).toMatchObject({ state: 'done', versions: { currentTime: 15 } })
  })
})

test('a withdrawal that a store could not do is said until it is replayed or another one includes it', () => {
  const aggregate = createProgressAggregate()
  const version = (time: number) => {
    announce(aggregate, time, chunksOf(time, 1))
    finish(aggregate, chunksOf(time, 1))
    settle(aggregate)
  }
  const dead = (time: number) =>
    aggregate.add(
      entry(time, {
        kind: 'dead',
        topic: 'gm.notify.retractions.w.f',
        error: { type: 'store_cannot_withdraw', message: 'no' },
      }),
    )
  const said = () => aggregate.status(documentId)!.versions.notWithdrawn?.reason.type
  version(1)
  version(2)
  dead(2)
  expect([said(), aggregate.status(documentId)!.state]).toEqual(['store_cannot_withdraw', 'done'])
  aggregate.add(entry(2, { kind: 'replayed' }))
  expect(said()).toBeUndefined()
  dead(2)
  version(3)
  expect(said()).toBeUndefined()
  // The death of an older one says nothing of the newer.
  dead(2)
  expect(said()).toBeUndefined()
  // Also while a newer version is not processed.
  announce(aggregate, 4, chunksOf(4, 1))
  dead(3)
  expect(said()).toBe('store_cannot_withdraw')
})

describe('what is withdrawn', () => {
  const step = fc.record({
    removes: fc.boolean(),
    own: fc.integer({ min: 0, max: 3 }),
    /** Which chunks of the version before stay, by their index. */
    stays: fc.array(fc.boolean(), { maxLength: 6 }),
    /** Whether the ledger starts again. */
    restarts: fc.boolean(),
  })

  test('is said by the last message alone: a reader that finds only this one, after compaction, misses nothing', () => {
    fc.assert(
      fc.property(fc.boolean(), fc.array(step, { minLength: 1, maxLength: 6 }), (begins, steps) => {
        let aggregate = createProgressAggregate()
        const before: Chunk[] = begins ? [[`${documentId}/0/0`, 0]] : []
        const all = [...before]
        const messages: Withdrawal[] = []
        if (begins) aggregate.add(entry(0, { kind: 'part', part: 0, chunks: 1, units: [unit] }))
        let present: Chunk[] = []
        for (const [at, { removes, own, stays, restarts }] of steps.entries()) {
          const time = 10 * (at + 1)
          if (removes) {
            aggregate.add(entry(time, { kind: 'removed', reason: 'removed' }))
            present = []
          } else {
            present = [...present.filter((_, index) => stays[index]), ...chunksOf(time, own + 1)]
            all.push(...present)
            announce(aggregate, time, present)
            finish(aggregate, present)
          }
          const settled = settle(aggregate)
          if (settled?.retractions) {
            const cache = createRetractionCache()
            cache.put({ documentId, ...settled, payload: settled.retractions } as never)
            messages.push(cache.of(documentId)!)
          }
          if (!restarts) continue
          const state = aggregate.save(documentId)!
          aggregate = createProgressAggregate()
          aggregate.restore(state)
        }
        const last = messages.at(-1)
        for (const chunk of all) {
          const emission = { key: keyOf(chunk), versionTime: chunk[1] }
          const isWithdrawn = messages.some((message) => isKeyWithdrawn(emission, message))
          expect(last !== undefined && isKeyWithdrawn(emission, last)).toBe(isWithdrawn)
          if (chunk[1] > 0 && steps.length > 1)
            expect(isWithdrawn).toBe(!present.some((kept) => keyOf(kept) === emission.key))
        }
      }),
    )
  })
})
