import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createRepetitionGuard } from '../../../src/prompt/engine/repetition.ts'

/** Where 4,096 characters of white space in succession end, counted one by one. */
function endOfBlank(text: string): number {
  let count = 0
  for (const [place, character] of [...text].entries()) {
    count = /\s/.test(character) ? count + 1 : 0
    if (count === 4096) return place + 1
  }
  return text.length
}

/** How much of a text is read, given in pieces. */
function read(pieces: readonly string[]): number {
  const guard = createRepetitionGuard()
  let length = 0
  for (const piece of pieces) {
    const kept = guard.blank(piece)
    if (kept !== undefined) return length + kept.length
    length += piece.length
  }
  return length
}

it('ends a reply with 4,096 characters of white space in succession, in any pieces', () => {
  const stretch = fc.tuple(fc.constantFrom('', 'x', 'xyz'), fc.nat(6000))
  fc.assert(
    fc.property(fc.array(stretch, { maxLength: 5 }), fc.array(fc.nat(20_000)), (stretches, cuts) => {
      const text = stretches
        .map(([word, spaces]) => word + ' \n\t\r'.repeat(spaces).slice(0, spaces))
        .join('')
      const places = [...new Set([0, ...cuts.filter((cut) => cut < text.length), text.length])]
      const ends = places.sort((a, b) => a - b)
      const pieces = ends.slice(1).map((end, index) => text.slice(ends[index], end))
      expect(read(pieces)).toBe(endOfBlank(text))
      expect(read([...text])).toBe(endOfBlank(text))
    }),
    { numRuns: 200 },
  )
})

it('reports that items repeat after twenty in succession, and starts again with another one', () => {
  const guard = createRepetitionGuard()
  const told = Array.from({ length: 40 }, (_, n) => guard.repeats(n !== 15))
  expect(told.indexOf(true)).toBe(35)
})
