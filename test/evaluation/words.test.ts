import { describe, expect, test } from 'vitest'
import { createWordSearch, normalText, wordOverlap } from '../../src/evaluation/words.ts'

describe('normalText', () => {
  test.each([
    ['Albion  Mills', ' albion mills.'],
    ['ﬁn', 'fin'], // NFKC
    ['Café', 'Cafe\u0301'],
    ['Ｍｉｌｌ', 'mill'],
    ['a\u00a0b', 'a b'],
    ['水車。', '水車'],
    ['what?!', 'What'],
  ])('%j equals %j', (one, other) => expect(normalText(one)).toBe(normalText(other)))

  test.each([
    ['mill', 'mills'],
    ['St. Ives', 'St Ives'],
    ['1.5', '15'],
    ['mill (old)', 'mill (old'],
  ])('%j differs from %j', (one, other) => expect(normalText(one)).not.toBe(normalText(other)))

  test('keeps a text of punctuation, and reads a long one', () => {
    expect(normalText('...')).toBe('...')
    expect(normalText(`${'.'.repeat(100_000)}a${'.'.repeat(100_000)}`)).toHaveLength(100_001)
  })
})

describe('words of a name in a text', () => {
  const stands = createWordSearch(
    'In 1786, Rennie’s Albion Mills opened; 水車が川にある。 A windmill turned.',
  )
  test.each(['albion mills', 'Albion Mill', 'RENNIE', '1786', '水車', '川', 'windmills', '—'])(
    '%s stands there',
    (name) => expect(stands(name)).toBe(true),
  )
  test.each(['Mills Albion', 'art', 'mill turned', 'bion', '178', '水川'])('%s does not', (name) =>
    expect(stands(name)).toBe(false),
  )
})

test('the overlap of two texts is the F1 of their words, each counted as often as it occurs', () => {
  // 3 shared words of 4 and 5: 2 · 3 / 9.
  expect(wordOverlap('a building that grinds', 'A big building, that mills')).toBeCloseTo(6 / 9, 10)
  expect(wordOverlap('mill mill', 'mill')).toBeCloseTo(2 / 3, 10)
  expect(wordOverlap('mill', 'barn')).toBe(0)
  expect(wordOverlap('…', '…')).toBe(1)
})
