// Chunks of a text. The expected chunks are those of TrustGraph's recursive splitter for the same text, size and overlap.
import { hash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { codePoints } from '../../src/code-points.ts'
import { type SplitOptions, splitText, type TextChunk } from '../../src/documents/split.ts'

const split = (text: string, chunkSize: number, chunkOverlap: number) =>
  splitText(text, { chunkSize, chunkOverlap })
const textsOf = (chunks: readonly TextChunk[]) => chunks.map((chunk) => chunk.text)

const mill =
  'The mill stands by the river.\n\nIt grinds wheat for the parish, and rye for the bakers of the town beyond the hill.\n\nNobody knows who built it.'
const lines =
  'One line.\nAnother line of it.\nThe last.\n\n\nA paragraph after two empty lines.\n\n\n\nThe end.'

test.each<[what: string, text: string, size: number, overlap: number, chunks: string[]]>([
  [
    'paragraphs, and the words of a long one',
    mill,
    40,
    10,
    [
      'The mill stands by the river.',
      'It grinds wheat for the parish, and rye',
      'and rye for the bakers of the town',
      'the town beyond the hill.',
      'Nobody knows who built it.',
    ],
  ],
  [
    'lines, and paragraphs after several empty lines',
    lines,
    30,
    8,
    [
      'One line.\nAnother line of it.',
      'The last.',
      'A paragraph after two empty',
      'empty lines.',
      'The end.',
    ],
  ],
  [
    'lines that end with a carriage return',
    'First line.\r\nSecond line.\r\n\r\nSecond paragraph.\r\n',
    20,
    5,
    ['First line.', 'Second line.', 'Second paragraph.'],
  ],
  [
    'a word without end',
    'abcdefghijklmnopqrstuvwxyz',
    10,
    3,
    ['abcdefghij', 'hijklmnopq', 'opqrstuvwx', 'vwxyz'],
  ],
  ['no overlap', 'abcdefghij', 4, 0, ['abcd', 'efgh', 'ij']],
  ['the largest overlap', 'abcdef', 3, 2, ['abc', 'bcd', 'cde', 'def']],
  [
    'characters of two code units',
    '🌾🌾🌾🌾🌾 🦀🦀🦀🦀🦀🦀🦀 東京',
    5,
    1,
    ['🌾🌾🌾🌾🌾', '🦀🦀🦀🦀', '🦀🦀🦀🦀', '東京'],
  ],
  ['a text that repeats itself', 'a a a a a a a a', 5, 3, ['a a a', 'a a', 'a a', 'a a', 'a a', 'a a']],
  ['the white space of Python', '  \x1c one \x85\n\n \ufeff two\u3000\n', 5, 0, ['one', '\ufeff', 'two']],
  [
    'a long word before short ones',
    'supercalifragilistic words\nand a line',
    8,
    2,
    ['supercal', 'alifragi', 'gilistic', 'words', 'and a', 'a line'],
  ],
  ['halves of surrogate pairs', 'a\ud83c\ud83c b\udf3e', 3, 0, ['a\ud83c\ud83c', 'b\udf3e']],
  ['only white space', ' \n\n \t\n', 5, 0, []],
  ['nothing', '', 5, 0, []],
])('%s', async (_what, text, size, overlap, chunks) => {
  expect(textsOf(await split(text, size, overlap))).toEqual(chunks)
})

test('equal chunks of a text that repeats itself have the places they were cut from', async () => {
  const chunks = await split('a a a a a a a a', 5, 3)
  expect(chunks.map(({ offset }) => offset)).toEqual([0, 4, 6, 8, 10, 12])
})

const textArbitrary = fc
  .array(
    fc.constantFrom('a', 'mill', ' ', '\n', '\n\n', '\r\n', '\t', '🌾', '東', '\u3000', 'x'.repeat(30)),
    {
      maxLength: 300,
    },
  )
  .map((pieces) => pieces.join(''))
const optionsArbitrary = fc.integer({ min: 1, max: 80 }).chain((chunkSize) =>
  fc.record({
    chunkSize: fc.constant(chunkSize),
    chunkOverlap: fc.integer({ min: 0, max: chunkSize - 1 }),
  }),
)

/** Runs `check` for the chunks of many texts. */
const forChunks = (check: (text: string, chunks: TextChunk[], options: SplitOptions) => void) =>
  fc.assert(
    fc.asyncProperty(textArbitrary, optionsArbitrary, async (text, options) =>
      check(text, await splitText(text, options), options),
    ),
    { numRuns: 200 },
  )

test('a chunk stands at its offset, has no white space around it and no more characters than asked for', () =>
  forChunks((text, chunks, { chunkSize }) => {
    for (const chunk of chunks) {
      expect(text.slice(chunk.offset, chunk.offset + chunk.text.length)).toBe(chunk.text)
      expect(chunk.text.trim()).toBe(chunk.text)
      expect(chunk.text).not.toBe('')
      expect(codePoints(chunk.text)).toBeLessThanOrEqual(chunkSize)
    }
  }))

test('only white space is between chunks, and neighbours share no more than the overlap', () =>
  forChunks((text, chunks, { chunkOverlap }) => {
    let end = 0
    for (const chunk of [...chunks, { offset: text.length, text: '' }]) {
      expect(text.slice(end, chunk.offset).trim()).toBe('')
      expect(codePoints(text, chunk.offset, end)).toBeLessThanOrEqual(chunkOverlap)
      end = chunk.offset + chunk.text.length
    }
  }))

test.each([
  ['letters', 'x', 2000],
  ['emoji', '🌾', 2000],
  ['empty lines', '\n', 2000],
  ['spaces', ' ', 2000],
  ['words', 'mill ', 2000],
  ['paragraphs without a space, which stands only at the end', 'xxxxxx\n\n', 5],
])('the time is linear in the length of the text: %s', { timeout: 60_000 }, async (_what, piece, size) => {
  const text = `${piece.repeat(3e6 / piece.length)} \n`
  const before = process.cpuUsage()
  await split(text, size, size >> 4)
  // It takes up to 1 s. With a search from each chunk to the end of the text it takes 10 s and more.
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(5)
})

test('other work of the process continues while a long text is split', async () => {
  let [turns, isDone] = [0, false]
  const count = () => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await split('mill '.repeat(2e6), 2000, 100)
  isDone = true
  expect(turns).toBeGreaterThan(2)
})

describe('after an insertion', () => {
  const words = (count: number, seed: number) =>
    Array.from({ length: count }, (_, n) => hash('md5', `${seed} ${n}`).slice(0, 2 + (n % 7))).join(' ')
  const shapes: [string, (seed: number) => string][] = [
    [
      'paragraphs',
      (seed) => Array.from({ length: 200 }, (_, n) => words(20 + (n % 60), seed + 2 * n)).join('\n\n'),
    ],
    ['lines', (seed) => Array.from({ length: 1200 }, (_, n) => words(10, seed + 2 * n)).join('\n')],
    ['one paragraph', (seed) => words(12_000, seed)],
  ]

  test.each(shapes)('a text of %s has few new chunks, wherever it was', (_shape, textOf) =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 1e6 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        async (seed, share) => {
          const text = textOf(seed)
          const at = text.indexOf(' ', Math.floor(share * (text.length - 100)))
          const before = new Set(textsOf(await split(text, 500, 50)))
          const after = textsOf(await split(`${text.slice(0, at)} a few words${text.slice(at)}`, 500, 50))
          expect(before.size).toBeGreaterThan(80)
          expect(after.filter((chunk) => !before.has(chunk)).length).toBeLessThanOrEqual(before.size / 3)
        },
      ),
      // Of random texts, one in a thousand has more.
      { numRuns: 20, seed: 1 },
    ),
  )
})
