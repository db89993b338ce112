// Document parts: where a long text is cut, and that the cuts neither lose text nor depend on how it arrives.
import { hash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cutParts, type TextPart } from '../../src/documents/parts.ts'

async function cut(pieces: readonly string[], maxBytes: number): Promise<TextPart[]> {
  const parts: TextPart[] = []
  for await (const part of cutParts(pieces, maxBytes)) parts.push(part)
  return parts
}

test.each<[where: string, text: string, maxBytes: number, parts: string[]]>([
  [
    'after the last paragraph',
    'One.\n\nTwo.\n \n\tThree is long.',
    20,
    ['One.\n\nTwo.\n \n\t', 'Three is long.'],
  ],
  ['after the last line', 'One word.\nTwo words.\nThree.', 24, ['One word.\nTwo words.\n', 'Three.']],
  ['after white space that is not ASCII', 'One\u3000two\u2028three', 14, ['One\u3000two\u2028', 'three']],
  [
    'after a line whose white space holds no empty line',
    'One two.\n\v\nThree four.',
    18,
    ['One two.\n\v\n', 'Three four.'],
  ],
  ['after the last word', 'One two three four', 10, ['One two ', 'three four']],
  ['in a word without end', 'abcdefghij', 4, ['abcd', 'efgh', 'ij']],
  ['between characters', '🌾🌾🌾', 9, ['🌾🌾', '🌾']],
  ['not in the first half', 'One.\n\nTwothreefourfive', 16, ['One.\n\nTwothreefo', 'urfive']],
])('a part ends %s', async (_where, text, maxBytes, parts) => {
  expect((await cut([text], maxBytes)).map((part) => part.text)).toEqual(parts)
})

test('parts lose nothing, keep the limit, know their place and do not depend on how the text arrives', () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom('a', 'mill', ' ', '\n', '\n\n', '\r\n', '🌾', '東'), { maxLength: 200 }),
      fc.integer({ min: 4, max: 60 }),
      async (pieces, maxBytes) => {
        const parts = await cut(pieces, maxBytes)
        const text = pieces.join('')
        expect(parts.map((part) => part.text).join('')).toBe(text)
        for (const [index, part] of parts.entries()) {
          expect(part.part).toBe(index)
          expect(part.last).toBe(index === parts.length - 1)
          expect(text.startsWith(part.text, part.offset)).toBe(true)
          expect(Buffer.byteLength(part.text)).toBeLessThanOrEqual(maxBytes)
        }
        expect(await cut([text], maxBytes)).toEqual(parts)
      },
    ),
  ))

test.each([
  ['line feeds', '\n'],
  ['carriage returns', '\r\n'],
  ['spaces', ' '],
  ['indented empty lines', '\n  '],
])('a text of %s is cut in linear time', { timeout: 30_000 }, async (_what, blank) => {
  const before = process.cpuUsage()
  const parts = await cut([blank.repeat(2e6 / blank.length)], 512 * 1024)
  expect(parts).toHaveLength(4)
  // It takes some 0.1 s; a search from every line feed to the end took minutes.
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(10)
})

test('after an insertion, the cuts behind it are soon where they were', () =>
  fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 1e6 }),
      fc.constantFrom('\n\n', '\n', ' '),
      async (seed, separator) => {
        const words = Array.from({ length: 4000 }, (_, n) => hash('md5', `${seed} ${n}`).slice(0, 9))
        const text = words.join(separator)
        const textsOf = async (whole: string) => (await cut([whole], 1024)).map((part) => part.text)
        const before = new Set(await textsOf(text))
        const after = await textsOf(`An insertion at the beginning.${separator}${text}`)
        expect(after.length).toBeGreaterThan(25)
        expect(after.filter((part) => !before.has(part)).length).toBeLessThan(after.length / 2)
      },
    ),
    { numRuns: 50 },
  ))
