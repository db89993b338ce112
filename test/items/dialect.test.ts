// What differs between the drafts of JSON Schema, each as its specification says.
import { describe, expect, test } from 'vitest'
import { complete } from '../../src/complete/complete.ts'
import { createLlmProvider } from '../../src/complete/llm-provider.ts'
import { compileSchema } from '../../src/items/validate.ts'
import { WrittenNumbers } from '../../src/items/value.ts'
import { answerJson } from '../../src/llm/structured-output/json-answer.ts'
import { exampleOf } from '../../src/llm/structured-output/json-example.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

const uris = {
  '04': 'http://json-schema.org/draft-04/schema#',
  '06': 'http://json-schema.org/draft-06/schema#',
  '07': 'http://json-schema.org/draft-07/schema#',
  2019: 'https://json-schema.org/draft/2019-09/schema',
  2020: 'https://json-schema.org/draft/2020-12/schema',
} as const
type Draft = keyof typeof uris

const drafts: readonly Draft[] = ['04', '06', '07', '2019', '2020'] as unknown as Draft[]
const isIn = ($schema: string, schema: object, value: unknown) =>
  compileSchema({ $schema, ...schema }).test(value)

const tree = (self: object, more: object = {}) => ({
  ...more,
  type: 'object',
  properties: { name: { type: 'string' }, children: { type: 'array', items: self } },
  required: ['name'],
})
const tuple = [{ type: 'string' }, { type: 'integer' }]
// Not written as an object, since one with a key `then` looks like a promise.
const whenThen = JSON.parse('{"if":{"required":["a"]},"then":{"required":["b"]}}')

/** A schema, a value that it refuses in the drafts that are named, and in the others either accepts or, with `not`, is no schema. */
const differences: readonly [string, object, unknown, string, not?: string][] = [
  ['an exclusive minimum as a flag', { minimum: 1, exclusiveMinimum: true }, 1, '04', '06 07 2019 2020'],
  ['an exclusive minimum as a limit', { exclusiveMinimum: 1 }, 1, '06 07 2019 2020', '04'],
  ['const', { const: 'a' }, 'b', '06 07 2019 2020'],
  ['contains', { contains: { type: 'string' } }, [1], '06 07 2019 2020'],
  ['names of properties', { propertyNames: { maxLength: 1 } }, { ab: 1 }, '06 07 2019 2020'],
  ['a boolean as a schema', { properties: { a: false } }, { a: 1 }, '06 07 2019 2020', '04'],
  ['an empty list of required keys', { required: [] }, undefined, '', '04'],
  ['conditions', whenThen, { a: 1 }, '07 2019 2020'],
  ['a tuple in items', { items: tuple }, ['a', 'b'], '04 06 07 2019', '2020'],
  ['further elements', { items: tuple, additionalItems: false }, ['a', 1, 2], '04 06 07 2019', '2020'],
  ['a tuple in prefixItems', { prefixItems: tuple }, ['a', 'b'], '2020'],
  ['elements after a tuple', { prefixItems: tuple, items: { type: 'boolean' } }, ['a', 1], '04 06 07 2019'],
  ['keys that need others', { dependentRequired: { a: ['b'] } }, { a: 1 }, '2019 2020'],
  ['keys that need a schema', { dependentSchemas: { a: { required: ['b'] } } }, { a: 1 }, '2019 2020'],
  ['a smallest number of fitting elements', { contains: { const: 1 }, minContains: 2 }, [1], '2019 2020'],
  [
    'unevaluated properties',
    { allOf: [{ properties: { a: {} } }], unevaluatedProperties: false },
    { b: 1 },
    '2019 2020',
  ],
  ['unevaluated items', { items: [{}], unevaluatedItems: false }, [1, 2], '2019', '2020'],
  ['unevaluated items of 2020-12', { prefixItems: [{}], unevaluatedItems: false }, [1, 2], '2019 2020'],
  [
    'keywords beside a reference',
    { $defs: { s: {} }, properties: { a: { $ref: '#/$defs/s', type: 'string' } } },
    { a: 1 },
    '2019 2020',
  ],
  [
    'definitions',
    { definitions: { s: { type: 'string' } }, properties: { a: { $ref: '#/definitions/s' } } },
    { a: 1 },
    '04 06 07 2019 2020',
  ],
  [
    'an id by the name id',
    {
      id: 'https://example.org/root',
      definitions: { s: { id: '#s', type: 'string' } },
      properties: { a: { $ref: '#s' } },
    },
    { a: 1 },
    '04',
    '06 07 2019 2020',
  ],
  [
    'an id by the name $id',
    { definitions: { s: { $id: '#s', type: 'string' } }, properties: { a: { $ref: '#s' } } },
    { a: 1 },
    '06 07',
    '04 2019 2020',
  ],
  [
    'a reference to the schema that uses it',
    tree({ $recursiveRef: '#' }, { $recursiveAnchor: true }),
    { name: 'a', children: [{}] },
    '2019',
    '2020',
  ],
  [
    'a dynamic reference',
    tree({ $dynamicRef: '#node' }, { $dynamicAnchor: 'node' }),
    { name: 'a', children: [{}] },
    '2020',
  ],
  ['a plain recursion', tree({ $ref: '#' }), { name: 'a', children: [{}] }, '04 06 07 2019 2020'],
]

describe.each(differences)('%s', (_, schema, value, refuses, isNone = '') => {
  const inDraft = (draft: Draft) => [draft, uris[draft]] as const
  const those = (names: string) => drafts.filter((draft) => names.split(' ').includes(String(draft)))
  const others = drafts.filter(
    (draft) => ![...refuses.split(' '), ...isNone.split(' ')].includes(String(draft)),
  )

  test.for(those(refuses).map(inDraft))('counts in %s', ([, $schema]) => {
    expect(isIn($schema, schema, value)).toBe(false)
  })
  test.for(others.map(inDraft))('does not count in %s', ([, $schema]) => {
    expect(isIn($schema, schema, value)).toBe(true)
  })
  test.for(those(isNone).map(inDraft))('is no schema in %s', ([, $schema]) => {
    expect(() => isIn($schema, schema, value)).toThrow(expect.objectContaining({ code: 'schema_invalid' }))
  })
})

describe('a schema without $schema', () => {
  test('is 2020-12, or draft-07 when it is only valid there', () => {
    expect(compileSchema({ prefixItems: tuple }).test(['a', 'b'])).toBe(false)
    expect(compileSchema({ dependentRequired: { a: ['b'] } }).test({ a: 1 })).toBe(false)
    expect(compileSchema({ items: tuple }).test(['a', 'b'])).toBe(false)
    const beside = { definitions: { s: {} }, items: [{ $ref: '#/definitions/s', type: 'string' }] }
    expect(compileSchema(beside).test([1])).toBe(false)
  })
})

describe('the name of a dialect', () => {
  test.each(drafts)('may have another scheme, and a fragment that is empty or missing: %s', (draft) => {
    const plain = uris[draft].replace(/#$/, '')
    for (const $schema of [
      plain,
      `${plain}#`,
      plain.replace(/^https?/, 'https'),
      plain.replace(/^https?/, 'http'),
    ])
      expect(isIn($schema, { type: 'string' }, 1)).toBe(false)
  })

  test.each(['http://json-schema.org/draft-03/schema#', 'https://example.org/schema', '', 'draft-07'])(
    'is an error that says which there are when it is unknown: %j',
    ($schema) => {
      const known = 'draft-04, draft-06, draft-07, 2019-09, 2020-12'
      expect(() => compileSchema({ $schema })).toThrow(
        `graphmill reads JSON Schema ${known}, not "${$schema}"`,
      )
    },
  )
})

describe('the kinds of a union in draft-04', () => {
  test('are distinguished, and their errors have the place', () => {
    const kind = (name: string, more: object) => ({
      id: `#${name}`,
      type: 'object',
      properties: { type: { enum: [name] }, ...more },
      required: ['type', ...Object.keys(more)],
    })
    const schema = compileSchema({
      $schema: uris['04'],
      id: 'https://example.org/union',
      oneOf: [
        kind('mill', { size: { type: 'integer', minimum: 0, exclusiveMinimum: true } }),
        kind('weir', {}),
      ],
    })
    expect(schema.check({ type: 'mill', size: 0 })).toBe('/size: must be > 0')
    expect(schema.check({ type: 'dam' })).toBe('/type: "dam" is none of "mill", "weir"')
    expect(schema.adjust({ type: 'MILL', size: '2' }, { numbers: new WrittenNumbers([]) })).toMatchObject({
      repairs: ['discriminator', 'coerced'],
      error: undefined,
    })
  })
})

describe('a schema of draft-04', () => {
  const schema = {
    $schema: uris['04'],
    type: 'object',
    properties: {
      size: { type: 'number', minimum: 0, exclusiveMinimum: true },
      at: { type: 'array', items: tuple },
    },
    required: ['size'],
  }

  test('checks the value of complete() and of answerJson', async () => {
    const messages = [{ role: 'user', content: 'How large?' }] as const
    const signal = new AbortController().signal
    const provider = () => createLlmProvider(scriptedLlm(['{"size":0}', '{"size":1}']))
    await expect(complete(provider(), { messages, responseSchema: schema })).rejects.toMatchObject({
      category: 'structured_output_invalid',
      errorMessage: '/size: must be > 0',
    })
    const answer = await answerJson({
      llm: scriptedLlm(['{"size":0}', '{"size":1}']),
      messages,
      schema,
      signal,
    })
    expect(answer).toMatchObject({ value: { size: 1 }, calls: 2 })
  })

  test('is shown to a model as an example', () => {
    expect(exampleOf(schema)).toEqual({ size: 123.45, at: ['...', 123] })
    const node = exampleOf(tree({ $recursiveRef: '#' }) as never) as { children: { name: string }[] }
    expect(node.children[0]!.name).toBe('...')
    expect(exampleOf({ items: { $ref: '#elsewhere' } })).toEqual(['...'])
  })
})
