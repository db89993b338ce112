import { describe, expect, test } from 'vitest'
import { parseReply } from '../../src/items/parse.ts'
import { compileSchema } from '../../src/items/validate.ts'
import { itemSchema } from './replies.ts'

const schema = compileSchema(itemSchema)

async function* slowly(text: string) {
  for (const character of text) yield character
}

describe('a jsonl reply', () => {
  test('is one object with items, rejected, repaired, ignored and truncated', async () => {
    const text = 'Here:\n{"e":"a","d":"1"}\n{"e":"b"}\n{e:"c",d:"3"}\n{"e":"d'
    expect(await parseReply(slowly(text), { responseType: 'jsonl', schema })).toStrictEqual({
      items: [
        { e: 'a', d: '1' },
        { e: 'c', d: '3' },
      ],
      rejected: [{ reason: 'schema', line: 3, text: '{"e":"b"}' }],
      repaired: [{ item: 1, line: 4, repairs: ['keys'] }],
      ignored: 1,
      truncated: true,
    })
  })

  test('leaves out what a lone end of a thought shows to be a thought', async () => {
    const text = '{"e":"no","d":"0"}\n{"e":1}\n</think>\n{"e":"a","d":"1"}\n{"e":"b"}\n{e:"c",d:"2"}'
    expect(await parseReply(slowly(text), { responseType: 'jsonl', schema })).toStrictEqual({
      items: [
        { e: 'a', d: '1' },
        { e: 'c', d: '2' },
      ],
      rejected: [{ reason: 'schema', line: 5, text: '{"e":"b"}' }],
      repaired: [{ item: 1, line: 6, repairs: ['keys'] }],
      ignored: 1,
      truncated: false,
    })
  })

  test('may be read strictly', async () => {
    const parsed = await parseReply(['[1]\n', '{'], { responseType: 'jsonl', strict: true })
    expect(parsed).toStrictEqual({
      items: [[1]],
      rejected: [{ reason: 'invalid_json', line: 2, text: '{' }],
      repaired: [],
      ignored: 0,
      truncated: false,
    })
  })

  test('keeps no text in memory except its output', async () => {
    const line = `${JSON.stringify({ x: 'y'.repeat(1000) })}\n`.repeat(60)
    let fed = 0
    const chunks = (function* () {
      for (; fed < 30_000_000; fed += line.length) yield line
    })()
    const before = process.memoryUsage().heapUsed
    const { rejected } = await parseReply(chunks, { responseType: 'jsonl', schema })
    expect(rejected.length).toBeGreaterThan(29_000)
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(120e6)
  })
})

test('a text reply is one item', async () => {
  expect(await parseReply(['a ', '{b'], { responseType: 'text' })).toStrictEqual({
    items: ['a {b'],
    rejected: [],
    repaired: [],
    ignored: 0,
    truncated: false,
  })
})

describe('a json reply', () => {
  const parse = (text: string, of?: typeof schema) => parseReply([text], { responseType: 'json', schema: of })

  test.each([
    ['the whole text', ' {"a":[1]} ', { a: [1] }, 0],
    ['a scalar', '42', 42, 0],
    ['JSON in prose', 'It is {"a":1}', { a: 1 }, 1],
    ['the first fenced block', 'Sure:\n```json\n{"a":1}\n```\nand ```json\n{"a":2}\n```', { a: 1 }, 6],
    ['a bare fence', '```\n[1]\n```', [1], 2],
    ['a fence on one line', 'So ```json {"a":1} ``` it is', { a: 1 }, 2],
    ['a fence that was not closed', '```json\n{"a":1}', { a: 1 }, 1],
    ['the first block that says json', '```python\nx = {}\n```\nthen\n```json\n{"a":2}\n```', { a: 2 }, 6],
    ['a block of another language where there is no other', '```js\n{"a":3}\n```', { a: 3 }, 2],
    ['fences in its strings', '```json\n{"a":"```x```"}\n```', { a: '```x```' }, 2],
    ['fences in the strings of the whole text', '{"a":"```json\\n{}\\n```"}', { a: '```json\n{}\n```' }, 0],
  ])('is the value of %s', async (_, text, value, ignored) => {
    expect(await parse(text)).toStrictEqual({
      items: [value],
      rejected: [],
      repaired: [],
      ignored,
      truncated: false,
    })
  })

  test.each([
    ['invalid_json', 1, 'It is {"a": or so}', false],
    ['invalid_json', 1, '{"a":Truely}', false],
    ['invalid_json', 1, '{"a":"x', true],
    ['invalid_json', 3, 'x\n```json\n{"a":[1,', true],
    ['not_finite', 1, '{"a":1e999}', false],
    ['not_finite', 1, '{"a":[NaN,-Infinity]}', false],
    ['too_deep', 1, `${'['.repeat(200_000)}${']'.repeat(200_000)}`, false],
    ['invalid_json', 1, '', false],
  ])('is rejected: %s on line %i', async (reason, line, text, truncated) => {
    const parsed = await parse(text)
    expect(parsed).toMatchObject({ items: [], rejected: [{ reason, line }], truncated })
    expect(parsed.rejected[0]?.text.length).toBeLessThanOrEqual(200)
  })

  test('that fails its schema is one rejection', async () => {
    expect(await parse('\n{"e":"a"}', schema)).toMatchObject({
      items: [],
      rejected: [{ reason: 'schema', line: 2, text: '{"e":"a"}' }],
    })
  })

  test('is repaired, and its repairs are named', async () => {
    expect(await parse("```\n{'e': True, D: 1,}\n```", schema)).toStrictEqual({
      items: [{ e: true, d: 1 }],
      rejected: [],
      repaired: [{ item: 0, line: 2, repairs: ['quotes', 'literals', 'keys', 'trailing_comma', 'names'] }],
      ignored: 2,
      truncated: false,
    })
  })

  test('is made safe and exact, by name', async () => {
    expect(await parse('{"__proto__":1,"a":9007199254740993}')).toMatchObject({
      items: [{ a: '9007199254740993' }],
      repaired: [{ item: 0, line: 1, repairs: ['proto', 'big_integer'] }],
    })
  })
})
