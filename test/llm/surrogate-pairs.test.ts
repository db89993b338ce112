// Pairs of surrogates over deltas.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createPairing } from '../../src/llm/surrogate-pairs.ts'

it('texts that are cut at any code unit are joined again, in well-formed pieces', () => {
  const text = fc.string({ unit: 'binary' })
  fc.assert(
    fc.property(text, fc.array(fc.nat(3)), (whole, cuts) => {
      let lone = 0
      const pairing = createPairing(() => lone++)
      const pieces: string[] = []
      let at = 0
      for (const size of cuts) {
        pieces.push(pairing.join(whole.slice(at, at + size)))
        at += size
      }
      pieces.push(pairing.join(whole.slice(at)), pairing.end())
      expect(pieces.join('')).toBe(whole.toWellFormed())
      expect(pieces.every((piece) => piece.isWellFormed())).toBe(true)
      expect(lone > 0).toBe(!whole.isWellFormed())
    }),
    {
      numRuns: 1000,
      examples: [
        ['😀', [1]],
        ['a\ud83d', [1, 1]],
        ['\ud83d\ud83d\ude00', [1, 1, 1]],
      ],
    },
  )
})
