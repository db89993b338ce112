import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Parser } from 'n3'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import {
  createOffline,
  createOpenAi,
  createRateLimiter,
  defineExtractor,
  defineSink,
  type Extraction,
  type ExtractionEvent,
  ExtractionIncomplete,
  type ExtractOptions,
  extract,
  loadRowSchemas,
  openFileStore,
  type Sources,
} from '../../src/index.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-extract-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const file = (name: string, content: string) => {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

const mill = { title: 'mill', text: 'The mill grinds grain.' }
const definition = (entity: string) => JSON.stringify({ entity, definition: `a ${entity}` })
/** One definition for each chunk. */
const defining = () => scriptedLlm(() => definition('mill'))
const definitions = { extractors: ['definitions'] } as const

async function all(extraction: AsyncIterable<ExtractionEvent>): Promise<ExtractionEvent[]> {
  const events: ExtractionEvent[] = []
  for await (const event of extraction) events.push(event)
  return events
}

type Of<T extends ExtractionEvent['type']> = Extract<ExtractionEvent, { type: T }>
const of = <T extends ExtractionEvent['type']>(events: readonly ExtractionEvent[], type: T) =>
  events.filter((event): event is Of<T> => event.type === type)

describe('extract', () => {
  test('yields the facts of a text with their origin, their triples, the document and at last the summary', async () => {
    const llm = scriptedLlm([`${definition('mill')}\n${definition('grain')}`])
    const extraction = extract(mill, {
      llm,
      ...definitions,
      prices: { scripted: { prompt: 1, completion: 2 } },
    })
    const events = await all(extraction)
    const facts = of(events, 'fact')
    expect(facts.map(({ kind, fact, extractor, model }) => [kind, fact, extractor, model])).toEqual(
      ['mill', 'grain'].map((entity) => [
        'definitions',
        expect.objectContaining({ entity, definition: `a ${entity}` }),
        'extract-definitions',
        // As the server names it: the facts and the end of the reply came at once.
        'scripted-1',
      ]),
    )
    const triples = of(events, 'triples').flatMap((event) => event.triples)
    expect(triples.map(({ o }) => o.value)).toEqual(['mill', 'a mill', 'grain', 'a grain'])
    const [{ document }] = of(events, 'document') as [Of<'document'>]
    expect(document).toMatchObject({
      title: 'mill',
      names: ['mill'],
      state: 'done',
      facts: { definitions: 2 },
    })
    expect(facts[0]!.documentId).toBe(document.documentId)
    expect(facts[0]!.chunkId).toContain(document.documentId)
    expect(of(events, 'progress').at(-1)!.progress.documents).toEqual({ loaded: 1, ended: 1, failed: 0 })
    const { summary } = events.at(-1) as Of<'end'>
    expect(summary).toMatchObject({
      outcome: 'done',
      documents: [document],
      failed: [],
      units: { expected: 1, done: 1, partial: 0, dead: 0 },
      facts: { definitions: 2 },
      calls: { first: 1 },
      limited: false,
    })
    const { promptTokens, completionTokens } = summary.tokens
    expect(summary.cost).toBeCloseTo((promptTokens + 2 * completionTokens) / 1e6)
    expect(JSON.parse(JSON.stringify(summary))).toEqual(summary)
    expect(extraction.summary()).toEqual(summary)
  })

  test('reads names, URLs, texts, pieces of texts, bytes and streams of all of them, in turn', async () => {
    const path = file('a.txt', 'A mill of a file.')
    async function* sources() {
      yield path
      yield pathToFileURL(file('b.txt', 'A mill of a URL.'))
      yield { title: 'text', text: 'A mill of a text.', id: 'urn:mine' }
      yield { title: 'pieces', text: ['A mill of ', 'pieces.'] }
      yield { title: 'bytes', bytes: Buffer.from('<!doctype html><p>A mill of <b>bytes</b>.') }
      yield {
        title: 'stream',
        bytes: new Blob(['A mill of a stream.']).stream() as AsyncIterable<Uint8Array>,
      }
    }
    const llm = defining()
    const summary = await extract(sources(), { llm, ...definitions }).finish()
    expect(summary.outcome).toBe('done')
    expect(summary.documents.map(({ title }) => title)).toEqual([
      'a.txt',
      'b.txt',
      'text',
      'pieces',
      'bytes',
      'stream',
    ])
    expect(summary.documents[2]!.documentId).toBe('urn:mine')
    const asked = llm.requests.map(({ origin }) => origin!.terms['text'])
    expect(asked).toEqual(
      expect.arrayContaining(['A mill of pieces.', 'A mill of bytes.', 'A mill of a stream.']),
    )
  }, 30_000)

  test('rejected items and cut-off replies are events, and the outcome is partial', async () => {
    const llm = scriptedLlm([
      { text: `${definition('mill')}\n{"entity": 5}\n{"entity": "gr`, finish: 'length' },
    ])
    const events = await all(extract(mill, { llm, ...definitions, limits: { maxContinuations: 0 } }))
    expect(of(events, 'rejected').length).toBeGreaterThan(0)
    expect(of(events, 'rejected')[0]).toMatchObject({ promptId: 'extract-definitions', reason: 'schema' })
    const { summary } = events.at(-1) as Of<'end'>
    expect(summary).toMatchObject({ outcome: 'partial', incomplete: { truncated: 1 } })
  })

  test('what could not be read or was given up is an event, stands in the summary, and is thrown at the end', async () => {
    mkdirSync(join(folder, 'mixed'))
    file('mixed/empty.txt', ' ')
    file('mixed/mill.txt', 'A good mill.')
    file('mixed/bad.txt', 'A bad mill.')
    file('mixed/mill.bin', 'x')
    const refused = new GraphmillError('llm_request_invalid', 'No bad mills.')
    const llm = scriptedLlm(({ origin }) =>
      String(origin!.terms['text']).includes('bad') ? { error: refused } : definition('mill'),
    )
    const sources = [join(folder, 'mixed'), join(folder, 'none.txt')]
    const events: ExtractionEvent[] = []
    const thrown = await (async () => {
      for await (const event of extract(sources, { llm, ...definitions })) events.push(event)
    })().catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(ExtractionIncomplete)
    const error = thrown as ExtractionIncomplete
    expect(error.code).toBe('extraction_incomplete')
    expect(error.summary).toEqual((events.at(-1) as Of<'end'>).summary)
    expect(error.summary).toMatchObject({ outcome: 'failed', units: { expected: 2, done: 1, dead: 1 } })
    expect(error.summary.failed.map(({ code }) => code)).toEqual(['document_empty', 'document_unreadable'])
    expect(
      of(events, 'failed')
        .map(({ error }) => error.code)
        .sort(),
    ).toEqual(['document_empty', 'document_unreadable', 'llm_request_invalid'])
    expect(of(events, 'failed').find(({ unit }) => unit)).toMatchObject({ unit: 'extract-definitions' })
    expect(of(events, 'skipped')[0]!.files).toMatchObject([{ path: join(folder, 'mixed/mill.bin') }])
    expect(of(events, 'fact')).toHaveLength(1)
    // Only reported on request.
    const summary = await extract(sources, { llm, ...definitions, failures: 'report' }).finish()
    expect(summary.outcome).toBe('failed')
  })

  test('a key that the server refuses is thrown at once', async () => {
    await using server = await startLlmServer({ refuse: { kind: 'unauthorized' } })
    const llm = createOpenAi({ baseUrl: server.url, apiKey: 'wrong', model: 'test-model' })
    await expect(extract(mill, { llm }).finish()).rejects.toMatchObject({ code: 'llm_authentication' })
  })

  test.each<[string, Sources, Partial<ExtractOptions>, string]>([
    ['an unknown extractor', mill, { extractors: ['topcs'] }, 'usage'],
    ['a table without its schema', mill, { extractors: ['rows'] }, 'configuration_invalid'],
    ['an overlap as long as a chunk', mill, { chunkSize: 10, chunkOverlap: 10 }, 'configuration_invalid'],
    ['a limit of the cost without a price', mill, { maxCost: 1 }, 'configuration_invalid'],
    ['neither text nor bytes', [{ title: 'mill' }], {}, 'usage'],
    ['an id that is none', [{ ...mill, id: ' ' }], {}, 'usage'],
  ])('%s is refused', async (_, sources, options, code) => {
    const llm = defining()
    await expect(extract(sources, { llm, ...options }).finish()).rejects.toMatchObject({ code })
    expect(llm.requests).toEqual([])
  })

  test('an error of the sources ends it, and is thrown as it is', async () => {
    async function* sources() {
      yield mill
      throw new RangeError('no more')
    }
    await expect(extract(sources(), { llm: defining() }).finish()).rejects.toThrow('no more')
  })

  test('can be read only once', async () => {
    const extraction = extract(mill, { llm: defining(), ...definitions })
    await extraction.finish()
    await expect(extraction.finish()).rejects.toMatchObject({ code: 'usage' })
  })
})

describe('an extraction that does not run to its end', () => {
  /** A model that answers the first call, and keeps the others waiting until they are cancelled. */
  function stuck() {
    const cancelled: unknown[] = []
    const llm = scriptedLlm([definition('mill')])
    return {
      cancelled,
      llm: {
        ...llm,
        async *stream(...[request, signal]: Parameters<typeof llm.stream>) {
          if (llm.requests.length === 0) return yield* llm.stream(request, signal)
          await new Promise((_, reject) =>
            signal.addEventListener('abort', () => {
              cancelled.push(signal.reason)
              reject(signal.reason as Error)
            }),
          )
        },
      },
    }
  }
  const chunked = { ...definitions, chunkSize: 20, chunkOverlap: 0 }
  const text = 'The mill grinds one.\n\nThe mill grinds two.\n\nThe mill grinds more.'

  test('throws the reason of its signal, cancels its calls, and says what it has done', async () => {
    const { llm, cancelled } = stuck()
    const stop = new AbortController()
    const extraction = extract({ text }, { llm, ...chunked, signal: stop.signal })
    const reason = new Error('enough')
    const facts: ExtractionEvent[] = []
    const reading = (async () => {
      for await (const event of extraction)
        if (event.type === 'fact') {
          facts.push(event)
          stop.abort(reason)
        }
    })()
    await expect(reading).rejects.toBe(reason)
    expect(facts).toHaveLength(1)
    expect(cancelled.length).toBeGreaterThan(0)
    expect(extraction.summary()).toMatchObject({ outcome: 'stopped', facts: { definitions: 1 } })
  })

  test('ends when its reader leaves', async () => {
    const { llm, cancelled } = stuck()
    const extraction = extract({ text }, { llm, ...chunked })
    for await (const { type } of extraction) if (type === 'fact') break
    expect(cancelled.length).toBeGreaterThan(0)
    expect(extraction.summary().outcome).toBe('stopped')
  })

  test('begins nothing when it is aborted before', async () => {
    const llm = defining()
    const signal = AbortSignal.abort(new Error('before'))
    await expect(extract(mill, { llm, signal }).finish()).rejects.toThrow('before')
    expect(llm.requests).toEqual([])
  })
})

test('a reader that stops reading stops the calls of the model, and nothing is lost when it goes on', async () => {
  const chunks = 600
  const llm = defining()
  const text = Array.from({ length: chunks }, (_, n) => `The mill number ${n + 1000} grinds grain.`).join(
    '\n\n',
  )
  const options = {
    llm,
    ...definitions,
    chunkSize: 40,
    chunkOverlap: 0,
    rateLimiter: createRateLimiter({ concurrency: 4 }),
  }
  const iterator = extract({ text }, options)[Symbol.asyncIterator]()
  let facts = 0
  for (let next = await iterator.next(); !next.done && facts === 0; next = await iterator.next())
    if (next.value.type === 'fact') facts++
  let asked: number
  do {
    asked = llm.requests.length
    await pause(400)
  } while (llm.requests.length > asked)
  expect(asked).toBeLessThan(chunks * 0.8)
  // The last event that was taken above is not counted.
  let last: ExtractionEvent | undefined
  for (let next = await iterator.next(); !next.done; next = await iterator.next()) last = next.value
  expect(llm.requests).toHaveLength(chunks)
  expect((last as Of<'end'>).summary).toMatchObject({ outcome: 'done', facts: { definitions: chunks } })
}, 60_000)

test('a store gets the triples that the events have, and stays open', async () => {
  const path = join(folder, 'graph.nq')
  const store = await openFileStore(path, { format: 'nquads' })
  const events = await all(
    extract({ text: 'Chalk is a soft white limestone.' }, { llm: createOffline(), store }),
  )
  await store.close()
  const quads = new Set(
    new Parser({ format: 'N-Quads' }).parse(readFileSync(path, 'utf8')).map(({ object }) => object.value),
  )
  const objects = of(events, 'triples').flatMap(({ triples }) => triples.map(({ o }) => o.iri ?? o.value))
  expect(quads.size).toBeGreaterThan(2)
  expect(new Set(objects)).toEqual(quads)
})

test('rows are facts with the types of their schema', async () => {
  const schema = file(
    'mills.yaml',
    'name: mills\ndescription: Mills\nfields:\n  - {name: name, type: string, primary_key: true}\n  - {name: year, type: integer}\n',
  )
  const llm = scriptedLlm(['{"name": "Mill", "year": "1180"}'])
  const rowSchemas = await loadRowSchemas([schema])
  const events = await all(extract(mill, { llm, rowSchemas, extractors: ['rows'] }))
  expect(of(events, 'fact').map(({ kind, fact }) => [kind, fact])).toEqual([
    ['rows', expect.objectContaining({ table: 'mills', values: { name: 'Mill', year: 1180 } })],
  ])
})

test('extractors and processors of a program run beside the built-in ones, and an extractor that is not named is refused', async () => {
  const mine = defineExtractor({
    name: 'find-mills',
    prompt: 'extract-topics',
    implied: 'topic',
    outputs: ['topics'],
    terms: ({ text }) => ({ text }),
    facts: { topic: ({ topic }) => ({ to: 'topics', fact: { topic: String(topic), definition: 'mine' } }) },
  })
  const contexts: string[] = []
  const embed = defineSink({
    name: 'embed',
    input: 'entity-contexts',
    async write(batch) {
      for (const { payload } of batch) contexts.push(...payload.entities.map(({ context }) => context))
    },
  })
  const llm = scriptedLlm(({ origin }) =>
    origin!.promptId === 'extract-topics'
      ? JSON.stringify({ topic: 'mill', definition: 'm' })
      : definition('mill'),
  )
  const events = await all(extract(mill, { llm, extractors: ['definitions', mine], processors: [embed] }))
  expect(
    of(events, 'fact')
      .map(({ extractor }) => extractor)
      .sort(),
  ).toEqual(['extract-definitions', 'find-mills'])
  expect(contexts).toEqual(['mill', 'a mill'])
  await expect(extract(mill, { llm, processors: [mine] }).finish()).rejects.toMatchObject({ code: 'usage' })
})

test('a limit leaves chunks out, and the summary says so', async () => {
  const llm = defining()
  const summary = await extract([mill, { title: 'other', text: 'Another mill.' }], {
    llm,
    ...definitions,
    limit: 1,
  }).finish()
  expect(summary).toMatchObject({ limited: true, chunks: 1, documents: [{ title: 'mill' }] })
  expect(llm.requests).toHaveLength(1)
})

test('what is waited for is part of the progress', async () => {
  await using server = await startLlmServer({ refuse: { kind: 'rate-limit' }, retryAfter: 3600 })
  const llm = createOpenAi({ baseUrl: server.url, model: 'test-model' })
  const extraction: Extraction = extract(mill, { llm, ...definitions, events: ['progress'] })
  for await (const event of extraction) {
    const [waiting] = event.type === 'progress' ? event.progress.waiting : []
    if (!waiting) continue
    expect(waiting).toMatchObject({ error: { code: 'llm_rate_limited' } })
    expect(waiting.resource).toContain('test-model')
    expect(waiting.retryInMs).toBeGreaterThan(3_000_000)
    break
  }
  expect(extraction.summary().outcome).toBe('stopped')
})
