import { writeFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { emitTriples } from '../../processors/emit-triples.ts'
import { extractOntology } from '../../processors/extract-ontology.ts'
import { prompt } from '../../processors/prompt.ts'
import { deadTopic, topicSpec } from '../../src/broker/topics.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { PromptResponseInit } from '../../src/messages/generated.ts'
import { type Ontologies, openOntologies } from '../../src/ontology/ontologies.ts'
import { loadCatalogue } from '../../src/prompt/catalogue/catalogue.ts'
import { decodeTerms } from '../../src/prompt/catalogue/terms.ts'
import { createEncoder } from '../../src/rdf/write.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'
import { file, fixture, turtle } from './support/files.ts'

const m = 'http://example.org/mills#'
const replies = 'gm.response.prompt.extract-ontology.default.default'

async function open(path: string): Promise<Ontologies> {
  const ontologies = await openOntologies({ paths: [path], budget: 2000 })
  onTestFinished(() => ontologies.close())
  return ontologies
}

async function start(ontologies: Ontologies | undefined): Promise<TestFlow> {
  const flow = await startFlow([extractOntology, emitTriples], {
    flows: [
      {
        ...scope,
        settings: { ...settings, extractors: ['extract-ontology'], ...(ontologies && { ontologies }) },
      },
    ],
  })
  onTestFinished(() => flow.stop())
  return flow
}

let parts = 0

/** Publishes a part of a reply to the extractor. */
async function reply(
  { broker, codec }: TestFlow,
  items: readonly unknown[],
  more: Partial<PromptResponseInit> = {},
): Promise<void> {
  const id = `part-${++parts}`
  const header = {
    ...{
      id,
      source: 'prompt',
      time: 0,
      ...scope,
      collection: 'default',
      documentId: 'urn:d',
      chunkId: 'urn:d/0/0',
    },
    ...{ correlationId: 'r', causationId: 'r', replyTo: null, deadline: null, traceparent: null },
  }
  const payload = {
    promptId: 'extract-with-ontologies',
    run: { id: 'run', startedAt: 0 },
    model: 'test',
    object: JSON.stringify(items),
    endOfStream: true,
    ...more,
  }
  await broker.publish(
    codec.encode(header, { type: 'PromptResponse', payload }, { topic: replies, salt: '', id: () => id }),
  )
}

const chunk = { part: 0, index: 0, offset: 0, length: 7, text: 'A mill.' }

async function progressOf(flow: TestFlow, count: number) {
  const found = await flow.first(flow.topic('progress'), count)
  return found.map(({ payload }) => payload as Message<'Progress'>['payload'])
}

test('the request for a chunk has the part of the ontologies that it needs, and their version', async () => {
  const ontologies = await open(fixture('mills.ttl'))
  const flow = await start(ontologies)
  await flow.send('chunk', chunk)
  const [request] = (await flow.first(flow.topic('prompt'), 1)) as Message<'PromptRequest'>[]
  expect(request).toMatchObject({
    replyTo: replies,
    payload: { promptId: 'extract-with-ontologies', streaming: true },
  })
  expect(request!.payload.context).toMatchObject({
    unit: 'extract-ontology',
    version: ontologies.current().summary.version,
  })
  const prompt = (await loadCatalogue()).get(request!.payload.promptId)
  const { user } = prompt.render(decodeTerms(request!.payload.terms))
  expect(user).toContain('- WaterMill (a kind of Mill)')
  expect(user).toContain('- designedBy (from Building to Person)')
  expect(user).toContain('- opened (of Building, a xsd:gYear)')
})

test('items become facts of three kinds, bad ones are rejected with their reasons, and progress counts both', async () => {
  const ontologies = await open(fixture('mills.ttl'))
  const flow = await start(ontologies)
  const { version } = ontologies.current().summary
  const items = [
    { type: 'entity', entity: 'Albion Mills', entity_type: 'Mill' },
    { type: 'entity', entity: 'Samuel Wyatt', 'entity-type': 'Person' },
    { type: 'entity', entity: 'Enterprise', entity_type: 'Spaceship' },
    {
      type: 'relationship',
      subject: 'Albion Mills',
      subject_type: 'Mill',
      relation: 'designedBy',
      object: 'Samuel Wyatt',
      object_type: 'Person',
    },
    {
      type: 'relationship',
      subject: 'Samuel Wyatt',
      subject_type: 'Person',
      relation: 'designedBy',
      object: 'Albion Mills',
      object_type: 'Mill',
    },
    { type: 'attribute', entity: 'Albion Mills', entity_type: 'Mill', attribute: 'opened', value: 1786 },
    'no object',
  ]
  await reply(flow, items, { context: { unit: 'extract-ontology', version }, duplicates: 2 })
  const [entry] = await progressOf(flow, 1)
  expect(entry).toMatchObject({
    kind: 'reply',
    unit: 'extract-ontology',
    last: true,
    duplicates: 2,
    facts: { 'ontology-entities': 2, 'ontology-relationships': 1, 'ontology-attributes': 1 },
    rejected: { unknown_class: 1, domain: 1, not_object: 1 },
  })
  const [rejected] = (await flow.first(flow.topic('rejected'), 1)) as Message<'Rejected'>[]
  expect(rejected!.payload.items.map(({ reason }) => reason)).toEqual([
    'unknown_class',
    'domain',
    'not_object',
  ])
  expect(rejected!.payload.items[0]).toMatchObject({
    text: JSON.stringify(items[2]),
    message: 'The ontology has no class "Spaceship".',
  })
  const [attributes] = (await flow.first(
    flow.topic('ontology-attributes'),
    1,
  )) as Message<'OntologyAttributes'>[]
  expect(attributes!.payload).toMatchObject({
    ontology: 'mills',
    version,
    model: 'test',
    facts: [{ value: '1786' }],
  })

  const triples = (await flow.first(flow.topic('triples'), 3)) as Message<'Triples'>[]
  const lines = triples.flatMap(({ payload }) =>
    createEncoder('nquads').encode(payload.triples).trim().split('\n'),
  )
  const [runtimes, wyatt] = ['<http://trustgraph.ai/e/albion-mills>', '<http://trustgraph.ai/e/samuel-wyatt>']
  expect(lines.sort()).toEqual(
    [
      `${runtimes} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <${m}Mill> .`,
      `${runtimes} <http://www.w3.org/2000/01/rdf-schema#label> "Albion Mills" .`,
      `${wyatt} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <${m}Person> .`,
      `${wyatt} <http://www.w3.org/2000/01/rdf-schema#label> "Samuel Wyatt" .`,
      `${runtimes} <${m}designedBy> ${wyatt} .`,
      `${runtimes} <${m}opened> "1786"^^<http://www.w3.org/2001/XMLSchema#gYear> .`,
    ].sort(),
  )
})

test('the ontologies’ own triples are published once per version, not once per chunk', async () => {
  const path = file('e.ttl', turtle('e:A a owl:Class .'))
  const ontologies = await open(path)
  const flow = await start(ontologies)
  for (let index = 0; index < 5; index++) await flow.send('chunk', { ...chunk, index })
  await flow.first(flow.topic('prompt'), 5)
  writeFileSync(path, turtle('e:B a owl:Class .'))
  await ontologies.reload()
  for (let index = 5; index < 10; index++) await flow.send('chunk', { ...chunk, index })
  await flow.first(flow.topic('prompt'), 10)
  const told = (await flow.all(flow.topic('triples'))) as Message<'Triples'>[]
  expect(told.map(({ payload }) => payload.triples.map(({ s }) => s.iri))).toEqual([
    ['http://example.org/e#A'],
    ['http://example.org/e#B'],
  ])
})

test('the contexts of a reply are TrustGraph’s: one for each entity, of its label and definitions, with its classes', async () => {
  const described =
    'e:Mill a owl:Class . e:Old a owl:Class . <https://schema.org/description> a owl:DatatypeProperty .'
  const ontologies = await open(file('e.ttl', turtle(described)))
  const flow = await start(ontologies)
  const { version } = ontologies.current().summary
  const about = (entity: string, value: string) => ({
    ...{ type: 'attribute', entity, entity_type: 'Mill', attribute: 'description', value },
  })
  const items = [
    { type: 'entity', entity: 'Albion Mills', entity_type: 'Mill' },
    about('Albion Mills', 'A steam mill'),
    { type: 'entity', entity: 'Albion Mills', entity_type: 'Old' },
    about('Albion Mills', 'It burnt down'),
    about('Chesterton', 'A windmill'),
    about('Chesterton', 'It stands'),
  ]
  const context = { unit: 'extract-ontology', version }
  // The prompt service repeats in the last part what it has sent before.
  await reply(flow, items.slice(0, 2), { context, endOfStream: false, repeated: -1 })
  await reply(flow, items.slice(2, 3), { context, seq: 1, endOfStream: false, repeated: -1 })
  await reply(flow, items, { context, seq: 2, repeated: 3 })
  const told = await progressOf(flow, 3)
  expect(told.map(({ facts }) => facts)).toEqual([
    { 'ontology-entities': 1, 'ontology-attributes': 1 },
    { 'ontology-entities': 1 },
    { 'ontology-attributes': 3 },
  ])
  const messages = (await flow.all(flow.topic('entity-contexts'))) as Message<'EntityContexts'>[]
  const contexts = messages.flatMap(({ payload }) => payload.entities)
  const found = contexts.map(({ context, rdfType, attributes }) => ({ context, rdfType, attributes }))
  const classes = ['http://example.org/e#Mill', 'http://example.org/e#Old']
  expect(found.sort((one, other) => (one.context < other.context ? -1 : 1))).toEqual([
    { context: 'A windmill. It stands', rdfType: [], attributes: {} },
    { context: 'Label: Albion Mills. A steam mill. It burnt down', rdfType: classes, attributes: {} },
  ])
})

test('an entity whose definition comes in a later part of a streamed reply has one context', async () => {
  const described = 'e:Mill a owl:Class . <https://schema.org/description> a owl:DatatypeProperty .'
  const ontologies = await open(file('e.ttl', turtle(described)))
  const attribute = { type: 'attribute', entity: 'Albion', entity_type: 'Mill', attribute: 'description' }
  const lines = [
    { type: 'entity', entity: 'Albion', entity_type: 'Mill' },
    { ...attribute, value: 'A steam mill' },
    { ...attribute, value: 'It burnt down' },
  ].map((item) => `${JSON.stringify(item)}\n`)
  const entityIsOut = Promise.withResolvers<void>()
  const model = scriptedLlm([{ pieces: lines }])
  const llm: typeof model = {
    ...model,
    async *stream(request, signal) {
      for await (const event of model.stream(request, signal)) {
        yield event
        if (event.type === 'delta') await entityIsOut.promise
      }
    },
  }
  const flow = await startFlow([extractOntology, prompt, emitTriples], {
    flows: [{ ...scope, settings: { ...settings, extractors: ['extract-ontology'], ontologies } }],
    llm,
  })
  onTestFinished(() => flow.stop())
  await flow.send('chunk', chunk)
  await flow.first(flow.topic('ontology-entities'), 1)
  expect(await flow.all(flow.topic('entity-contexts'))).toEqual([])
  entityIsOut.resolve()
  await flow.first(flow.topic('ontology-attributes'), 1)
  const [told] = (await flow.first(flow.topic('entity-contexts'), 1)) as Message<'EntityContexts'>[]
  expect(told!.payload.entities).toMatchObject([{ context: 'Label: Albion. A steam mill. It burnt down' }])
})

test('a whole reply in one part, as of TrustGraph’s prompt service, has its contexts too', async () => {
  const ontologies = await open(fixture('mills.ttl'))
  const flow = await start(ontologies)
  const { version } = ontologies.current().summary
  const item = { type: 'entity', entity: 'Albion Mills', entity_type: 'Mill' }
  await reply(flow, [item, item], { context: { unit: 'extract-ontology', version } })
  const [told] = (await flow.first(flow.topic('entity-contexts'), 1)) as Message<'EntityContexts'>[]
  expect(told!.payload.entities).toMatchObject([{ context: 'Label: Albion Mills', chunkId: 'urn:d/0/0' }])
})

test('classes and properties that have a label have a context, once per version, and nothing of provenance has', async () => {
  const labels =
    'e:Mill a owl:Class ; rdfs:label "Mill" . e:Bare a owl:Class . e:owns a owl:ObjectProperty ; rdfs:label "owns" .'
  const ontologies = await open(file('e.ttl', turtle(labels)))
  const flow = await start(ontologies)
  for (let index = 0; index < 3; index++) await flow.send('chunk', { ...chunk, index })
  await flow.first(flow.topic('prompt'), 3)
  const told = (await flow.all(flow.topic('entity-contexts'))) as Message<'EntityContexts'>[]
  const own = told
    .flatMap(({ payload }) => payload.entities)
    .filter(({ entity }) => entity.iri?.includes('/e#'))
  expect(own).toMatchObject([
    { context: 'Label: Mill', rdfType: ['http://www.w3.org/2002/07/owl#Class'] },
    { context: 'Label: owns', rdfType: ['http://www.w3.org/2002/07/owl#ObjectProperty'] },
  ])
})

test('a reply to an older version is checked against that version, and its facts say so', async () => {
  const path = file('e.ttl', turtle('e:Old a owl:Class .'))
  const ontologies = await open(path)
  const { version } = ontologies.current().summary
  writeFileSync(path, turtle('e:New a owl:Class .'))
  await ontologies.reload()
  const flow = await start(ontologies)
  const items = ['Old', 'New'].map((entity_type) => ({ type: 'entity', entity: 'A', entity_type }))
  await reply(flow, items, { context: { unit: 'extract-ontology', version } })
  expect((await progressOf(flow, 1))[0]).toMatchObject({
    facts: { 'ontology-entities': 1 },
    rejected: { unknown_class: 1 },
  })
  const [entities] = (await flow.first(flow.topic('ontology-entities'), 1)) as Message<'OntologyEntities'>[]
  expect(entities!.payload).toMatchObject({ version, facts: [{ typeIri: 'http://example.org/e#Old' }] })
})

test('items of a version that is gone are rejected, kept as a dead letter, and leave the unit partial', async () => {
  const flow = await start(await open(fixture('mills.ttl')))
  const item = { type: 'entity', entity: 'A', entity_type: 'Mill' }
  await reply(flow, [item, item], { context: { unit: 'extract-ontology', version: 'of another time' } })
  expect((await progressOf(flow, 1))[0]).toMatchObject({
    kind: 'dead',
    unit: 'extract-ontology',
    error: { type: 'version_gone' },
  })
  const [rejected] = (await flow.first(flow.topic('rejected'), 1)) as Message<'Rejected'>[]
  expect(rejected!.payload.items).toEqual([
    expect.objectContaining({ reason: 'version_gone', text: JSON.stringify(item) }),
    expect.objectContaining({ reason: 'version_gone' }),
  ])
  const dead = deadTopic(replies)
  await flow.broker.ensureTopics([topicSpec(dead)])
  for await (const letter of flow.broker.read(
    { topic: dead, from: 'earliest', until: 'never' },
    AbortSignal.timeout(10_000),
  )) {
    expect(letter.headers).toMatchObject({ 'dead-code': 'version_gone' })
    break
  }
})

test('a last part without items needs no version', async () => {
  const flow = await start(await open(fixture('mills.ttl')))
  await reply(flow, [], { context: { unit: 'extract-ontology', version: 'of another time' } })
  expect((await progressOf(flow, 1))[0]).toMatchObject({ kind: 'reply', last: true, facts: {} })
})
