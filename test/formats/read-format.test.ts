// A format by its name, and the object that `graphmill parse --format` prints.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formats } from '../../src/formats/format.ts'
import { parseFormat, readFormat } from '../../src/formats/read-format.ts'
import { all, bytes } from './splits.ts'

describe('any bytes', () => {
  const scraps = fc.constantFrom(
    '{"a":',
    '1',
    '}',
    '[',
    ']',
    '"',
    '\\',
    '\n',
    '\r',
    '<RS>',
    '<FF>',
    'true',
    ' ',
    ',',
    'é😀',
    '<BOM>',
  )

  it.each(formats)('give the same events in %s, however they are cut', async (format) => {
    await fc.assert(
      fc.asyncProperty(fc.array(scraps, { maxLength: 30 }), fc.array(fc.nat(7)), async (pieces, cuts) => {
        const whole = bytes(pieces.join(''))
        function* chunks() {
          let at = 0
          for (const size of cuts) {
            yield whole.slice(at, at + size)
            at += size
          }
          yield whole.slice(at)
        }
        expect(await all(readFormat(format, chunks()))).toEqual(await all(readFormat(format, whole)))
      }),
      { numRuns: 300 },
    )
  })
})

it('an input becomes items, rejections, repairs, and the remaining text', async () => {
  expect(await parseFormat('ndjson', bytes('<BOM>{"a":1}\nx\n\n"<FF>"\n[1e999]\n2'))).toEqual({
    items: [{ a: 1 }, '\ufffd', 2],
    rejected: [
      { reason: 'invalid_json', line: 2, text: 'x' },
      { reason: 'not_finite', line: 5, text: '[1e999]' },
    ],
    repaired: [{ item: 1, line: 4, repairs: ['encoding'] }],
    ignored: 0,
    truncated: false,
  })
})

it('text outside of every element is counted by its lines', async () => {
  expect(await parseFormat('json-seq', bytes('one\n\ntwo\n<RS>\n<RS>1\n<RS>{"a'))).toEqual({
    items: [1],
    rejected: [],
    repaired: [],
    ignored: 2,
    truncated: true,
  })
})

it('a value that fails its check is rejected', async () => {
  const check = (value: unknown) => (value === 2 ? 'must not be 2' : undefined)
  expect(await parseFormat('concatenated', bytes('1 2.0 3'), { check })).toMatchObject({
    items: [1, 3],
    rejected: [{ reason: 'schema', line: 1, text: '2.0' }],
  })
})

it('the text of a rejection is short', async () => {
  const { rejected } = await parseFormat('jsonl', bytes(`${'é'.repeat(1000)}\n"${'€'.repeat(1_000_000)}"\n`))
  expect(rejected.map(({ reason, text }) => [reason, text.length])).toEqual([
    ['invalid_json', 200],
    ['too_large', 200],
  ])
})
