import { describe, expect, test } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { createItemsParser } from '../../src/items/parser.ts'
import { compileSchema } from '../../src/items/validate.ts'
import { feed } from './replies.ts'

const definition = {
  type: 'object',
  properties: { type: { const: 'definition' }, entity: { type: 'string' } },
  required: ['type', 'entity'],
}
const relationship = {
  type: 'object',
  properties: { type: { enum: ['relationship'] }, subject: { type: 'string' }, weight: { type: 'number' } },
  required: ['type', 'subject'],
}
const union = compileSchema({ oneOf: [definition, relationship] })

function items(schema: unknown, text: string) {
  return feed(createItemsParser(compileSchema(schema)), [text]).events.map((event) =>
    event.type === 'item' ? [event.value, ...event.repairs] : event.message,
  )
}

describe('a schema that cannot be used', () => {
  test.each([
    ['is no object', 'text', ''],
    ['is null', null, ''],
    ['is an array', [], ''],
    ['has a type that is none', { properties: { e: { type: 'sting' } } }, '/properties/e/type'],
    ['has properties that are none', { properties: 1 }, '/properties'],
    [
      'refers to another server',
      { properties: { e: { $ref: 'https://example.org/x.json' } } },
      '/properties/e',
    ],
    ['refers to nothing', { properties: { e: { $ref: '#/$defs/none' } } }, '/properties/e'],
    ['has a pattern that is none', { properties: { 'a/b': { pattern: '(' } } }, '/properties/a~1b'],
    ['has a pattern that only backtracking matches', { items: { pattern: '^(a)\\1$' } }, '/items'],
    ['has a pattern that is too large', { items: { pattern: 'a{0,1000}'.repeat(10) } }, '/items'],
    ['has a pattern that is too long', { items: { pattern: 'a'.repeat(1001) } }, '/items'],
    ['has such a pattern for keys', { patternProperties: { '(?=x)': {} } }, ''],
    ['names an unknown dialect', { $schema: 'http://json-schema.org/draft-03/schema#' }, '/$schema'],
    ['names no dialect at all', { $schema: 7 }, '/$schema'],
    [
      'has a part in another dialect',
      { properties: { e: { $schema: 'http://json-schema.org/draft-04/schema#' } } },
      '/properties/e/$schema',
    ],
  ])('%s is refused, naming the place', (_, schema, place) => {
    let thrown: unknown
    try {
      compileSchema(schema)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(GraphmillError)
    expect(thrown).toMatchObject({ code: 'schema_invalid', details: { place } })
    expect((thrown as Error).message).toContain(place === '' ? 'root' : place)
  })
})

describe('dialects', () => {
  test('2020-12, draft-07 and none at all', () => {
    const tuple = { prefixItems: [{ type: 'string' }] }
    const oldTuple = { items: [{ type: 'string' }] }
    const of = (schema: object) => compileSchema({ properties: { d: schema } })
    expect(of(tuple).test({ d: [1] })).toBe(false)
    expect(of(oldTuple).test({ d: [1] })).toBe(false)
    expect(
      compileSchema({ $schema: 'https://json-schema.org/draft/2020-12/schema', ...tuple }).test([1]),
    ).toBe(false)
    expect(compileSchema({ $schema: 'http://json-schema.org/draft-07/schema#', ...oldTuple }).test([1])).toBe(
      false,
    )
  })

  test('the same schema, with an $id, compiles again', () => {
    const schema = { $id: 'https://example.org/item', type: 'object' }
    expect(compileSchema(schema).test({})).toBe(true)
    expect(compileSchema({ ...schema }).test(1)).toBe(false)
  })

  test('formats are checked', () => {
    const dated = compileSchema({ properties: { d: { format: 'date' } } })
    expect(dated.test({ d: '2026-02-30' })).toBe(false)
    expect(dated.test({ d: '2026-02-28' })).toBe(true)
  })
})

test('each of several patterns is matched with its own text', () => {
  const schema = compileSchema({
    properties: { d: { pattern: '^a' }, e: { pattern: '^b' } },
    patternProperties: { '^x': { pattern: '^c' } },
  })
  expect(schema.check({ d: 'a', e: 'b', x: 'c' })).toBeUndefined()
  expect(schema.check({ e: 'a' })).toBe('/e: must match pattern "^b"')
  expect(schema.check({ x: 'a' })).toBe('/x: must match pattern "^c"')
})

test('a text that is too long for its pattern does not match it, at once', () => {
  const schema = compileSchema({
    properties: { d: { pattern: '(a|b)*a(a|b){900}$' }, e: { pattern: '^[^<]*$' } },
  })
  const long = 'ab'.repeat(300_000)
  const start = performance.now()
  expect(schema.check({ d: long })).toMatch(/must match pattern/)
  expect(performance.now() - start).toBeLessThan(2000)
  expect(schema.test({ d: long.slice(1, 1001), e: long })).toBe(true)
})

test('a pattern that backtracks catastrophically is matched at once', () => {
  const schema = compileSchema({ properties: { d: { pattern: '^(a+)+$' } } })
  const start = performance.now()
  expect(schema.test({ d: `${'a'.repeat(50_000)}!` })).toBe(false)
  expect(schema.test({ d: 'a'.repeat(50_000) })).toBe(true)
  expect(performance.now() - start).toBeLessThan(2000)
})

describe('a union told apart by a property', () => {
  test('gives one clear error', () => {
    expect(union.check({ type: 'definition' })).toBe("must have required property 'entity'")
    expect(union.check({ type: 'relationship', subject: 1 })).toBe('/subject: must be string')
    expect(union.check({ type: 'x' })).toBe('/type: "x" is none of "definition", "relationship"')
    expect(union.check({ entity: 'x' })).toBe(
      '/type: is missing; it must be one of "definition", "relationship"',
    )
    expect(union.check({ type: 'definition', entity: 'x' })).toBeUndefined()
  })

  test('is found through local references, with or without an $id', () => {
    for (const $id of [undefined, 'https://example.org/item']) {
      const schema = compileSchema({
        ...($id && { $id }),
        $defs: { definition, relationship },
        anyOf: [{ $ref: '#/$defs/definition' }, { $ref: '#/$defs/relationship' }],
      })
      expect(schema.discriminator).toStrictEqual({ property: 'type', values: ['definition', 'relationship'] })
      expect(schema.check({ type: 'relationship' })).toBe("must have required property 'subject'")
    }
  })

  test('requires what every branch requires', () => {
    expect(union.requires).toBe(true)
    expect(union.lacks(['type', 'x'])).toBe(true)
    expect(union.lacks(['type', 'subject'])).toBe(false)
    expect(compileSchema({ anyOf: [definition, {}] }).requires).toBe(false)
    expect(compileSchema({ allOf: [{ required: ['a'] }, { required: ['b'] }] }).lacks(['a'])).toBe(true)
  })
})

describe('what the schema asks for', () => {
  const schema = { oneOf: [definition, relationship] }

  test('the case of the type', () => {
    expect(items(schema, '{"type":"Definition","entity":"a"}')).toStrictEqual([
      [{ type: 'definition', entity: 'a' }, 'discriminator'],
    ])
  })

  test('a type that follows from the schema, or from the other keys if they fit one type only', () => {
    expect(items(definition, '{"entity":"a"}')).toStrictEqual([
      [{ entity: 'a', type: 'definition' }, 'discriminator'],
    ])
    expect(items({ oneOf: [definition] }, '{"entity":"a"}')).toStrictEqual([
      [{ entity: 'a', type: 'definition' }, 'discriminator'],
    ])
    expect(items(schema, '{"entity":"a"}')).toStrictEqual([
      [{ entity: 'a', type: 'definition' }, 'discriminator'],
    ])
    expect(items(schema, '{"entity":"a","subject":"b","weight":1}')).toStrictEqual([
      expect.stringContaining('/type: is missing'),
    ])
  })

  test('numbers and booleans that came as strings, and strings that came as numbers, digit for digit', () => {
    const typed = {
      properties: {
        n: { type: 'number' },
        i: { type: 'integer' },
        b: { type: 'boolean' },
        s: { type: ['string', 'null'] },
      },
    }
    expect(items(typed, '{"n":"1.50","i":"7","b":"True","s":12.10}')).toStrictEqual([
      [{ n: 1.5, i: 7, b: true, s: '12.10' }, 'coerced'],
    ])
    expect(items(typed, '{"s":12345678901234567890}')).toStrictEqual([
      [{ s: '12345678901234567890' }, 'coerced'],
    ])
    expect(items(typed, '{"s":false}')).toStrictEqual([[{ s: 'false' }, 'coerced']])
    expect(items(typed, '{"n":" +.5","i":"3.0","b":"Yes"}')).toStrictEqual([
      [{ n: 0.5, i: 3, b: true }, 'coerced'],
    ])
    for (const text of [
      '{"n":"one"}',
      '{"n":"1e999"}',
      '{"i":"1.5"}',
      '{"i":"12345678901234567890"}',
      '{"n":"1,5"}',
      '{"n":"75%"}',
      '{"b":"perhaps"}',
    ]) {
      expect(items(typed, text)).toStrictEqual([expect.stringContaining('must be')])
    }
  })

  test('nothing, where the value already validates', () => {
    expect(items({ properties: { type: { const: 'x' }, d: {} } }, '{"d":"1"}')).toStrictEqual([[{ d: '1' }]])
  })

  test('together with repairs of the text', () => {
    expect(items(schema, "{'type':'RELATIONSHIP','subject':'a','weight':'2'}")).toStrictEqual([
      [{ type: 'relationship', subject: 'a', weight: 2 }, 'quotes', 'discriminator', 'coerced'],
    ])
  })
})
