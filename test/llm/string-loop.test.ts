import fc from 'fast-check'
import { expect, it } from 'vitest'
import { watchStringLoop } from '../../src/llm/string-loop.ts'

/** How much of a text is read, given in pieces; undefined for all of it. */
function read(pieces: readonly string[]): number | undefined {
  const loop = watchStringLoop()
  let length = 0
  for (const piece of pieces) {
    const end = loop.end(piece)
    if (end !== undefined) return length + end
    length += piece.length
  }
  return undefined
}

const inString = (text: string) => `{"entity": "mill", "definition": "It ${text}"}\n`
const varied = (length: number) =>
  Array.from({ length }, (_, n) => `${(n * 7919) % 10_007} grains; `)
    .join('')
    .slice(0, length)

it.each([
  ['a letter', 'a'],
  ['a phrase', 'the mill of the mill of '],
  ['a phrase with quotes and backslashes', 'so \\\\ he said \\"no\\" and '],
  ['a long sentence', `${varied(900)} `],
  ['digits', '0'],
  ['lines', 'and so on\\n'],
])('ends a string that repeats %s, after 32,768 characters', (_, period) => {
  const least = 32_768
  const end = read([inString(period.repeat(60_000 / period.length))])
  expect(end).toBeGreaterThanOrEqual(least)
  expect(end).toBeLessThan(least + 4096)
})

it.each([
  ['laughter', 'ha '.repeat(10_000)],
  ['a border', '-'.repeat(30_000)],
  ['a short table', '|---'.repeat(7000)],
  ['a refrain', `${varied(400)} `.repeat(60)],
  ['a sequence with long repeats', 'CAG'.repeat(10_000) + varied(50) + 'CAG'.repeat(10_000)],
  ['a long text', varied(200_000)],
  ['a loop with a counter', Array.from({ length: 5000 }, (_, n) => `item ${n}, `).join('')],
])('leaves a string with %s', (_, text) => {
  expect(read([inString(text)])).toBeUndefined()
})

it('leaves repetitions between strings: equal items, and lists of numbers, nulls and booleans', () => {
  expect(read([inString('turns').repeat(2000)])).toBeUndefined()
  for (const element of ['0, ', '0.5,\n', 'null, ', 'true,false,', '[0,1], '])
    expect(read([`{"a": [${element.repeat(20_000)}1], "b": "x"}`])).toBeUndefined()
})

it('is the same for any pieces', () => {
  const part = fc.oneof(
    fc.constantFrom('"', '\\"', '\\\\"', '\\', 'the mill "', 'x'),
    fc
      .tuple(fc.constantFrom('a', 'ab ', 'the mill of ', '\\"no\\" '), fc.nat(50_000))
      .map(([p, n]) => p.repeat(n).slice(0, n)),
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 6 }), fc.array(fc.nat(100_000)), (parts, cuts) => {
      const text = parts.join('')
      const ends = [...new Set([0, ...cuts.filter((cut) => cut < text.length), text.length])].sort(
        (a, b) => a - b,
      )
      const pieces = ends.slice(1).map((end, index) => text.slice(ends[index], end))
      const whole = read([text])
      expect(read(pieces)).toBe(whole)
      expect(read([...text])).toBe(whole)
    }),
    { numRuns: 60 },
  )
})

it('takes linear time for backslashes, quotes and texts that almost repeat', () => {
  const size = 4_000_000
  for (const text of [
    '\\'.repeat(size),
    '\\"'.repeat(size / 2),
    '"'.repeat(size),
    `${'a'.repeat(1023)}b`.repeat(3) + varied(size),
  ]) {
    const started = performance.now()
    read([text])
    expect(performance.now() - started).toBeLessThan(5000)
  }
})
