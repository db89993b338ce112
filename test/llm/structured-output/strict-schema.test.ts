import { describe, expect, it } from 'vitest'
import { compileSchema } from '../../../src/items/validate.ts'
import type { JsonSchema } from '../../../src/llm/llm.ts'
import { isStrict } from '../../../src/llm/openai/response-format.ts'
import { strictCopy } from '../../../src/llm/structured-output/strict-schema.ts'
import { loadCatalogue } from '../../../src/prompt/catalogue/catalogue.ts'

function copied(schema: JsonSchema) {
  const copy = strictCopy(schema)
  if ('problem' in copy) throw new Error(copy.problem)
  return copy
}
function stripped(schema: JsonSchema, value: unknown): unknown {
  copied(schema).strip(value)
  return value
}

const place = {
  type: 'object',
  properties: { x: { type: 'number' }, note: { type: 'string' } },
  required: ['x'],
}
const schema = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, description: 'a name' },
    age: { type: 'integer', minimum: 0 },
    end: { type: ['string', 'null'] },
    places: { type: 'array', items: place },
  },
  required: ['name'],
}
const union = {
  type: 'object',
  required: ['type'],
  oneOf: [
    {
      required: ['type', 'e'],
      properties: { type: { const: 'd' }, e: { type: 'string' }, why: { type: 'string' } },
    },
    { required: ['type', 's'], properties: { type: { const: 'r' }, s: { type: 'string' } } },
  ],
}

describe('a strict copy of a schema', () => {
  it('closes every object, requires every key, and makes nullable what was optional', () => {
    const copy = copied(schema).schema
    expect(copy).toEqual({
      type: 'object',
      properties: {
        name: { type: 'string', description: 'a name' },
        age: { anyOf: [{ type: 'integer' }, { type: 'null' }] },
        end: { type: ['string', 'null'] },
        places: {
          anyOf: [
            {
              type: 'array',
              items: {
                type: 'object',
                properties: {
                  x: { type: 'number' },
                  note: { anyOf: [{ type: 'string' }, { type: 'null' }] },
                },
                required: ['x', 'note'],
                additionalProperties: false,
              },
            },
            { type: 'null' },
          ],
        },
      },
      required: ['name', 'age', 'end', 'places'],
      additionalProperties: false,
    })
    expect(isStrict(copy)).toBe(true)
  })

  it('makes anyOf of a oneOf whose branches a constant distinguishes', () => {
    const copy = copied(union).schema as { anyOf: JsonSchema[] }
    expect(copy.anyOf.map((branch) => Object.keys(branch['properties'] as object))).toEqual([
      ['type', 'e', 'why'],
      ['type', 's'],
    ])
    expect(isStrict(copy)).toBe(true)
    expect(compileSchema(copy).test({ type: 'd', e: 'x', why: null })).toBe(true)
    expect(compileSchema(copy).test({ type: 'r', e: 'x', why: null })).toBe(false)
  })

  it('leaves the schema as it was', () => {
    const before = structuredClone(union)
    copied(union)
    expect(union).toEqual(before)
  })

  it('removes the nulls that it asks for, and no others', () => {
    const value = {
      name: 'a',
      age: null,
      end: null,
      places: [
        { x: 1, note: null },
        { x: 2, note: 'n' },
      ],
    }
    expect(stripped(schema, value)).toEqual({ name: 'a', end: null, places: [{ x: 1 }, { x: 2, note: 'n' }] })
    expect(stripped(schema, { name: null, other: null })).toEqual({ name: null, other: null })
    expect(stripped(union, { type: 'd', e: 'x', why: null })).toEqual({ type: 'd', e: 'x' })
    expect(stripped(union, { type: 'r', s: null })).toEqual({ type: 'r', s: null })
    for (const odd of [null, 5, 'x', [], [null]]) expect(stripped(schema, structuredClone(odd))).toEqual(odd)
  })

  it.each<[string, JsonSchema]>([
    ['an object of anything', { type: 'object' }],
    [
      'a map',
      { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: { type: 'string' } },
    ],
    ['an array of anything', { type: 'object', properties: { a: { type: 'array' } } }],
    ['anything', { type: 'object', properties: { a: {} } }],
    ['a reference', { type: 'object', properties: { a: { $ref: '#' } } }],
    ['allOf', { allOf: [schema] }],
    ['a oneOf without a constant', { oneOf: [schema, place] }],
    [
      'a required key that is not described',
      { type: 'object', properties: { a: { type: 'string' } }, required: ['b'] },
    ],
  ])('is refused for %s', (_what, given) => {
    expect(strictCopy(given)).toHaveProperty('problem')
  })

  it('brings a value to the form of the copy, and back', () => {
    const written = {
      name: 'a',
      age: null,
      end: null,
      places: [
        { x: 1, note: null },
        { x: 2, note: 'n' },
      ],
    }
    const value = stripped(schema, structuredClone(written))
    const { schema: copy, fill } = copied(schema)
    expect(JSON.stringify(fill(value))).toBe(JSON.stringify(written))
    expect(JSON.stringify(fill({ places: [], name: 'a', more: 1 }))).toBe(
      '{"name":"a","age":null,"end":null,"places":[],"more":1}',
    )
    expect(compileSchema(copy).test(fill(value))).toBe(true)
    expect(copied(union).fill({ type: 'd', e: 'x' })).toEqual({ type: 'd', e: 'x', why: null })
    for (const odd of [null, 5, 'x', [], [null]]) expect(fill(odd)).toEqual(odd)
  })

  it.each<[string, JsonSchema]>([
    ['that may be null', { anyOf: [{ type: 'array', items: place }, { type: 'null' }] }],
    ['of one branch of several', { anyOf: [place, { type: 'array', items: place }, { type: 'string' }] }],
    ['in a union in a union', { anyOf: [{ type: 'null' }, { anyOf: [{ type: 'array', items: place }] }] }],
    ['of unions', { type: 'array', items: { anyOf: [place, { type: 'null' }] } }],
    ['of one of two kinds', { anyOf: [schema, place].map((items) => ({ type: 'array', items })) }],
  ])('takes out the nulls in an array %s', (_what, places) => {
    const given = { type: 'object', required: ['places'], properties: { places } }
    expect(stripped(given, { places: [{ x: 1, note: null }] })).toEqual({ places: [{ x: 1 }] })
    expect(stripped(given, { places: null })).toEqual({ places: null })
  })

  it.each([
    [['object', 'null'], null, 'x'],
    [['string', 'object'], 'x', null],
    [['null', 'object', 'array', 'string'], ['x'], 5],
  ])('keeps the other types of an object of several: %j', (type, other, neither) => {
    const own = { ...place, type, description: 'where', items: { type: 'string' } }
    const given = { type: 'object', required: ['at'], properties: { at: own, or: own } }
    const { schema: copy } = copied(given)
    expect(isStrict(copy)).toBe(true)
    const { test } = compileSchema(copy)
    for (const at of [other, { x: 1, note: null }]) expect(test({ at, or: at })).toBe(true)
    for (const at of [neither, { x: 1 }]) expect(test({ at, or: other })).toBe(false)
    expect(stripped(given, { at: { x: 1, note: null }, or: other })).toEqual({ at: { x: 1 }, or: other })
  })

  it.each<[JsonSchema]>([
    [{ type: ['string', 'null'], enum: ['p', 'q'] }],
    [{ type: ['string', 'null'], const: 'p' }],
    [{ type: 'string', anyOf: [{ enum: ['p'] }, { enum: [null, 'r'] }] }],
  ])('may be left out though only one keyword lets null in: %j', (own) => {
    const given = { type: 'object', properties: { a: own } }
    const { test } = compileSchema(copied(given).schema)
    expect(test({ a: null })).toBe(true)
    expect(test({ a: 'p' })).toBe(true)
    expect(test({ a: 'x' })).toBe(false)
    expect(stripped(given, { a: null })).toEqual({})
  })

  it('is refused for objects of anything among several types', () => {
    const given = { type: 'object', properties: { a: { type: ['object', 'null'] } } }
    expect(strictCopy(given)).toHaveProperty('problem')
  })

  it('is there for the built-in prompts, and takes their worked examples', async () => {
    const catalogue = await loadCatalogue()
    let checked = 0
    for (const id of ['extract-definitions', 'extract-relationships', 'extract-topics', 'agent-kg-extract']) {
      const prompt = catalogue.get(id)
      const { schema: copy, strip } = copied(prompt.jsonSchema!)
      expect(isStrict(copy)).toBe(true)
      for (const item of prompt.examples.flatMap(({ items = [] }) => items)) {
        const written = structuredClone(item) as Record<string, unknown>
        const keys = (copy['anyOf'] as JsonSchema[] | undefined) ?? [copy]
        const branch = keys.find(({ properties }) =>
          Object.keys(written).every((key) => key in (properties as object)),
        )!
        for (const key of branch['required'] as string[]) written[key] ??= null
        expect(compileSchema(copy).check(written)).toBeUndefined()
        strip(written)
        expect(written).toEqual(item)
        checked++
      }
    }
    expect(checked).toBeGreaterThan(5)
  })
})
