// The JSON in free text: by the scan, and as the one value that was asked for.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonBlocks } from '../../../src/llm/structured-output/json-in-text.ts'
import { valueIn } from '../../../src/llm/structured-output/value.ts'

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

describe('the value that was asked for', () => {
  const person = (value: unknown) =>
    typeof (value as { name?: unknown })?.name === 'string' ? undefined : '/name: is missing'
  const wanted = { check: person, objects: true }
  const any = { check: undefined, objects: true }

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
    expect(valueIn(text, wanted)).toEqual({ type: 'value', value })
  })

  it.each([
    ['prose', 'I cannot.', 'not_json'],
    ['a cut reply', '{"name":"A', 'not_json'],
    ['a scalar instead of an object', '42', 'not_json'],
    ['an unfinished thought', '<think>{"name":"A"}', 'not_json'],
    ['a value that fails', '{"x":1}', 'failed'],
    ['several that fit and differ', '{"name":"A"} {"name":"B"}', 'failed'],
    ['a list of others', '[{"x":1},{"y":2}]', 'failed'],
  ])('is none in %s', (_, text, type) => {
    expect(valueIn(text, wanted)).toMatchObject({ type })
  })

  it('is, without a schema, the object, or the list of several', () => {
    expect(valueIn('x {"a":1} y', any)).toEqual({ type: 'value', value: { a: 1 } })
    expect(valueIn('{"a":1} {"b":2}', any)).toEqual({ type: 'value', value: [{ a: 1 }, { b: 2 }] })
    expect(valueIn('[{"a":1},{"b":2}]', any)).toEqual({ type: 'value', value: [{ a: 1 }, { b: 2 }] })
    expect(valueIn('[1,2]', any)).toMatchObject({ type: 'not_json' })
    expect(valueIn('[1,2]', { ...any, objects: false })).toEqual({ type: 'value', value: [1, 2] })
  })

  it('keeps a list of one string as it is', () => {
    const check = (value: unknown) => (Array.isArray((value as { tags?: unknown }).tags) ? undefined : 'tags')
    expect(valueIn('{"tags":["x"]}', { check, objects: true })).toEqual({
      type: 'value',
      value: { tags: ['x'] },
    })
  })
})
