// From a chunk through the prompt processor and each extractor: where facts stand, what becomes of those that do not, and of echoes.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { extractAgentKg } from '../../processors/extract-agent-kg.ts'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { extractOntology } from '../../processors/extract-ontology.ts'
import { extractRelationships } from '../../processors/extract-relationships.ts'
import { extractRows } from '../../processors/extract-rows.ts'
import { extractTopics } from '../../processors/extract-topics.ts'
import { openOntologies } from '../../src/ontology/ontologies.ts'
import { loadCatalogue } from '../../src/prompt/catalogue/catalogue.ts'
import type { Catalogue } from '../../src/prompt/catalogue/prompt.ts'
import { readTable } from '../../src/rows/definition.ts'
import { rowSchema } from '../../src/rows/row-schema.ts'
import { fixture } from '../ontology/support/files.ts'
import { documentStatus, extractChunk } from '../support/extract-chunk.ts'

const folder = await mkdtemp(join(tmpdir(), 'graphmill-grounding-'))
afterAll(() => rm(folder, { recursive: true, force: true }))
const linesOf = (items: readonly object[]) => [items.map((item) => JSON.stringify(item)).join('\n')]
const brief = (
  grounding: { status: string; spans: readonly { field: string; text: string }[] } | null | undefined,
) => grounding && [grounding.status, ...grounding.spans.map(({ field, text }) => `${field}: ${text}`)]

describe('what must stand in the text', () => {
  const text = 'Albion Mills, which opened in 1786, was designed by Samuel Wyatt. It made flour of grain.'
  const chunk = { text, offset: 1000, start: 990, page: 4, pages: [1040] }

  test('of a definition is the entity', async () => {
    const items = [
      { entity: 'Albion Mills', definition: 'Mills designed by Samuel Wyatt.' },
      { entity: 'Bakery', definition: 'It is made of flour.' },
    ]
    const found = await extractChunk(extractDefinitions, linesOf(items), { chunk })
    const facts = found.definitions.flatMap(({ payload }) => payload.facts)
    expect(facts.map(({ grounding }) => brief(grounding))).toEqual([
      [
        'exact',
        'entity: Albion Mills',
        'definition: Albion Mills, which opened in 1786, was designed by Samuel Wyatt',
      ],
      ['ungrounded', 'definition: It made flour of grain'],
    ])
    expect(facts[0]!.grounding!.spans[0]).toMatchObject({
      offset: 1000,
      length: 12,
      start: 990,
      end: 1002,
      page: 4,
    })
    expect(found.progress.reduce((sum, { ungrounded }) => sum + ungrounded, 0)).toBe(1)
    expect(documentStatus(found.progress, ['extract-definitions']).totals.ungrounded).toBe(1)
  })

  test('of a relationship are subject and object, each on its page', async () => {
    const items = [
      { subject: 'Albion Mills', predicate: 'architect', object: 'samuel wyatt' },
      { subject: 'Albion Mills', predicate: 'architect', object: 'John Rennie' },
    ]
    const found = await extractChunk(extractRelationships, linesOf(items), { chunk })
    const facts = found.relationships.flatMap(({ payload }) => payload.facts)
    expect(facts.map(({ grounding }) => brief(grounding))).toEqual([
      ['normalized', 'subject: Albion Mills', 'object: Samuel Wyatt'],
      ['ungrounded', 'subject: Albion Mills'],
    ])
    expect(facts[0]!.grounding!.spans.map(({ page }) => page)).toEqual([4, 5])
  })

  test('of a topic is its name, and agent-kg has the rules of the others', async () => {
    const topics = await extractChunk(
      extractTopics,
      linesOf([{ name: 'Flour', definition: 'Ground grain' }]),
      {
        chunk,
      },
    )
    expect(brief(topics.topics[0]!.payload.facts[0]!.grounding)).toEqual([
      'normalized',
      'name: flour',
      'definition: It made flour of grain',
    ])
    const items = [
      { type: 'definition', entity: 'grain', definition: 'x' },
      { type: 'relationship', subject: 'flour', predicate: 'is made of', object: 'wheat' },
    ]
    const both = await extractChunk(extractAgentKg, linesOf(items), { chunk })
    expect(brief(both.definitions[0]!.payload.facts[0]!.grounding)).toEqual(['exact', 'entity: grain'])
    expect(brief(both.relationships[0]!.payload.facts[0]!.grounding)).toEqual([
      'ungrounded',
      'subject: flour',
    ])
  })

  test('of a row are its texts, numbers and dates', async () => {
    const fields = [
      { name: 'name', primary_key: true },
      { name: 'opened', type: 'int' },
      { name: 'burned', type: 'date' },
      { name: 'steam', type: 'boolean' },
      { name: 'power', enum_values: ['steam', 'water'] },
    ]
    const table = readTable('mill', { fields }, { at: [], report: (_, message) => expect.fail(message) })
    const items = [
      { name: 'Albion Mills', opened: 1786, burned: '1791-03-02', steam: true, power: 'steam' },
      { name: 'Albion Mills', opened: 1786, steam: true, power: 'steam' },
    ]
    const settings = { rowSchemas: [rowSchema(table!)] }
    const found = await extractChunk(extractRows, linesOf(items), { chunk, settings })
    expect(found.rows.flatMap(({ payload }) => payload.groundings).map(brief)).toEqual([
      ['ungrounded', 'name: Albion Mills', 'opened: 1786'],
      ['exact', 'name: Albion Mills', 'opened: 1786'],
    ])
  })

  test('of facts of an ontology are names and values', async () => {
    const ontologies = await openOntologies({ paths: [fixture('mills.ttl')], budget: 2000 })
    const items = [{ type: 'entity', entity: 'Albion Mills', entity_type: 'Mill' }]
    const found = await extractChunk(extractOntology, linesOf(items), { chunk, settings: { ontologies } })
    await ontologies.close()
    expect(brief(found.ontologyEntities[0]!.payload.facts[0]!.grounding)).toEqual([
      'exact',
      'entity: Albion Mills',
    ])
  })
})

test('ungrounded facts are rejected when the flow says so, and a unit of nothing else is not done', async () => {
  const chunk = { text: 'Albion Mills was designed by Samuel Wyatt.' }
  const invented = { entity: 'Boulton', definition: 'He paid for Albion Mills.' }
  const settings = { ungrounded: 'reject' } as const
  const both = linesOf([invented, { entity: 'Samuel Wyatt', definition: 'An architect.' }])
  const found = await extractChunk(extractDefinitions, both, { chunk, settings })
  expect(found.definitions.flatMap(({ payload }) => payload.facts).map(({ entity }) => entity)).toEqual([
    'Samuel Wyatt',
  ])
  expect(found.rejected).toMatchObject([{ reason: 'ungrounded', text: JSON.stringify(invented) }])
  expect(found.counted.rejected).toEqual({ ungrounded: 1 })
  expect(found.progress.every(({ ungrounded }) => ungrounded === 0)).toBe(true)

  const none = await extractChunk(extractDefinitions, linesOf([invented]), { chunk, settings })
  expect(documentStatus(none.progress, ['extract-definitions'])).toMatchObject({
    units: { done: 0, partial: 1 },
    incomplete: { no_facts: 1 },
  })
})

describe('an example of the prompt', () => {
  const gannet = {
    entity: 'Gannet',
    definition: 'A large white seabird that dives into the sea to catch fish.',
  }
  const island = {
    entity: 'Bass Rock',
    definition: 'A small island in the Firth of Forth on which gannets nest.',
  }
  const rock = { subject: 'Bass Rock', predicate: 'lies in', object: 'Firth of Forth' }
  const height = { subject: 'Bass Rock', predicate: 'has height', object: '107 metres' }
  const mills = { text: 'A ship sailed the sea to Albion Mills in London.' }

  async function reasonsOf(
    extractor: Parameters<typeof extractChunk>[0],
    items: readonly object[],
    more: Parameters<typeof extractChunk>[2],
  ): Promise<string[]> {
    const { rejected, counted } = await extractChunk(extractor, linesOf(items), more)
    expect(counted.rejected).toEqual(rejected.length > 0 ? { echo_of_example: rejected.length } : {})
    return rejected.map(({ reason, text }) => `${reason} ${Object.values(JSON.parse(text))[0]}`)
  }

  test('is rejected when the text says nothing of it, and the other items are kept', async () => {
    const mill = { entity: 'Albion Mills', definition: 'A mill in London.' }
    const found = await extractChunk(extractDefinitions, linesOf([gannet, mill, island]), { chunk: mills })
    expect(found.definitions.flatMap(({ payload }) => payload.facts).map(({ entity }) => entity)).toEqual([
      'Albion Mills',
    ])
    expect(found.rejected).toMatchObject([
      { reason: 'echo_of_example', text: JSON.stringify(gannet) },
      { reason: 'echo_of_example', text: JSON.stringify(island) },
    ])
    expect(found.counted).toEqual({ facts: { definitions: 1 }, rejected: { echo_of_example: 2 } })
  })

  test('leaves its unit partial when there is nothing else', async () => {
    const found = await extractChunk(extractDefinitions, linesOf([gannet, island]), { chunk: mills })
    const status = documentStatus(found.progress, ['extract-definitions'])
    expect(status).toMatchObject({ units: { done: 0, partial: 1 }, incomplete: { no_facts: 1 } })
    expect(status.totals.rejected).toEqual({ echo_of_example: 2 })
  })

  test('is recognized in another writing, and without or with optional keys', async () => {
    const written = [
      {
        definition: 'a large white  seabird that DIVES into the sea to catch fish',
        entity: 'gannet',
      },
      { ...rock, 'object-entity': false, note: null },
      { ...height, object: '107 Metres.' },
    ]
    expect(await reasonsOf(extractDefinitions, [written[0]!], { chunk: mills })).toHaveLength(1)
    expect(await reasonsOf(extractRelationships, written.slice(1), { chunk: mills })).toHaveLength(2)
  })

  test.each([
    ['Gannets, large white birds of the sea, dive for fish near the coast.', extractDefinitions, [gannet]],
    [
      'The Bass Rock is a small island in the Firth of Forth. Gannets nest there.',
      extractDefinitions,
      [island],
    ],
    ['The Bass Rock, 107 metres high, lies in the Forth.', extractRelationships, [rock, height]],
    ['We saw a gannet.', extractDefinitions, [gannet]],
  ])('is kept when the text says it: %s', async (text, extractor, items) => {
    expect(await reasonsOf(extractor, items, { chunk: { text } })).toEqual([])
  })

  test('that the model changed is no echo', async () => {
    const other = { entity: 'Gannet', definition: 'A bird that flies by Albion Mills.' }
    expect(await reasonsOf(extractDefinitions, [other], { chunk: mills })).toEqual([])
  })

  test('of topics is an echo too', async () => {
    const topic = {
      topic: 'island ecology',
      definition: 'How living things on an island depend on each other.',
    }
    expect(await reasonsOf(extractTopics, [topic], { chunk: mills })).toEqual([
      'echo_of_example island ecology',
    ])
  })

  async function prompts(prompt: string, schema?: object): Promise<Catalogue> {
    const file = join(await mkdtemp(join(folder, 'prompts-')), 'extract-relationships.json')
    await writeFile(file, JSON.stringify({ prompt, 'response-type': 'jsonl', ...(schema && { schema }) }))
    return loadCatalogue([file])
  }
  const echo = { subject: 'Kepler', predicate: 'discovered', object: 'elliptic orbits' }

  test.each([
    ['on a line', `Like this: ${JSON.stringify(echo)}\nText: {{ text }}`],
    ['over several lines', `Like this:\n${JSON.stringify(echo, null, 2)}\nText: {{ text }}`],
    [
      'in a list',
      `Like this: [${JSON.stringify(echo)}, {"subject": "x", "predicate": "y", "object": "z"}]\n{{ text }}`,
    ],
    ['inside another object', `{"input": "…", "output": [${JSON.stringify(echo)}]}\n{{ text }}`],
    ['in a fence, behind the text', `{{ text }}\n\n\`\`\`json\n${JSON.stringify(echo)}\n\`\`\`\n`],
    [
      'given by a term',
      `{{ text }}\n{{ {"subject": "Kepler", "predicate": "discovered", "object": "elliptic orbits"}|dump }}`,
    ],
  ])('of a prompt of one’s own is found %s', async (_, prompt) => {
    const catalogue = await prompts(prompt)
    // An object in the text is no example, and a marker of thoughts there hides none.
    const text = `Ada <think> knew {"subject": "Ada", "predicate": "knew", "object": "Babbage"} {`
    const known = { subject: 'Ada', predicate: 'knew', object: 'Babbage' }
    const more = { chunk: { text }, prompts: catalogue }
    expect(await reasonsOf(extractRelationships, [echo, known], more)).toEqual(['echo_of_example Kepler'])
  })

  test('that does not fit the schema of the prompt is no example', async () => {
    const schema = { type: 'object', required: ['subject', 'predicate', 'object', 'source'] }
    const catalogue = await prompts(`Not so: ${JSON.stringify(echo)}\n{{ text }}`, schema)
    const more = { chunk: mills, prompts: catalogue }
    expect(await reasonsOf(extractRelationships, [{ ...echo, source: 'a book' }], more)).toEqual([])
  })

  test('for rows is found with the schema of the table', async () => {
    const table = readTable(
      'mill',
      {
        description: 'such as {"name": "Old Mill", "opened": 1700}',
        fields: [{ name: 'name' }, { name: 'opened', type: 'int' }],
      },
      { at: [], report: (_, message) => expect.fail(message) },
    )
    const settings = { rowSchemas: [rowSchema(table!)] }
    const items = [{ name: 'Old Mill', opened: 1700 }, { name: 'Albion Mills' }]
    expect(await reasonsOf(extractRows, items, { chunk: mills, settings })).toEqual([
      'echo_of_example Old Mill',
    ])
  })

  test('inside a thought is not counted', async () => {
    const reply = [`${JSON.stringify(gannet)}\n</think>\n{"entity": "Albion Mills", "definition": "A mill."}`]
    const found = await extractChunk(extractDefinitions, reply, { chunk: mills })
    expect(found.counted).toEqual({ facts: { definitions: 1 }, rejected: {} })
  })
})
