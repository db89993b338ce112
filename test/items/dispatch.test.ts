import { expect, test } from 'vitest'
import { dispatch } from '../../src/items/dispatch.ts'

type Item = { type: 'definition'; entity: string } | { type: 'topic'; name: string }
const topic = { type: 'topic', name: 'mills' } as Item
const definition = (item: { entity: string }) => item.entity

test('an item goes to the handler of its type', () => {
  expect(dispatch(topic, { definition, topic: (item) => item.name })).toBe('mills')
})

test('a table with a missing key does not compile, and a type without a handler throws', () => {
  // @ts-expect-error topic is missing
  expect(() => dispatch(topic, { definition })).toThrow(expect.objectContaining({ code: 'unexpected' }))
})

test('a table with an unknown key does not compile', () => {
  // @ts-expect-error row is no type of item
  expect(dispatch(topic, { definition, topic: (item) => item.name, row: () => 'row' })).toBe('mills')
})

test('an inherited property is not a handler', () => {
  const odd = { type: 'constructor' } as unknown as Item
  expect(() => dispatch(odd, { definition, topic: (item) => item.name })).toThrow(/No handler/)
})
