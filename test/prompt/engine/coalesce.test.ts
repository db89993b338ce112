import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { coalesce, collect } from '../../../src/prompt/engine/coalesce.ts'

/** The pieces come some turns of the event loop apart. */
async function* source(pieces: readonly string[]) {
  for (const piece of pieces) {
    await turn()
    await turn()
    yield [piece]
  }
}
/** The reader is busy; the source has long ended. */
const busy = async () => {
  for (let turns = 0; turns < 40; turns++) await turn()
}
const size = (piece: string) => piece.length

describe('coalesce', () => {
  test('gives the first piece at once, and what came meanwhile together', async () => {
    const batches = coalesce(source(['a', 'b', 'c']), size, 10)
    expect((await batches.next()).value).toEqual(['a'])
    await busy()
    expect((await batches.next()).value).toEqual(['b', 'c'])
    expect((await batches.next()).done).toBe(true)
  })

  test('gives together what came in one turn of the event loop', async () => {
    const together = (async function* () {
      yield ['a', 'b']
      yield ['c']
      await turn()
      yield ['d']
    })()
    const seen: string[][] = []
    for await (const batch of coalesce(together, size, 10)) seen.push(batch)
    expect(seen).toEqual([['a', 'b', 'c'], ['d']])
  })

  test('holds a batch to its size, unless one piece alone is larger', async () => {
    const batches = coalesce(source(['a', 'bb', 'bb', 'cccccc', 'd']), size, 4)
    const seen = [(await batches.next()).value]
    await busy()
    for await (const batch of batches) seen.push(batch)
    expect(seen).toEqual([['a'], ['bb', 'bb'], ['cccccc'], ['d']])
  })
})

describe('collect', () => {
  test('gives everything in one batch', async () => {
    const seen: string[][] = []
    for await (const batch of collect(source(['a', 'b', 'c']), size, 10)) seen.push(batch)
    expect(seen).toEqual([['a', 'b', 'c']])
  })

  test('gives as few batches as their size allows', async () => {
    const seen: string[][] = []
    for await (const batch of collect(source(['aaaaa', 'b', 'cc', 'dd', '']), size, 4)) seen.push(batch)
    expect(seen).toEqual([['aaaaa'], ['b', 'cc'], ['dd', '']])
  })
})
