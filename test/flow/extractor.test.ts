import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { definitionFact, extractDefinitions } from '../../processors/extract-definitions.ts'
import { extractRelationships, relationshipFact } from '../../processors/extract-relationships.ts'
import { prompt } from '../../processors/prompt.ts'
import { loadCatalogue } from '../../src/prompt/catalogue/catalogue.ts'
import { documentStatus, extractChunk } from '../support/extract-chunk.ts'
import { startFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

test.each([
  ['text', '{"entity":"mill","definition":"a machine"}', 'in text'],
  ['json', '{"definitions":[{"entity":"mill","definition":"a machine"}]}', 'not in an array'],
])(
  'a reply of a %s prompt that is no list of items is dead, and no empty success',
  async (type, text, why) => {
    const folder = await mkdtemp(join(tmpdir(), 'graphmill-prompts-'))
    const file = join(folder, 'extract-definitions.yaml')
    await writeFile(file, `response-type: ${type}\nprompt: 'Define: {{ text }}'\n`)
    const prompts = await loadCatalogue([file])
    const flow = await startFlow([prompt, extractDefinitions], { llm: scriptedLlm([text]), prompts })
    try {
      const chunk = { part: 0, index: 0, offset: 0, length: 4, text: 'mill' }
      await flow.send('chunk', chunk)
      const [entry] = await flow.first(flow.topic('progress'), 1)
      expect(entry!.payload).toMatchObject({
        kind: 'dead',
        unit: 'extract-definitions',
        error: { type: 'reply_unfit', message: expect.stringContaining(why) },
      })
    } finally {
      await flow.stop()
      await rm(folder, { recursive: true })
    }
  },
)

describe('an extractor of a single kind', () => {
  const ada = { entity: 'Ada', type: 'Person', definition: 'a mathematician' }
  const knew = { subject: 'Ada', predicate: 'knew', object: 'Babbage', type: 'acquaintance' }
  const lines = (...items: readonly object[]) => items.map((item) => `${JSON.stringify(item)}\n`).join('')

  test('reads type as a field of the item, whatever it says', async () => {
    const { definitions, progress } = await extractChunk(extractDefinitions, [
      lines(ada, { ...ada, entity: 'Byron', type: ['Poet'] }, { ...ada, entity: 'Mill', type: null }),
    ])
    const entities = definitions.flatMap(({ payload }) => payload.facts.map(({ entity }) => entity))
    expect(entities).toEqual(['Ada', 'Byron', 'Mill'])
    expect(progress.at(-1)).toMatchObject({ rejected: {}, incomplete: null })
    const { relationships } = await extractChunk(extractRelationships, [lines(knew)])
    expect(relationships[0]!.payload.facts[0]).toMatchObject({ subject: 'Ada', object: 'Babbage' })
  })

  test.each([
    ['restricts it to a type of thing', { enum: ['Person', 'Place'] }, ['Ada'], {}],
    ['tells kinds apart by it', { enum: ['definition', 'Person'] }, ['Byron'], { unknown_type: 1 }],
  ])('heeds a schema that %s', async (_, type, kept, rejected) => {
    const schema = { type: 'object', properties: { type } }
    const prompts = await promptOf('extract-definitions', { schema })
    const items = [ada, { ...ada, entity: 'Byron', type: 'definition' }]
    const found = await extractChunk(extractDefinitions, [lines(...items), ''], { prompts })
    expect(found.definitions.flatMap(({ payload }) => payload.facts.map(({ entity }) => entity))).toEqual(
      kept,
    )
    expect(found.rejected.filter(({ reason }) => reason === 'unknown_type')).toHaveLength(
      Object.keys(rejected).length,
    )
  })

  test('asks only for what the schema of the prompt rejected again, not for what it refuses itself', async () => {
    const bare = lines({ entity: 'Ada' })
    const byPrompt = await extractChunk(extractDefinitions, [bare, ''])
    expect(byPrompt.prompts).toHaveLength(2)
    expect(byPrompt.progress.at(-1)).toMatchObject({ facts: {}, incomplete: 'no_facts' })

    const prompts = await promptOf('extract-definitions', {})
    const byExtractor = await extractChunk(extractDefinitions, [bare], { prompts })
    expect(byExtractor.prompts).toHaveLength(1)
    expect(byExtractor.rejected).toMatchObject([
      { reason: 'empty', message: 'Its definition is missing or empty.' },
    ])
    const status = documentStatus(byExtractor.progress, ['extract-definitions'])
    expect(status).toMatchObject({ state: 'partial', incomplete: { no_facts: 1 } })
  })
})

describe('without a schema', () => {
  const relationship = { subject: 'Ada', predicate: 'was aged', object: 'thirty' }
  const factOf = (more: object) => {
    const fact = relationshipFact({ ...relationship, ...more })
    return 'refused' in fact ? fact.refused : fact.fact
  }

  test.each([
    [30, '30'],
    [0, '0'],
    [-1.5, '-1.5'],
    [1e-7, '1e-07'],
    [true, 'True'],
    [false, 'False'],
    ['12345678901234567890', '12345678901234567890'],
  ])('the object %j is the text %j, as TrustGraph writes it', (object, text) => {
    expect(factOf({ object })).toMatchObject({ object: text })
    expect(definitionFact({ entity: 'Ada', definition: object })).toMatchObject({
      fact: { definition: text },
    })
  })

  test.each([
    [null, 'empty'],
    ['', 'empty'],
    [' ', 'empty'],
    [{ value: 30 }, 'not_text'],
    [[30], 'not_text'],
  ])('the object %j is refused as %s', (object, reason) => {
    expect(factOf({ object })).toBe(reason)
    expect(definitionFact({ entity: 'Ada', definition: object })).toMatchObject({ refused: reason })
  })

  test.each([
    [undefined, true],
    [true, true],
    [1, true],
    ['true', true],
    ['false', true],
    ['no', true],
    [[0], true],
    [false, false],
    [0, false],
    ['', false],
    [null, false],
    [[], false],
    [{}, false],
  ])('object-entity %j is %j, as TrustGraph reads it', (said, isEntity) => {
    const more = said === undefined ? {} : { 'object-entity': said }
    expect(factOf(more)).toMatchObject({ objectEntity: isEntity })
    if (said !== undefined) expect(factOf({ object_entity: said })).toMatchObject({ objectEntity: isEntity })
  })
})

const folders: string[] = []
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))))

/** The built-in prompts, one of them replaced by a `jsonl` prompt of these keys. */
async function promptOf(id: string, keys: object) {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-prompts-'))
  folders.push(folder)
  const file = join(folder, `${id}.yaml`)
  await writeFile(file, JSON.stringify({ prompt: 'Read: {{ text }}', 'response-type': 'jsonl', ...keys }))
  return loadCatalogue([file])
}

test('extractors announce a chunk that nobody else announces, with its units, before its request', async () => {
  const flow = await startFlow([extractDefinitions])
  try {
    const text = 'A mill.'
    const chunk = { part: 0, index: 0, offset: 0, length: text.length, text }
    const place = { documentId: 'urn:tg:doc', chunkId: 'urn:chunk:5e0c/0/3' }
    await flow.send('chunk', chunk, { source: 'trustgraph', ...place })
    await flow.send('chunk', chunk, { source: 'chunk-text', ...place, chunkId: 'urn:chunk:ours' })
    await flow.first(flow.topic('prompt'), 2)
    const told = await flow.all(flow.topic('progress'))
    expect(told).toMatchObject([{ ...place, payload: { kind: 'chunk', units: ['extract-definitions'] } }])
  } finally {
    await flow.stop()
  }
})
