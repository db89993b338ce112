import { expect, test } from 'vitest'
import { compileSchema } from '../../src/items/validate.ts'

const milliseconds = (work: () => unknown) => {
  const before = performance.now()
  work()
  return performance.now() - before
}

test.each([
  ['scalars', [1, 2, 1], false],
  ['a number and its text', [1, '1'], true],
  [
    'objects in another order of keys',
    [
      { a: 1, b: { c: 2, d: 3 } },
      { b: { d: 3, c: 2 }, a: 1 },
    ],
    false,
  ],
  [
    'lists in another order',
    [
      [1, 2],
      [2, 1],
    ],
    true,
  ],
  ['null, false, 0 and nothing in a text', [null, false, 0, ''], true],
  ['keys that are named as the prototype is', [JSON.parse('{"__proto__":1}'), {}], true],
  ['none', [], true],
])('unique items: %s', (_, value, expected) => {
  expect(compileSchema({ type: 'array', uniqueItems: true }).test(value)).toBe(expected)
  expect(compileSchema({ type: 'array', uniqueItems: false }).test(value)).toBe(true)
})

test('a list of unique items is checked in linear time, and the error names a repeated one', () => {
  const schema = compileSchema({ type: 'object', properties: { a: { uniqueItems: true } } })
  const a = Array.from({ length: 50_000 }, (_, n) => ({ n }))
  expect(milliseconds(() => expect(schema.check({ a })).toBeUndefined())).toBeLessThan(2000)
  expect(schema.check({ a: [...a, { n: 0 }] })).toBe('/a: must NOT have duplicate items')
})

test.each([
  ['http://example.org/a?b#c', true],
  ['ftp://192.0.2.1:21/x', true],
  ['HTTPS://Example.org', true],
  ['mailto:a@example.org', false],
  ['http://', false],
  ['http:///x', false],
  ['http://a b', false],
  ['example.org', false],
])('url: %s', (text, expected) => {
  expect(compileSchema({ type: 'string', format: 'url' }).test(text)).toBe(expected)
})

test('an invalid url is detected in linear time', () => {
  const schema = compileSchema({ type: 'string', format: 'url' })
  expect(milliseconds(() => schema.check(`http://${':'.repeat(500_000)}`))).toBeLessThan(2000)
})
