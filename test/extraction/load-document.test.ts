import { expect, test } from 'vitest'
import { createMemoryCluster, loadDocument, processors, removeDocument, run } from '../../src/index.ts'
import { noLlm, scope } from '../support/flow.ts'
import { startRecordingServer } from '../support/recording-server.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

test('a document is published for a flow; its version is not published twice, and a changed text is a new version', async () => {
  const broker = createMemoryCluster().connect()
  const llm = scriptedLlm(({ origin }) =>
    JSON.stringify({ entity: String(origin!.terms['text']).split(' ')[1], definition: 'a thing' }),
  )
  const written: string[] = []
  const stop = new AbortController()
  const runtime = await run(
    {
      broker,
      llm,
      processors,
      flows: [
        { ...scope, settings: { extractors: ['extract-definitions'], chunkSize: 2000, chunkOverlap: 0 } },
      ],
      store: {
        write: async (triples) => void written.push(...triples.flatMap(({ o }) => o.value ?? [])),
        close: async () => undefined,
      },
    },
    stop.signal,
  )
  let body = ''
  await using server = await startRecordingServer([{ by: (response) => response.end(body) }])
  const url = `${server.origin}/mills.txt`
  const load = (text: string) => {
    body = text
    return loadDocument(`${url}#top`, { broker })
  }
  const first = await load('The mill grinds grain.')
  expect(first).toMatchObject({ documentId: url, parts: 1, unchanged: false })
  await expect.poll(() => written, { timeout: 20_000 }).toContain('mill')
  await expect
    .poll(async () => (await load('The mill grinds grain.')).unchanged, { timeout: 20_000 })
    .toBe(true)
  const calls = llm.requests.length
  expect(await load('The miller grinds grain.')).toMatchObject({ documentId: url, unchanged: false })
  await expect.poll(() => written, { timeout: 20_000 }).toContain('miller')
  // Only the extractor that the flow names has asked.
  expect(new Set(llm.requests.map(({ origin }) => origin!.promptId))).toEqual(
    new Set(['extract-definitions']),
  )
  expect(llm.requests.length).toBe(calls + 1)
  await expect(loadDocument('test/extraction', { broker })).rejects.toMatchObject({
    code: 'document_unreadable',
  })
  const own = { id: 'page-7', title: 'Mills', text: 'The mill grinds grain.' }
  expect(await loadDocument(own, { broker })).toMatchObject({ documentId: 'page-7', unchanged: false })
  await expect(loadDocument({ text: ' ', title: 'x' }, { broker })).rejects.toMatchObject({
    code: 'document_empty',
  })
  await expect(loadDocument('docs', { broker })).rejects.toMatchObject({ code: 'usage' })
  const isRemoved = () =>
    removeDocument(url, { broker }).then(
      () => '',
      (error: { code: string }) => error.code,
    )
  await expect.poll(isRemoved, { timeout: 20_000 }).toBe('document_unknown')
  await runtime.stop(0)
  stop.abort()
  await broker.close()
}, 90_000)

test('each flow runs only the extractors that its settings name, and gets only their topics', async () => {
  const broker = createMemoryCluster().connect()
  const flow = (name: string, ...extractors: string[]) => ({
    ...{ workspace: 'default', flow: name },
    settings: { extractors, chunkSize: 2000, chunkOverlap: 0 },
  })
  const nowhere = { write: async () => undefined, close: async () => undefined }
  const runtime = await run(
    {
      ...{ broker, processors, store: nowhere, llm: noLlm },
      flows: [flow('one', 'extract-topics'), flow('two', 'extract-definitions', 'extract-relationships')],
    },
    new AbortController().signal,
  )
  const names = (await broker.listTopics('gm.response.prompt.')).map(({ name }) => name)
  expect(names).toEqual([
    'gm.response.prompt.extract-definitions.default.two',
    'gm.response.prompt.extract-relationships.default.two',
    'gm.response.prompt.extract-topics.default.one',
  ])
  const members = async (extractor: string, name: string) =>
    (await broker.lag(`gm.${extractor}.chunk.default.${name}`, `gm.flow.chunk.default.${name}`)).members
  await expect.poll(() => members('extract-topics', 'one')).toBe(1)
  expect(await members('extract-definitions', 'one')).toBe(0)
  expect(await members('extract-topics', 'two')).toBe(0)
  await runtime.stop(0)
  await broker.close()
})
