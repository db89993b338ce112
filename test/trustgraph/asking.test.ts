// Our extractors ask TrustGraph's own prompt service. The test plays that service: it repeats the id, and nothing else.
import { afterEach, expect, test } from 'vitest'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { extractRelationships } from '../../processors/extract-relationships.ts'
import { prompt } from '../../processors/prompt.ts'
import type { FlowRuntimeOptions } from '../../src/flow/run.ts'
import type { Progress } from '../../src/messages/generated.ts'
import { startFlow, type TestFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'
import { publishJson, readJson, wireOf } from '../support/trustgraph.ts'

const flows: TestFlow[] = []
afterEach(() => Promise.all(flows.splice(0).map((flow) => flow.stop())))

async function start(processors: FlowRuntimeOptions['processors'], more: Partial<FlowRuntimeOptions> = {}) {
  const flow = await startFlow(processors, { wire: wireOf(), ...more })
  flows.push(flow)
  await publishJson(flow.broker, 'tg.flow.chunk-load.default.default', chunk)
  return flow
}

const chunk = {
  metadata: { id: 'urn:chunk:1', root: 'urn:doc:1', collection: 'research' },
  ...{ chunk: 'A cat is a feline animal.', document_id: 'urn:chunk:1', attributes: {} },
}
const requests = 'tg.request.prompt.default.default'
const responses = 'tg.response.prompt.default.default'
const place = { documentId: 'urn:doc:1', chunkId: 'urn:chunk:1', collection: 'research' }
const cat = [{ entity: 'Cat', definition: 'A feline animal' }]

const reply = (fields: object) => ({
  ...{
    error: null,
    text: null,
    object: null,
    end_of_stream: true,
    in_token: 3,
    out_token: 4,
    model: 'theirs',
  },
  ...fields,
})

test('a request can be answered by a service that knows only its id', async () => {
  const { broker, first, topic } = await start([extractDefinitions])
  const [request] = await readJson(broker, requests)
  expect(request!.body).toMatchObject({
    ...{ id: 'extract-definitions', streaming: false, terms: { text: JSON.stringify(chunk.chunk) } },
  })
  const id = request!.headers['id']!
  await publishJson(broker, responses, reply({ object: JSON.stringify(cat) }), { id })
  const [facts] = await first(topic('definitions'), 1)
  expect(facts).toMatchObject({ ...place, payload: { model: 'theirs', facts: cat } })
  const [, entry] = await first(topic('progress'), 2)
  expect(entry).toMatchObject({
    ...place,
    payload: {
      ...{ kind: 'reply', unit: 'extract-definitions', last: true, incomplete: null },
      ...{ facts: { definitions: 1 }, usage: { promptTokens: 3, completionTokens: 4 } },
    },
  })
})

test('a signed request too, and a reply with a context that nobody has signed is refused', async () => {
  const { broker, first, topic } = await start([extractDefinitions], {
    contextKey: () => 'a key of sixteen characters',
  })
  const [request] = await readJson(broker, requests)
  const id = request!.headers['id']!
  const [head, receiver, encoded] = id.split('.')
  const said = Buffer.from(encoded!, 'base64url').toString().replace('urn:doc:1', 'urn:doc:2')
  const forged = [head, receiver, Buffer.from(said).toString('base64url')].join('.')
  const body = reply({ object: JSON.stringify(cat) })
  await publishJson(broker, responses, body, { id: forged })
  await publishJson(broker, responses, body, { id })
  expect(await first(topic('definitions'), 1)).toMatchObject([place])
  const dead = await readJson(broker, `${responses}.dead`)
  expect(dead[0]!.headers).toMatchObject({ id: forged, 'dead-code': 'context_unsigned' })
})

test('each extractor gets its own replies, and no other client’s', async () => {
  const { broker, first, all, topic } = await start([extractDefinitions, extractRelationships])
  const asked = await readJson(broker, requests, 2)
  const idOf = (prompt: string) => asked.find(({ body }) => body['id'] === prompt)!.headers['id']!
  const others = reply({ object: '[{"entity":"X","definition":"of another client"}]' })
  for (const id of ['0b5dd2f0-aaaa-4bbb-8ccc-0123456789ab', 'gm1.somebody.e30'])
    await publishJson(broker, responses, others, { id })
  await publishJson(broker, responses, reply({ object: JSON.stringify(cat) }), {
    id: idOf('extract-definitions'),
  })
  const related = [{ subject: 'Cat', predicate: 'is', object: 'animal', 'object-entity': true }]
  await publishJson(broker, responses, reply({ object: JSON.stringify(related) }), {
    id: idOf('extract-relationships'),
  })
  expect(await first(topic('relationships'), 1)).toMatchObject([{ payload: { facts: [{ subject: 'Cat' }] } }])
  // Each announces the chunk, and then says what the reply was.
  await first(topic('progress'), 4)
  expect(await all(topic('definitions'))).toMatchObject([{ payload: { facts: cat } }])
})

test('an error of their service ends the unit with it', async () => {
  const { broker, first, topic } = await start([extractDefinitions])
  const [request] = await readJson(broker, requests)
  const error = { type: 'llm-error', message: 'JSON parse fail' }
  await publishJson(broker, responses, reply({ error, model: null }), { id: request!.headers['id']! })
  expect(await first(topic('progress'), 2)).toMatchObject([
    { ...place, payload: { kind: 'chunk', units: ['extract-definitions'] } },
    { ...place, payload: { kind: 'reply', unit: 'extract-definitions', last: true, error } },
  ])
})

test('our own prompt service answers the same request in parts, with what only ours knows', async () => {
  const lines = Array.from({ length: 3 }, (_, n) => `{"entity":"Cat","definition":"animal ${n}"}\n`)
  const llm = scriptedLlm([{ pieces: [...lines, '{"entity":1'] }], { slow: true })
  const { broker, first, topic } = await start([extractDefinitions, prompt], { llm })
  const entries: Progress[] = []
  for (let count = 1; !entries.at(-1)?.last; count++)
    entries.splice(
      0,
      count,
      ...(await first(topic('progress'), count)).map(({ payload }) => payload as Progress),
    )
  expect(entries.at(-1)).toMatchObject({ kind: 'reply', unit: 'extract-definitions', model: 'scripted-1' })
  const facts = await first(topic('definitions'), 1)
  expect(facts).toMatchObject([
    { ...place, payload: { facts: [{ entity: 'Cat', grounding: { status: expect.any(String) } }] } },
  ])
  const [request] = await readJson(broker, requests)
  const replies = await readJson(broker, responses, entries.length - 1)
  expect(new Set(replies.map(({ headers }) => headers['id']))).toEqual(new Set([request!.headers['id']]))
  expect(replies.at(-1)!.body).toMatchObject({ end_of_stream: true, graphmill: { accepted: 3 } })
})
