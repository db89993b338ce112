// Every way in which a model breaks the contract of an extractor: the good items of the same reply are kept, the bad are counted.
import { afterAll, describe, expect, test } from 'vitest'
import { extractAgentKg } from '../../processors/extract-agent-kg.ts'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { extractOntology } from '../../processors/extract-ontology.ts'
import { extractRelationships } from '../../processors/extract-relationships.ts'
import { extractRows } from '../../processors/extract-rows.ts'
import { extractTopics } from '../../processors/extract-topics.ts'
import type { AnyProcessor } from '../../src/flow/processor.ts'
import { openOntologies } from '../../src/ontology/ontologies.ts'
import { readTable } from '../../src/rows/definition.ts'
import { rowSchema } from '../../src/rows/row-schema.ts'
import { fixture } from '../ontology/support/files.ts'
import { documentStatus, type Extracted, extractChunk } from '../support/extract-chunk.ts'

interface Kind {
  readonly extractor: AnyProcessor
  /** An item that is right, with a name of its own. */
  readonly good: (name: string) => Record<string, unknown>
  /** Keys of an item that must be texts. */
  readonly texts: readonly string[]
  /** The names of the facts that came out. */
  readonly names: (found: Extracted) => string[]
}

const table = readTable(
  'mill',
  {
    fields: [
      { name: 'name', primary_key: true },
      { name: 'place', required: true },
    ],
  },
  { at: [], report: (_, message) => expect.fail(message) },
)
const ontologies = await openOntologies({ paths: [fixture('mills.ttl')], budget: 2000 })
afterAll(() => ontologies.close())
const settings = { rowSchemas: [rowSchema(table!)], ontologies }

const definition = (name: string) => ({ entity: name, definition: 'a mill' })
const relationship = (name: string) => ({
  subject: name,
  predicate: 'stands by',
  object: 'the race',
  'object-entity': true,
})
const definitionNames = ({ definitions }: Extracted) =>
  definitions.flatMap(({ payload }) => payload.facts.map(({ entity }) => entity))
const relationshipNames = ({ relationships }: Extracted) =>
  relationships.flatMap(({ payload }) => payload.facts.map(({ subject }) => subject))

const kinds: readonly (readonly [string, Kind])[] = [
  [
    'definitions',
    {
      extractor: extractDefinitions,
      good: definition,
      texts: ['entity', 'definition'],
      names: definitionNames,
    },
  ],
  [
    'relationships',
    {
      extractor: extractRelationships,
      good: relationship,
      texts: ['subject', 'predicate', 'object'],
      names: relationshipNames,
    },
  ],
  [
    'topics',
    {
      extractor: extractTopics,
      good: (topic) => ({ topic, definition: 'all about it' }),
      texts: ['topic', 'definition'],
      names: ({ topics }) => topics.flatMap(({ payload }) => payload.facts.map(({ topic }) => topic)),
    },
  ],
  [
    'rows',
    {
      extractor: extractRows,
      good: (name) => ({ name, place: 'London' }),
      texts: ['name', 'place'],
      names: ({ rows }) => rows.flatMap(({ payload }) => payload.values.map(({ name }) => name!)),
    },
  ],
  [
    'agent-kg: definitions',
    {
      extractor: extractAgentKg,
      good: (name) => ({ type: 'definition', ...definition(name) }),
      texts: ['entity', 'definition'],
      names: definitionNames,
    },
  ],
  [
    'agent-kg: relationships',
    {
      extractor: extractAgentKg,
      good: (name) => ({ type: 'relationship', ...relationship(name) }),
      texts: ['subject', 'predicate', 'object'],
      names: relationshipNames,
    },
  ],
  [
    'ontology: entities',
    {
      extractor: extractOntology,
      good: (entity) => ({ type: 'entity', entity, entity_type: 'Mill' }),
      texts: ['entity', 'entity_type'],
      names: ({ ontologyEntities }) =>
        ontologyEntities.flatMap(({ payload }) => payload.facts.map(({ entity }) => entity)),
    },
  ],
  [
    'ontology: relationships',
    {
      extractor: extractOntology,
      good: (subject) => ({
        type: 'relationship',
        subject,
        subject_type: 'Mill',
        relation: 'standsOn',
        object: 'Thames',
        object_type: 'River',
      }),
      texts: ['subject', 'subject_type', 'relation', 'object', 'object_type'],
      names: ({ ontologyRelationships }) =>
        ontologyRelationships.flatMap(({ payload }) => payload.facts.map(({ subject }) => subject)),
    },
  ],
  [
    'ontology: attributes',
    {
      extractor: extractOntology,
      good: (entity) => ({
        type: 'attribute',
        entity,
        'entity-type': 'Mill',
        attribute: 'motto',
        value: 'slowly',
      }),
      texts: ['entity', 'entity-type', 'attribute', 'value'],
      names: ({ ontologyAttributes }) =>
        ontologyAttributes.flatMap(({ payload }) => payload.facts.map(({ entity }) => entity)),
    },
  ],
]

/** A text of this length. It repeats no phrase, since the reading of a reply stops at a loop. */
const long = (length: number) =>
  Array.from({ length: length / 10 }, (_, n) => String(n).padEnd(10, 'n')).join('')

/** Texts that may be long. */
const prose = ['definition', 'value']

const count = (counts: Readonly<Record<string, number>>) =>
  Object.values(counts).reduce((sum, each) => sum + each, 0)

/** The entry of a reply's last part, which may come before those of other parts. */
const ending = ({ progress }: Extracted) => progress.find(({ last }) => last)

describe.each(kinds)('%s', (_, { extractor, good, texts, names }) => {
  /** The names that come of a good item, the bad lines, and another good one; and how many were rejected. */
  async function among(bad: readonly (object | string)[]) {
    const lines = [good('first'), ...bad, good('last')].map((each) =>
      typeof each === 'string' ? each : JSON.stringify(each),
    )
    const found = await extractChunk(extractor, [lines.join('\n'), ''], { settings })
    const dead = found.progress.filter(({ kind }) => kind === 'dead')
    expect(dead).toEqual([])
    return { names: names(found), rejected: count(found.counted.rejected), said: found.rejected.length }
  }
  const kept = (rejected: number) => ({ names: ['first', 'last'], rejected, said: rejected })

  test.each(texts)(
    'a missing, null, empty or blank "%s", or one that is no text, costs that item only',
    async (key) => {
      const { [key]: _, ...missing } = good('x')
      const values = [null, '', '  ', {}, ['a'], { nested: { deep: 1 } }]
      // A blank field is a fault of a name, and for rows of the primary key only.
      const isFault = (value: unknown) =>
        extractor !== extractRows || key === 'name' || (value !== '' && value !== '  ')
      const bad = [missing, ...values.filter(isFault).map((value) => ({ ...good('x'), [key]: value }))]
      expect(await among(bad)).toEqual(kept(bad.length))
    },
  )

  test('an item of another kind, or none, costs that item only', async () => {
    const bad = [
      { type: 'novel', title: 'x' },
      { type: 7 },
      { type: { toString: 1 } },
      {},
      { unknown: 'key' },
    ]
    expect(await among(bad)).toEqual(kept(bad.length))
  })

  test('a broken line costs that line only', async () => {
    expect(await among(['{"entity" "x" : }', '{"subject": "x", "predicate": nonsense here'])).toEqual(kept(2))
  })

  test('ten thousand equal items cost nothing but themselves', async () => {
    const line = (name: string) => `${JSON.stringify(good(name))}\n`
    const reply = Array.from(
      { length: 10 },
      (_, round) => line(`new ${round}`) + line('again').repeat(10),
    ).join('')
    const found = await extractChunk(extractor, [reply + line('last')], { settings })
    expect(new Set(names(found)).size).toBe(12)
    expect(ending(found)).toMatchObject({ duplicates: 99, incomplete: null })

    // Without anything new in between the model has lost its way: it is stopped, and what came before is kept.
    const loop = [line('first') + line('again').repeat(10_000), '']
    const looping = await extractChunk(extractor, loop, { settings })
    expect(new Set(names(looping))).toEqual(new Set(['first', 'again']))
    expect(ending(looping)).toMatchObject({ duplicates: 20, incomplete: expect.any(String) })
    expect(count(looping.counted.rejected)).toBe(0)
  }, 30_000)

  test('names of 100 kB are rejected', async () => {
    const bad = texts
      .filter((key) => !prose.includes(key))
      .map((key) => ({ ...good('x'), [key]: long(100_000) }))
    const { names, rejected } = await among(bad)
    expect(names).toEqual(['first', 'last'])
    expect(rejected).toBe(bad.length)
  })

  test('an item larger than a message costs that item only', async () => {
    const { names, rejected } = await among([{ ...good('x'), [texts.at(-1)!]: long(800_000) }])
    expect(names).toEqual(['first', 'last'])
    expect(rejected).toBe(1)
  })

  test('control characters, right-to-left text, white space and lone surrogates stay names', async () => {
    const strange = [
      'a\u0000b\u0007',
      'مطحنة',
      '\u202emill\u202c',
      'a\tb\nc',
      ' Mill ',
      '𝒳',
      'a\u0085\u2028b',
      '"\\u0041"',
    ]
    const lines = [
      ...strange.map((name) => JSON.stringify(good(name))),
      JSON.stringify(good('X')).replace('X', '\\ud800'),
    ]
    const found = await extractChunk(extractor, [lines.join('\n'), ''], { settings })
    expect(names(found)).toEqual([...strange, '\ufffd'])
    expect(count(found.counted.rejected)).toBe(0)
  })
})

describe('a relationship', () => {
  const said = async (value: unknown) => {
    const reply = JSON.stringify({ ...relationship('mill'), 'object-entity': value })
    const { relationships, rejected } = await extractChunk(extractRelationships, [reply, ''])
    return relationships[0]?.payload.facts[0]?.objectEntity ?? rejected[0]?.reason
  }

  test.each([
    [true, true],
    [false, false],
    [undefined, true],
    ['false', false],
    ['True', true],
    ['perhaps', 'schema'],
    [0, false],
    [2, 'schema'],
    // An optional key that is null counts as absent.
    [null, true],
  ])('whose object-entity is %j has %j', async (value, expected) => {
    expect(await said(value)).toBe(expected)
  })
})

test('agent-kg and ontology, which tell kinds apart by type, are partial when no item is of a kind of theirs', async () => {
  const cases = [
    [extractAgentKg, { type: 'Person', ...definition('mill') }],
    [extractOntology, { type: 'Mill', entity: 'Albion Mills', entity_type: 'Mill' }],
    [extractOntology, { type: 'entity', entity: 'Albion Mills', entity_type: 'Castle' }],
  ] as const
  for (const [extractor, item] of cases) {
    const { progress } = await extractChunk(extractor, [JSON.stringify(item), ''], { settings })
    expect(documentStatus(progress, [extractor.name])).toMatchObject({
      state: 'partial',
      incomplete: { no_facts: 1 },
    })
  }
})

test('agent-kg sends definitions and relationships to the topics of the other extractors', async () => {
  const reply = [
    { type: 'Definition', ...definition('mill') },
    { type: 'relationship', ...relationship('mill') },
  ]
  const found = await extractChunk(extractAgentKg, [reply.map((each) => JSON.stringify(each)).join('\n')])
  expect(found.definitions[0]!.payload.facts).toMatchObject([{ entity: 'mill', definition: 'a mill' }])
  expect(found.relationships[0]!.payload.facts).toMatchObject([
    { subject: 'mill', predicate: 'stands by', object: 'the race', objectEntity: true },
  ])
  expect(found.counted.facts).toEqual({ definitions: 1, relationships: 1 })
})
