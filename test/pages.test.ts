import fc from 'fast-check'
import { expect, test } from 'vitest'
import { pageAt, pagesWithin } from '../src/pages.ts'

test('a position is on the same page in whichever part it is looked up', () => {
  const document = fc.record({
    lengths: fc.array(fc.nat(20), { minLength: 1, maxLength: 30 }),
    cuts: fc.array(fc.nat(300), { maxLength: 10 }),
  })
  fc.assert(
    fc.property(document, ({ lengths, cuts }) => {
      const starts = lengths.map((_, n) => lengths.slice(0, n).reduce((sum, length) => sum + length, 0))
      const end = lengths.reduce((sum, length) => sum + length, 0)
      const edges = [0, ...new Set(cuts.filter((cut) => cut > 0 && cut < end)), end].sort((a, b) => a - b)
      for (const [at, offset] of edges.slice(0, -1).entries()) {
        const part = { offset, text: 'x'.repeat(edges[at + 1]! - offset) }
        const pages = pagesWithin(starts, part)
        for (let place = offset; place < offset + part.text.length; place++)
          expect(pageAt(pages, place)).toBe(starts.findLastIndex((start) => start <= place) + 1)
      }
    }),
  )
})

test('a document without pages has no page numbers', () => {
  const pages = pagesWithin([], { offset: 10, text: 'mill' })
  expect(pages).toEqual({ firstPage: 1, pages: [] })
  expect(pageAt(pages, 12)).toBeNull()
})
