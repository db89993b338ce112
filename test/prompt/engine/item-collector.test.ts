import { describe, expect, test } from 'vitest'
import { ItemCollector } from '../../../src/prompt/engine/item-collector.ts'

const knowAll = (items: readonly unknown[]) => {
  const collector = new ItemCollector()
  collector.nextCall()
  return { collector, known: items.map((item) => collector.know(item)) }
}

describe('an item is known again', () => {
  test('with any order of its keys, at any depth', () => {
    const items = [
      { e: 'a', d: { x: [1, { y: 2, z: 3 }], w: null } },
      { d: { w: null, x: [1, { z: 3, y: 2 }] }, e: 'a' },
    ]
    expect(knowAll(items).known).toStrictEqual(['new', 'repeated'])
  })

  test('but not one that differs in a key, a type, a place or a character', () => {
    const items = [
      { e: 'a', d: 'b' },
      { e: 'b', d: 'a' },
      { e: '1', d: 1 },
      { e: 1, d: '1' },
      { e: [1, 2], d: null },
      { e: [2, 1], d: null },
      { e: 'null', d: '' },
      { e: { d: 1 } },
      { e: [{ d: 1 }] },
      { e: `${'x'.repeat(500)}y${'x'.repeat(500)}` },
      { e: `${'x'.repeat(500)}z${'x'.repeat(500)}` },
    ]
    expect(new Set(knowAll(items).known)).toStrictEqual(new Set(['new']))
  })

  test('over calls, so that a call does not repeat what another gave', () => {
    const { collector } = knowAll([{ e: 'a' }])
    collector.nextCall()
    expect(collector.know({ e: 'a' })).toBe('from an earlier call')
    expect(collector.know({ e: 'b' })).toBe('new')
    expect(collector.know({ e: 'b' })).toBe('repeated')
  })

  test('among the first hundred thousand of a run, so that memory is bounded', () => {
    const { collector } = knowAll(Array.from({ length: 100_000 }, (_, n) => ({ n })))
    expect(collector.know({ n: 99_999 })).toBe('repeated')
    expect(collector.know({ n: 100_000 })).toBe('new')
    expect(collector.know({ n: 100_000 })).toBe('new')
  })
})
