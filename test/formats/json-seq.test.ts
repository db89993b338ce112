// JSON text sequences (RFC 7464): each case in every split of its bytes.
import { expect, it } from 'vitest'
import { readJsonSeq } from '../../src/formats/json-seq.ts'
import { all, bytes, inEverySplit } from './splits.ts'

const value = (given: unknown) => ({ value: given })

it.each<[string, string, unknown[]]>([
  ['texts', 'R{"a":1}\nR{"b":2}\n', [value({ a: 1 }), value({ b: 2 })]],
  ['separators in a row as no element', 'RR{"a":1}\n', [value({ a: 1 })]],
  ['objects without a line feed', 'R{"a":1}R{"b":2}\n', [{ unterminated: { a: 1 } }, value({ b: 2 })]],
  ['a number that may be cut off', 'R12R13\n', ['broken 1', value(13)]],
  ['a number with its line feed', 'R12\n', [value(12)]],
  ['a number with a space behind it', 'R12 R13\n', [{ unterminated: 12 }, value(13)]],
  ['a number that the end may have cut off', 'R12', ['truncated 1']],
  [
    'words that the end may have cut off',
    'RtrueRfalse RnullR',
    ['broken 1', { unterminated: false }, 'broken 1'],
  ],
  ['a string, which ends itself', 'R"x"', [{ unterminated: 'x' }]],
  ['half a word', 'Rtru', ['truncated 1']],
  ['a text that the next one cut off', 'R{"a":R{"b":2}\n', ['broken 1', value({ b: 2 })]],
  ['text before the first separator', '{"x":0}\nR{"a":1}\n', ['ignored 1', value({ a: 1 })]],
  ['white space before the first separator', ' \nR1\n', [value(1)]],
  ['text without any separator', '{"x":0}\n', ['ignored 1']],
  ['a text over several lines', 'R{\n "a":1\n}\n', [value({ a: 1 })]],
  ['an empty element', 'R\nR{"a":1}\n', ['ignored 1', value({ a: 1 })]],
  ['an empty element at the end', 'R1\nR\n', [value(1), 'ignored 2']],
  ['two texts in one element as an error', 'R{"a":1}\n{"b":2}\n', ['invalid_json 1']],
  ['an error that is not cut off', 'R{a}\nR1\n', ['invalid_json 1', value(1)]],
  ['the end inside a text, behind a line feed', 'R1\nR{\n"a":\n', [value(1), 'truncated 2']],
  ['the end inside a string', 'R"abc', ['truncated 1']],
  ['the line on which a text begins', 'R[\n1]\nR[\n\n2]\nRx\n', [value([1]), value([2]), 'invalid_json 6']],
  ['a byte order mark by dropping it', '<BOM>R1\n', ['ignored 1', value(1)]],
  ['characters of several bytes', 'R"é€😀"\n', [value('é€😀')]],
])('reads %s', async (_, text, expected) => {
  expect(await inEverySplit((source) => readJsonSeq(source), text.replaceAll('R', '<RS>'))).toEqual(expected)
})

it('rejects a text that is too large or too deep, and continues with the next', async () => {
  const read = (source: Uint8Array[]) => readJsonSeq(source, { maxRecord: 10, maxDepth: 1 })
  const text = '<RS>"\n\n23456789"\n<RS>[[]]\n<RS>1\n'
  expect(await inEverySplit(read, text)).toEqual(['too_large 1', 'too_deep 4', value(1)])
})

it('throws on request', async () => {
  const reading = all(readJsonSeq(bytes('<RS>1\n<RS>{"a":<RS>2\n'), { raise: true }))
  await expect(reading).rejects.toMatchObject({
    code: 'record_invalid',
    details: { reason: 'broken', line: 2 },
  })
})
