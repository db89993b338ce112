import { describe, expect, test } from 'vitest'
import { loadOntology } from '../../src/ontology/load.ts'
import { loadCatalogue } from '../../src/prompt/catalogue/catalogue.ts'
import { loadRowSchemas } from '../../src/rows/load.ts'
import { flowIds, followedTypes, readFollowedFlow } from '../../src/trustgraph/followed-flow.ts'
import { counterparts } from '../../src/trustgraph/wire.ts'
import { snapshotOf } from '../support/trustgraph-config.ts'

const ids = { workspace: 'Acme.Corp', flow: 'F', processors: {} }
const follow = (types: Record<string, Record<string, unknown>>, more = {}, given = {}) =>
  readFollowedFlow(snapshotOf({ 'Acme.Corp': types }), { ...ids, ...more }, given)

const topics = (name: string) => ({ request: `request:tg:${name}`, response: `response:tg:${name}` })

describe('a flow of TrustGraph', () => {
  test('has the processors that are configured for it, with their topics', () => {
    const found = follow({
      'processor:prompt': { F: { topics: topics('p'), parameters: {} } },
      'processor:prompt-rag': { F: { topics: topics('p-rag') } },
      'processor:kg-extract-rows': {
        F: {
          topics: { input: 'flow:tg:c', output: 'flow:tg:r', 'prompt-request': 'request:tg:p', other: 'x' },
        },
        G: { topics: { input: 'flow:tg:of-another-flow' } },
      },
      'processor:kg-extract-definitions': { G: { topics: {} } },
    })
    expect([...found.processors].sort()).toEqual(['extract-rows', 'prompt'])
    expect(found.identifiers).toEqual({
      ...{ prompt: 'request:tg:p', 'prompt-reply': 'response:tg:p' },
      ...{ 'prompt-live': 'request:tg:p-rag', 'prompt-live-reply': 'response:tg:p-rag' },
      ...{ chunk: 'flow:tg:c', rows: 'flow:tg:r' },
    })
  })

  test.each(
    Object.values(counterparts).flatMap((inputs) =>
      Object.entries(inputs).map(([own, { processor, port }]) => [processor, port, own] as const),
    ),
  )('has the topic of %s’s port %s as that of our port %s', (processor, port, own) => {
    const { identifiers } = follow({ [`processor:${processor}`]: { F: { topics: { [port]: 'flow:tg:x' } } } })
    expect(identifiers).toEqual({ [own]: 'flow:tg:x' })
  })

  test('has parameters of ours, and no others', () => {
    const { parameters } = follow({
      'processor:chunker': {
        F: { parameters: { 'chunk-size': '500', 'chunk-overlap': 10, other: 'x', model: '' } },
      },
      'processor:text-completion': { F: { parameters: { model: 'm', temperature: '0.2' } } },
    })
    expect(Object.fromEntries(parameters)).toEqual({
      'chunk-text': { 'chunk-size': '500', 'chunk-overlap': '10' },
      'text-completion': { model: 'm', temperature: '0.2' },
    })
  })

  test('may have processors with other ids', () => {
    const types = { 'processor:my-prompt': { F: { topics: topics('mine') } } }
    const processors = { prompt: 'my-prompt' }
    expect(follow(types, { processors }).identifiers).toEqual({
      ...{ prompt: 'request:tg:mine', 'prompt-reply': 'response:tg:mine' },
    })
    expect(flowIds(snapshotOf({ w: types }), { workspace: 'w', processors })).toEqual(['F'])
    expect(flowIds(snapshotOf({ w: types }), { workspace: 'w', processors: {} })).toEqual([])
    expect(followedTypes([{ processors }])).toContain('processor:my-prompt')
    expect(followedTypes([{ processors }])).not.toContain('processor:prompt')
  })

  test('cannot have two topics in the place of one, unless the flows file names it', () => {
    const types = {
      'processor:kg-extract-definitions': { F: { topics: { triples: 'flow:tg:one' } } },
      'processor:kg-extract-relationships': { F: { topics: { triples: 'flow:tg:two' } } },
    }
    expect(() => follow(types)).toThrow(
      'processor:kg-extract-relationships: F: its topic triples is flow:tg:two, but that of another processor is flow:tg:one',
    )
    expect(follow(types, {}, { triples: 'flow:tg:three' }).identifiers).toEqual({ triples: 'flow:tg:three' })
  })

  test.each([
    ['no JSON', '{', 'it is no JSON object'],
    ['a list', [], 'it is no JSON object'],
    ['topics that are no object', { topics: 1 }, 'topics: it must be an object'],
    ['a topic that is no text', { topics: { request: {} } }, 'topics: request: it must be a text'],
  ])('is refused with %s', (_, entry, message) => {
    expect(() => follow({ 'processor:prompt': { F: entry } })).toThrow(message)
  })

  test('is gone with its workspace', () => {
    const snapshot = { ...snapshotOf({ w: { 'processor:prompt': { F: {} } } }), workspaces: [] }
    expect(flowIds(snapshot, { workspace: 'w', processors: {} })).toEqual([])
  })
})

describe('the files of a workspace', () => {
  test('are its prompts: every template, whatever the index says, and TrustGraph’s system text without one', async () => {
    const { prompts } = follow({
      prompt: {
        'template-index': '["a"]',
        'template.a': { prompt: 'A {{ x }}' },
        'template.b': { prompt: 'B' },
        other: '{',
      },
    })
    const catalogue = await loadCatalogue([], prompts)
    expect(catalogue.ids()).toEqual(['a', 'b'])
    expect(catalogue.get('a').render({ x: '1' })).toEqual({ system: 'Be helpful.', user: 'A 1' })
    const { prompts: own } = follow({ prompt: { system: '"Be brief."', 'template.a': { prompt: 'A' } } })
    expect((await loadCatalogue([], own)).get('a').render({}).system).toBe('Be brief.')
  })

  test('hold no prompt in a workspace without any', async () => {
    expect((await loadCatalogue([], follow({}).prompts)).ids()).toEqual([])
  })

  test('name what is wrong with a prompt', async () => {
    const { prompts } = follow({ prompt: { 'template.a': { prompt: '{% if %}' }, 'template.b': 'no JSON' } })
    await expect(loadCatalogue([], prompts)).rejects.toThrow(
      "TrustGraph's configuration, workspace Acme.Corp, type prompt.json: template.b: not JSON",
    )
  })

  test('are its ontologies, by their ids', async () => {
    const { ontologies } = follow({
      ontology: {
        mills: {
          metadata: { name: 'Mills' },
          classes: {
            Mill: { uri: 'https://example.org/Mill', 'rdfs:label': [{ value: 'Mill', lang: 'en' }] },
          },
          objectProperties: { 'driven-by': { 'rdfs:domain': 'Mill', 'rdfs:range': 'Mill' } },
          datatypeProperties: {},
        },
        rivers: { classes: { River: {} } },
      },
    })
    const { ontology } = await loadOntology([ontologies!])
    expect(ontology.ids).toEqual(['mills', 'rivers'])
    expect([...ontology.classes.keys()]).toEqual([
      'https://example.org/Mill',
      'https://trustgraph.ai/ontology/rivers#River',
    ])
    const broken = follow({ ontology: { mills: '{' } }).ontologies!
    await expect(loadOntology([broken])).rejects.toThrow('type ontology.json: mills: must be an ontology')
  })

  test('are its row schemas, under the keys that TrustGraph’s rows carry', async () => {
    const { schemas, ontologies } = follow({
      schema: { mills: { name: 'Mill', description: 'd', fields: [{ name: 'n', type: 'string' }] } },
    })
    expect(await loadRowSchemas([schemas!])).toMatchObject([{ name: 'mills', description: 'd' }])
    expect(ontologies).toBeUndefined()
  })
})
