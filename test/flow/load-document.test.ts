// Documents on their way into a flow: pages stay known down to the chunk, failures are reported on progress.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { chunkText } from '../../processors/chunk-text.ts'
import type { Broker } from '../../src/broker/broker.ts'
import { findDocuments } from '../../src/documents/read.ts'
import { GraphmillError } from '../../src/errors.ts'
import { loadDocument, type SourceOptions } from '../../src/flow/load-document.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import { openExtraction } from '../support/extraction.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'
import { encrypt, makePdf } from '../support/pdf.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

let folder: string
let flow: TestFlow
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-source-'))
  flow = await startFlow([chunkText], {
    flows: [{ ...scope, settings: { ...settings, chunkSize: 60, chunkOverlap: 0, provenance: 'subgraph' } }],
  })
})
afterAll(async () => {
  await flow.stop()
  await rm(folder, { recursive: true, force: true })
})

const load = async (
  name: string,
  bytes: Uint8Array | string,
  {
    broker = flow.broker,
    signal = new AbortController().signal,
    ...more
  }: Partial<SourceOptions> & { readonly signal?: AbortSignal } = {},
) => {
  await writeFile(join(folder, name), bytes)
  const [document] = await findDocuments(join(folder, name), new AbortController().signal)
  const options: SourceOptions = {
    broker,
    codec: flow.codec,
    circuits: flow.runtime.circuits,
    clock: { now: () => 1 },
    ids: { next: () => crypto.randomUUID() },
    space: 'gm',
    scope,
    collection: 'default',
    source: 'test',
    ...more,
  }
  return loadDocument(document!, options, signal)
}

const tallied = async (from = flow) => {
  const aggregate = createProgressAggregate()
  for (const entry of await from.all(from.topic('progress'))) aggregate.add(entry as Message<'Progress'>)
  return aggregate.documents()
}

test('chunks of a PDF know their page, and their provenance says it', async () => {
  const sentence = (page: number) => `Page ${page} says that a mill is a machine that grinds.`
  await load('mills.pdf', await makePdf([sentence(1), '', sentence(3)]))
  const found = (await flow.first(flow.topic('chunk'), 2)) as Message<'Chunk'>[]
  const chunks = found.sort((one, other) => one.payload.index - other.payload.index)
  expect(chunks.map(({ payload }) => [payload.text, payload.page])).toEqual([
    [sentence(1), 1],
    [sentence(3), 3],
  ])
  const messages = (await flow.first(flow.topic('triples'), 3)) as Message<'Triples'>[]
  const pages = messages
    .flatMap(({ payload }) => payload.triples)
    .filter(({ p }) => p.iri === 'https://trustgraph.ai/ns/pageNumber')
  expect(Object.fromEntries(pages.map(({ s, o }) => [s.iri, o.value]))).toEqual(
    Object.fromEntries(chunks.map(({ chunkId, payload }) => [chunkId, String(payload.page)])),
  )
})

test('a document that can not be read is failed, with its reason, and the next one is loaded', async () => {
  await expect(load('locked.pdf', encrypt(await makePdf(['secret'])))).rejects.toMatchObject({
    code: 'document_encrypted',
  })
  await expect(load('blank.html', '<html><p> </p></html>')).rejects.toMatchObject({ code: 'document_empty' })
  await load('after.txt', 'A mill is a machine.')
  const states = Object.fromEntries((await tallied()).map(({ title, error }) => [title, error?.type]))
  expect(states).toMatchObject({ 'locked.pdf': 'document_encrypted', 'blank.html': 'empty_document' })
  expect(states['after.txt']).toBeUndefined()
})

test('a document whose loading was stopped has a title and has failed, until it is loaded whole', async () => {
  const large = await startFlow([chunkText], {
    flows: [{ ...scope, settings: { ...settings, chunkSize: 100_000, chunkOverlap: 0 } }],
  })
  const text = 'A mill is a machine that grinds.\n'.repeat(40_000)
  const stop = new AbortController()
  let parts = 0
  // Stopped as the second of three parts is published.
  const broker: Broker = {
    ...large.broker,
    async publish(message) {
      if (message.topic === large.topic('document') && ++parts === 2)
        stop.abort(new GraphmillError('aborted', 'Stopped by SIGINT.'))
      await large.broker.publish(message)
    },
  }
  const loading = load('long.txt', text, { broker, signal: stop.signal })
  await expect(loading).rejects.toMatchObject({ code: 'aborted' })
  expect(await tallied(large)).toMatchObject([
    {
      title: 'long.txt',
      state: 'failed',
      error: { type: 'aborted', message: 'Loading it ended after 2 parts: Stopped by SIGINT.' },
    },
  ])
  await load('long.txt', text, { broker: large.broker })
  const [whole, ...others] = await tallied(large)
  expect(whole!.error).toBeUndefined()
  expect(others).toEqual([])
  await large.stop()
})

test('a document has its title while it is being loaded', async () => {
  const { documentId } = await load('title.txt', 'A title comes first.')
  const progress = (await flow.all(flow.topic('progress'))) as Message<'Progress'>[]
  const entries = progress.filter((entry) => entry.documentId === documentId && entry.payload.kind !== 'part')
  expect(entries.map(({ payload }) => [payload.kind, payload.title])).toEqual([
    ['loading', 'title.txt'],
    ['document', 'title.txt'],
  ])
})

test('a file that can not be read is the same document at each load, and another one is another', async () => {
  const locked = encrypt(await makePdf(['secret']))
  for (const name of ['twice.pdf', 'twice.pdf', 'once.pdf'])
    await expect(load(name, locked)).rejects.toMatchObject({ code: 'document_encrypted' })
  const titles = (await tallied()).map(({ title }) => title)
  expect(titles.filter((title) => /^(twice|once)/.test(title)).sort()).toEqual(['once.pdf', 'twice.pdf'])
})

test('a document that is loaded again adds no fact, but provenance of its own, unless there is none', async () => {
  const reply = '{"type":"definition","entity":"Mill","definition":"A machine."}'
  for (const provenance of ['subgraph', 'none'] as const) {
    const extraction = await openExtraction(scriptedLlm([reply]), ['extract-definitions'], provenance)
    await extraction.start()
    const sizes: { facts: number; provenance: number }[] = []
    for (let load = 0; load < 2; load++) {
      await extraction.load('A mill grinds grain.')
      await extraction.finished()
      const of = [...extraction.triples].filter((line) => line.includes('<urn:graph:source>')).length
      sizes.push({ facts: extraction.triples.size - of, provenance: of })
    }
    await extraction.stop()
    const [first, second] = sizes
    expect(first!.facts).toBeGreaterThan(0)
    expect(second!.facts).toBe(first!.facts)
    if (provenance === 'none') expect(second!.provenance).toBe(first!.provenance)
    else expect(second!.provenance).toBeGreaterThan(first!.provenance)
  }
})

test('a changed document is refused before anything is published when its store cannot withdraw, others are not', async () => {
  const requireWithdrawal = () => {
    throw new GraphmillError('store_cannot_withdraw', 'It stays.')
  }
  const known = { state: 'done', collection: 'default', version: 'another', versionTime: 5 }
  const before = (await flow.all(flow.topic('progress'))).length
  const changed = load('changed.txt', 'A mill.', { requireWithdrawal, newest: () => known })
  await expect(changed).rejects.toMatchObject({ code: 'store_cannot_withdraw' })
  expect(await flow.all(flow.topic('progress'))).toHaveLength(before)
  await load('new.txt', 'A mill.', { requireWithdrawal, newest: () => undefined })
  await load('back.txt', 'A mill.', { requireWithdrawal, newest: () => ({ ...known, state: 'removed' }) })
  const { version } = await load('same.txt', 'A mill.', { newest: () => undefined })
  const same = { requireWithdrawal, newest: () => ({ ...known, version }) }
  expect(await load('same.txt', 'A mill.', same)).toMatchObject({ unchanged: true })
})
