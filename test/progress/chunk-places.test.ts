import { deflateRawSync, inflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { emissionKey } from '../../src/messages/emission.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { createProgressAggregate, type ProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import { runningUnits } from '../../src/progress/running-units.ts'

const documentId = 'urn:tg:doc'
const unit = 'extract-definitions'
const chunkKeys = (chunkIds: readonly string[]) =>
  Buffer.from(chunkIds.map((chunkId) => emissionKey({ documentId, chunkId })).join(''), 'latin1')

function entry(payload: object, chunkId = '', time = 1000): Message<'Progress'> {
  const counts = { facts: {}, rejected: {}, repaired: 0, duplicates: 0, ungrounded: 0, usage: null, seq: 0 }
  const blank = { part: null, units: [], unit: null, run: null, error: null, lost: null, topic: null }
  const causationId = `cause of ${chunkId}`
  return { documentId, chunkId, causationId, time, payload: { ...blank, ...counts, ...payload } } as never
}
const begun = (chunkId: string, units = [unit]) => entry({ kind: 'chunk', units }, chunkId)
const replied = (chunkId: string, more: object = {}) =>
  entry(
    { kind: 'reply', unit, run: { id: 'r', startedAt: 1 }, last: true, facts: { definitions: 2 }, ...more },
    chunkId,
  )
const died = (chunkId: string, more: object = {}) =>
  entry(
    { kind: 'dead', unit, topic: 'gm.flow.chunk.w.f', error: { type: 'boom', message: '' }, ...more },
    chunkId,
  )
const partOf = (chunkIds: readonly string[], part = 0, units = [unit]) =>
  entry({ kind: 'part', part, chunks: chunkIds.length, units, keys: chunkKeys(chunkIds) })

function statusAfter(...entries: readonly Message<'Progress'>[]) {
  const aggregate = createProgressAggregate()
  for (const each of entries) aggregate.add(each)
  return aggregate.status(documentId)!
}

/** The aggregate as the next ledger finds it. */
function restored(aggregate: ProgressAggregate): ProgressAggregate {
  const after = createProgressAggregate()
  after.restore(aggregate.save(documentId)!)
  return after
}

describe('chunks that no part has announced', () => {
  test('are counted from their first sight on, and the document is never queued, nor done by count', () => {
    expect(statusAfter(begun('urn:chunk:a'))).toMatchObject({ state: 'running', chunks: 1 })
    const [one, other] = ['urn:chunk:a', 'urn:chunk:b']
    const all = [begun(one), begun(other), replied(one), replied(other)]
    for (let told = 1; told <= all.length; told++)
      expect(statusAfter(...all.slice(0, told)).state).toBe('running')
    expect(statusAfter(...all)).toMatchObject({
      chunks: 2,
      units: { expected: 0, done: 2, partial: 0, dead: 0 },
      totals: { facts: { definitions: 4 } },
    })
  })

  test('are known by the whole id, and not by its end', () => {
    const ids = [
      'urn:chunk:a/0/1',
      'urn:chunk:b/0/1',
      `${documentId}/0/1`,
      `${documentId}/00/1`,
      `${documentId}/0/01`,
    ]
    const more = [`${documentId}/0/4000000000`, `${documentId}/2147483647/0`, 'x\n/0/1', '0/1', '/0/1', 'Ā']
    const all = [...ids, ...more]
    const status = statusAfter(...all.map((id) => replied(id)), ...all.map((id) => replied(id)))
    expect(status).toMatchObject({ chunks: all.length, units: { done: all.length } })
  })

  test('are partial or dead with their reason, and done after all', () => {
    const bad = [begun('a'), begun('b'), died('a'), replied('b', { incomplete: 'truncated' })]
    expect(statusAfter(...bad)).toMatchObject({
      state: 'running',
      units: { done: 0, partial: 1, dead: 1 },
      incomplete: { boom: 1, truncated: 1 },
    })
    const again = { run: { id: 'second', startedAt: 2 } }
    const good = [entry({ kind: 'replayed' }, 'a'), replied('a', again), replied('b', again)]
    expect(statusAfter(...bad, ...good)).toMatchObject({
      units: { done: 2, partial: 0, dead: 0 },
      incomplete: {},
    })
  })

  test('whose triples died are partial in each unit that has begun', () => {
    const triples = { unit: null, topic: 'gm.flow.triples.w.f' }
    const status = statusAfter(begun('a', [unit, 'other']), replied('a'), died('a', triples))
    expect(status.units).toMatchObject({ done: 0, partial: 2 })
  })

  test('wait as units of their extractors', () => {
    const aggregate = createProgressAggregate()
    for (const each of [begun('a'), begun('b', [unit, 'other']), replied('a')]) aggregate.add(each)
    const running = runningUnits(aggregate.save(documentId)!)
    expect(running).toEqual({
      isForeign: true,
      loading: false,
      uncutParts: 0,
      units: new Map([
        [unit, 1],
        ['other', 1],
      ]),
    })
  })

  test('may be among lost records, unless one was seen later', () => {
    const lost = {
      topic: 'gm.request.prompt.w.f',
      processor: 'prompt',
      partition: 0,
      first: 1,
      next: 2,
      count: 1,
    }
    const gap = (before: number) => entry({ kind: 'lost', lost: { ...lost, before, time: before } })
    expect(statusAfter(begun('a'), gap(2000)).units).toMatchObject({ dead: 1 })
    expect(statusAfter(begun('a'), gap(-20_000)).units).toMatchObject({ dead: 0 })
  })

  test('come out the same in any order, repeated, and saved at any time', () => {
    const ids = ['urn:a', 'urn:b/0/0', `${documentId}/0/7`]
    const entries = ids.flatMap((id) => [begun(id), begun(id, ['other']), replied(id)])
    const whole = statusAfter(...entries)
    expect(whole).toMatchObject({ chunks: 3, units: { done: 3 } })
    const shuffled = fc.shuffledSubarray([...entries, ...entries], { minLength: 2 * entries.length })
    fc.assert(
      fc.property(shuffled, fc.integer({ min: 1, max: 17 }), (order, cut) => {
        let aggregate = createProgressAggregate()
        for (const [at, each] of order.entries()) {
          if (at === cut) aggregate = restored(aggregate)
          aggregate.add(each)
        }
        expect(aggregate.status(documentId)).toEqual(whole)
        expect(restored(aggregate).status(documentId)).toEqual(whole)
      }),
      { numRuns: 50 },
    )
  })

  test('count no longer when the parts of the document are announced', () => {
    const early = [replied('urn:stray'), replied(`${documentId}/0/0`)]
    const document = entry({ kind: 'document', parts: 1, title: 'T' })
    const part = entry({ kind: 'part', part: 0, chunks: 1, units: [unit] })
    expect(statusAfter(...early, document, part)).toMatchObject({
      state: 'done',
      chunks: 1,
      units: { done: 1 },
    })
  })

  test('of a very long document are counted up to 80,000, in a state that fits a message', () => {
    const aggregate = createProgressAggregate()
    for (let at = 0; at < 80_010; at++) {
      aggregate.add(begun(`urn:chunk:${at}`, [unit, 'other']))
      if (at % 3 > 0) aggregate.add(replied(`urn:chunk:${at}`))
    }
    expect(aggregate.status(documentId)).toMatchObject({ state: 'running', chunks: 80_000 })
    expect(aggregate.save(documentId)!.length).toBeLessThan(600 * 1024)
  })

  test('are forgotten by an older ledger, and begin again after it', () => {
    const aggregate = createProgressAggregate()
    for (const each of [replied('a'), died('b')]) aggregate.add(each)
    const state = inflateRawSync(aggregate.save(documentId)!)
    const end = 4 + state.readUInt32LE(0)
    const header = JSON.parse(state.toString('utf8', 4, end)) as Record<string, unknown>
    for (const name of ['known', 'indexes', 'seen', 'seenAt']) delete header[name]
    const text = Buffer.from(JSON.stringify(header))
    const length = Buffer.alloc(4)
    length.writeUInt32LE(text.length)
    const after = createProgressAggregate()
    after.restore(deflateRawSync(Buffer.concat([length, text, state.subarray(end)])))
    for (const id of ['c', 'a']) after.add(begun(id))
    expect(after.status(documentId)).toMatchObject({
      state: 'running',
      chunks: 2,
      units: { done: 0, dead: 0 },
    })
  })
})

describe('chunks that a part announces by their keys', () => {
  const document = (parts: number) => entry({ kind: 'document', parts, title: 'T' })

  test('are expected, and done whatever their ids look like', () => {
    const ids = ['#aa', '#bb/0/1']
    const start = [document(1), partOf(ids)]
    expect(statusAfter(...start)).toMatchObject({
      state: 'running',
      chunks: 2,
      units: { expected: 2, done: 0 },
    })
    expect(statusAfter(...start, replied(ids[0]!))).toMatchObject({ state: 'running', units: { done: 1 } })
    expect(statusAfter(...start, ...ids.map((id) => replied(id)))).toMatchObject({
      state: 'done',
      units: { done: 2 },
    })
    expect(statusAfter(...ids.map((id) => replied(id)), ...start)).toMatchObject({ state: 'done' })
  })

  test('stay done when they move to another part, and no longer count when they are gone', () => {
    const before = [
      document(2),
      partOf(['a', 'b'], 0),
      partOf(['c'], 1),
      replied('a'),
      replied('b'),
      died('c'),
    ]
    expect(statusAfter(...before)).toMatchObject({
      state: 'partial',
      units: { expected: 3, done: 2, dead: 1 },
    })
    const moved = [partOf(['new', 'a'], 0), partOf(['b'], 1)]
    expect(statusAfter(...before, ...moved)).toMatchObject({
      state: 'running',
      chunks: 3,
      units: { expected: 3, done: 2, dead: 0 },
    })
    expect(statusAfter(...before, ...moved, replied('new'))).toMatchObject({
      state: 'done',
      units: { done: 3 },
    })
  })

  test('that a document has twice are one, and those of parts that it no longer has are none', () => {
    const twice = [document(2), partOf(['a', 'b', 'a'], 0), partOf(['b', 'c'], 1)]
    expect(statusAfter(...twice)).toMatchObject({ chunks: 3, units: { expected: 3 } })
    expect(statusAfter(...twice, document(1))).toMatchObject({ chunks: 2, units: { expected: 2 } })
  })

  test('are as before after a restart, and expire like others', () => {
    const aggregate = createProgressAggregate()
    for (const each of [document(1), partOf(['a', 'b', 'c']), replied('a')]) aggregate.add(each)
    const after = restored(aggregate)
    expect(after.status(documentId)).toEqual(aggregate.status(documentId))
    expect(runningUnits(after.save(documentId)!).units).toEqual(new Map([[unit, 2]]))
    const lost = { topic: 'gm.flow.chunk.w.f', processor: unit, partition: 0, before: 5000, time: 1 }
    after.add(entry({ kind: 'lost', lost }))
    expect(after.status(documentId)).toMatchObject({ state: 'partial', units: { done: 1, dead: 2 } })
  })
})
