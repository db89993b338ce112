// Concatenated JSON: each case in every split of its bytes.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { readConcatenatedJson } from '../../src/formats/concatenated.ts'
import { all, bytes, inEverySplit } from './splits.ts'

const value = (given: unknown) => ({ value: given })

it.each<[string, string, unknown[]]>([
  ['objects without anything between them', '{"a":1}{"b":2}', [value({ a: 1 }), value({ b: 2 })]],
  ['arrays', '[1][2]', [value([1]), value([2])]],
  ['numbers apart', '1 2 ', [value(1), value(2)]],
  ['a number at the end of the input', '12', [{ unterminated: 12 }]],
  ['words that run together as an error', 'truefalse', ['invalid_json 1']],
  ['words apart', 'true\nfalse\tnull ', [value(true), value(false), value(null)]],
  ['strings', '"a""b"', [value('a'), value('b')]],
  ['braces inside strings', '{"a":"}{"}{}', [value({ a: '}{' }), value({})]],
  ['escapes inside strings', '{"a":"\\\\"}["\\"]"]', [value({ a: '\\' }), value(['"]'])]],
  ['a closer too many', '{"a":1}}{"b":2}', [value({ a: 1 }), 'invalid_json 1', value({ b: 2 })]],
  ['a closer of the wrong kind', '{"a":[1}{"b":2}', ['invalid_json 1', value({ b: 2 })]],
  ['commas between texts as errors', '[1],[2]', [value([1]), 'invalid_json 1', value([2])]],
  [
    'a number before an object or a string',
    '1{"a":2}3"b"',
    [value(1), value({ a: 2 }), value(3), value('b')],
  ],
  ['texts over several lines', '{\n"a":1\n}\n\n{"b"\n:x}', [value({ a: 1 }), 'invalid_json 5']],
  ['the end inside an object', '{"a":1}\n{"b":{', [value({ a: 1 }), 'truncated 2']],
  ['the end inside a string', '"abc', ['truncated 1']],
  ['the end inside a word', '1 tru', [value(1), 'truncated 1']],
  ['the end inside a number', '-1.5e', ['truncated 1']],
  ['an end that is no cut', '1 truth', [value(1), 'invalid_json 1']],
  ['a byte order mark by dropping it', '<BOM>{}', ['ignored 1', value({})]],
  ['characters that begin no text', 'ï1 2 ', ['invalid_json 1', value(2)]],
  ['nothing', ' \r\n', []],
])('reads %s', async (_, text, expected) => {
  expect(await inEverySplit((source) => readConcatenatedJson(source), text)).toEqual(expected)
})

it('ends at the first error when it is strict', async () => {
  const read = (source: Uint8Array[]) => readConcatenatedJson(source, { strict: true })
  expect(await inEverySplit(read, '{"a":1}}{"b":2}')).toEqual([value({ a: 1 }), 'invalid_json 1'])
  expect(await inEverySplit(read, '<BOM>{}')).toEqual(['invalid_json 1'])
})

it('rejects a text that is too large or too deep, and continues after it', async () => {
  const read = (source: Uint8Array[]) => readConcatenatedJson(source, { maxRecord: 10, maxDepth: 2 })
  const text = '["12345678"][1][[[[]]]]{"a":{"b":[}}}[2]'
  expect(await inEverySplit(read, text)).toEqual([
    'too_large 1',
    value([1]),
    'too_deep 1',
    'too_large 1',
    value([2]),
  ])
})

it('keeps little of an endless text, however deep it is', async () => {
  const chunk = new Uint8Array(1 << 20).fill(0x5b)
  function* endless() {
    for (let count = 0; count < 64; count++) yield chunk
  }
  const before = process.memoryUsage()
  expect(await all(readConcatenatedJson(endless()))).toMatchObject([
    { type: 'rejected', reason: 'too_large' },
  ])
  const after = process.memoryUsage()
  expect((after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers) / 1e6).toBeLessThan(30)
})

it('reads back any values that were written one after the other', async () => {
  // Integers beyond a double are handed on as digits, which another test sees to.
  const json = fc
    .jsonValue({ maxDepth: 5 })
    .filter((given) => !/\d{16}/.test(JSON.stringify(given)))
    .map((given) => JSON.parse(JSON.stringify(given)) as unknown)
  await fc.assert(
    fc.asyncProperty(
      fc.array(json),
      fc.constantFrom(' ', '\n', '\r\n'),
      fc.nat(40),
      async (values, gap, size) => {
        const text = Buffer.from(values.map((each) => JSON.stringify(each) + gap).join(''))
        function* chunks() {
          for (let at = 0; at < text.length; at += size + 1)
            yield new Uint8Array(text.subarray(at, at + size + 1))
        }
        const events = await all(readConcatenatedJson(chunks()))
        expect(events.map((event) => (event.type === 'record' ? event.value : event))).toEqual(values)
      },
    ),
    { numRuns: 300 },
  )
})

it('throws on request', async () => {
  const reading = all(readConcatenatedJson(bytes('1 } 2'), { raise: true }))
  await expect(reading).rejects.toMatchObject({
    code: 'record_invalid',
    message: expect.stringContaining('Line 1'),
  })
})
