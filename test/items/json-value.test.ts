// The JSON in free text: by the scan, and as the one value that was asked for.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonBlocks } from '../../src/items/json-in-text.ts'
import { valueIn } from '../../src/items/json-value.ts'
import { compileSchema } from '../../src/items/validate.ts'

describe('the blocks of a text', () => {
  it.each([
    ['nothing', 'no JSON here', []],
    ['one', 'Sure: {"a":1}. Anything else?', ['{"a":1}']],
    ['a brace in a string', 'x {"d":"a } b"} y', ['{"d":"a } b"}']],
    ['a quote and a backslash in a string', '{"d":"\\"}\\\\"}', ['{"d":"\\"}\\\\"}']],
    ['an unmatched brace in prose', 'use { to open\n{"a":1}', ['{"a":1}']],
    ['a matched brace in prose', 'the set {x, y} and {"a":1}', ['{"a":1}']],
    ['a fence', '```json\n{"a":1}\n```', ['{"a":1}']],
    ['several', '{"a":1} and {"b":[2]}', ['{"a":1}', '{"b":[2]}']],
    ['a list', 'x [{"a":1},{"b":2}]', ['[{"a":1},{"b":2}]']],
    ['nested ones, as their outermost', '{"a":{"b":{}}}', ['{"a":{"b":{}}}']],
    ['a broken one, with all it holds', '{name: {"first":"A"}} {"b":2}', ['{"b":2}']],
    ['a broken one with a brace in a string', '{name: "}", in: {"first":"A"}} {"b":2}', ['{"b":2}']],
    ['one that is cut off, with all it holds', '{"a":{"b":1},"c', []],
    ['one that is cut off in a number', '[1, 2', []],
    ['a raw newline in a string', '{"a":"x\ny"} {"b":2}', ['{"b":2}']],
    ['a bad escape', '{"a":"\\x"}', []],
    ['a trailing comma', '{"a":1,} {"b":2}', ['{"b":2}']],
    ['closers in the wrong order', '{"a":[1}] {"b":2}', ['{"b":2}']],
    ['quotes of prose', 'He said "{" and then {"a":1}', ['{"a":1}']],
  ])('%s', (_, text, blocks) => {
    expect(jsonBlocks(text)).toEqual(blocks)
  })

  it('are found between any words without braces', () => {
    const words = fc.stringMatching(/^[a-z"',.\n ]*$/)
    const object = fc.dictionary(fc.string(), fc.jsonValue())
    fc.assert(
      fc.property(words, object, words, object, (before, first, between, second) => {
        const [a, b] = [JSON.stringify(first), JSON.stringify(second, null, 2)]
        expect(jsonBlocks(`${before}${a}${between}${b}`)).toEqual([a, b])
      }),
      { numRuns: 200 },
    )
  })

  it.each(['{', '{"', '{x', '{"a":', '[[{x "}', '{"a":1,x', '\\"{x}'])(
    'take time in proportion to the text, for many %s',
    (part) => {
      const time = (length: number) => {
        const text = part.repeat(length / part.length)
        const begin = performance.now()
        jsonBlocks(text)
        return performance.now() - begin
      }
      time(20_000)
      expect(time(800_000)).toBeLessThan(3000)
    },
  )
})

const nameSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
const person = compileSchema(nameSchema)
const wanted = { schema: person, objects: true }
const any = { schema: undefined, objects: true }

describe('the value that was asked for', () => {
  it.each([
    ['the whole text', '{"name":"A"}', { name: 'A' }],
    ['its fenced block', 'Here:\n```json\n{"name":"A"}\n```', { name: 'A' }],
    ['JSON in prose', 'I say {"name":"A"}.', { name: 'A' }],
    ['of several the one that fits', '{"draft":1} no: {"name":"A"}', { name: 'A' }],
    ['of equal ones one', '{"name":"A"} so {"name":"A"}', { name: 'A' }],
    ['the one element of a list', '[{"name":"A"}]', { name: 'A' }],
    ['what follows a thought', '<think>{"name":"no"}</think>{"name":"A"}', { name: 'A' }],
    ['what follows a fence that does not fit', '```json\n{"x":1}\n```\nbetter: {"name":"A"}', { name: 'A' }],
  ])('is %s', (_, text, value) => {
    expect(valueIn(text, wanted)).toMatchObject({ value, repairs: [] })
  })

  it.each([
    ['prose', 'I cannot.', 'invalid_json'],
    ['a cut reply', '{"name":"A', 'invalid_json'],
    ['a scalar instead of an object', '42', 'invalid_json'],
    ['an unfinished thought', '<think>{"name":"A"}', 'invalid_json'],
    ['a value that fails', '{"x":1}', 'schema'],
    ['several that fit and differ', '{"name":"A"} {"name":"B"}', 'schema'],
    ['a list of others', '[{"x":1},{"y":2}]', 'schema'],
    ['several that fit after repairs', "{'name':'A'} {'name':'B'}", 'schema'],
    ['a number that is not finite', '{"name":"A","x":NaN}', 'not_finite'],
  ])('is none in %s', (_, text, reason) => {
    expect(valueIn(text, wanted)).toMatchObject({ error: expect.any(String), reason })
  })

  it('is, without a schema, the object, or the list of several', () => {
    expect(valueIn('x {"a":1} y', any)).toMatchObject({ value: { a: 1 } })
    expect(valueIn('{"a":1} {"b":2}', any)).toMatchObject({ value: [{ a: 1 }, { b: 2 }] })
    expect(valueIn('[{"a":1},{"b":2}]', any)).toMatchObject({ value: [{ a: 1 }, { b: 2 }] })
    expect(valueIn('[1,2]', any)).toMatchObject({ reason: 'invalid_json' })
    expect(valueIn('[1,2]', { ...any, objects: false })).toMatchObject({ value: [1, 2] })
  })

  it('keeps a list of one string as it is', () => {
    const schema = compileSchema({
      type: 'object',
      properties: { tags: { type: 'array' } },
      required: ['tags'],
    })
    expect(valueIn('{"tags":["x"]}', { schema, objects: true })).toMatchObject({
      value: { tags: ['x'] },
      repairs: [],
    })
  })

  it('knows its line, and how many lines are about it', () => {
    const text = '<think>\nhm\n</think>\nSure:\n{"name":\n"A"}\nDone.'
    expect(valueIn(text, wanted)).toMatchObject({ line: 5, ignored: 5 })
  })
})

describe('a value that does not stand so in the reply', () => {
  const list = compileSchema({ type: 'array', items: nameSchema })
  const typed = compileSchema({
    type: 'object',
    properties: {
      score: { type: 'number' },
      kind: { enum: ['Wind', 'Water'] },
      tags: { type: 'array' },
      n: { type: 'integer' },
    },
    required: ['score'],
  })
  const objects = { schema: typed, objects: true }

  it.each([
    [
      'JSON as Python writes it',
      "{'score': 1, 'old': True}",
      { score: 1, old: true },
      ['quotes', 'literals'],
    ],
    ['broken JSON in prose', 'So: {"score": 1,} it is.', { score: 1 }, ['trailing_comma']],
    [
      'words for numbers and kinds',
      '{"Score": "0.5", "kind": "WIND"}',
      { score: 0.5, kind: 'Wind' },
      ['names', 'coerced'],
    ],
    ['a single value for a list', '{"score": 1, "tags": "x"}', { score: 1, tags: ['x'] }, ['list']],
    ['null for an optional key', '{"score": 1, "kind": null}', { score: 1 }, ['nulls']],
    ['a tool call', '{"name": "f", "arguments": {"score": 1}}', { score: 1 }, ['unwrapped']],
    ['encoded arguments', '{"name": "f", "arguments": "{\\"score\\": 1}"}', { score: 1 }, ['decoded']],
    ['a string', '"{\\"score\\": 1}"', { score: 1 }, ['decoded']],
    [
      'a large integer',
      '{"score": 1, "n": 12345678901234567890}',
      { score: 1, n: '12345678901234567890' },
      ['big_integer'],
    ],
  ])('is read: %s', (_, text, value, repairs) => {
    expect(valueIn(text, objects)).toMatchObject({ value, repairs })
  })

  it.each([
    ['one object', '{"name":"A"}', [{ name: 'A' }]],
    ['lines', "{'name':'A'}\n{'name':'B'}", [{ name: 'A' }, { name: 'B' }]],
    ['a wrapper', '{"people":[{"name":"A"},{"name":"B"}]}', [{ name: 'A' }, { name: 'B' }]],
  ])('is a list that was asked for: %s', (_, text, value) => {
    expect(valueIn(text, { schema: list, objects: false })).toMatchObject({ value })
    expect(valueIn(`${text}\n{"name":`, { schema: list, objects: false })).toMatchObject({
      error: expect.any(String),
    })
  })

  it('is never a word of prose, and what fails is said of the repaired value', () => {
    expect(valueIn('None', { schema: undefined, objects: false })).toMatchObject({ reason: 'invalid_json' })
    expect(valueIn("{'score': 'high'}", objects)).toMatchObject({
      reason: 'schema',
      error: '/score: must be number',
    })
  })
})
