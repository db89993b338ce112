// Documents that change: whatever happens, and in whatever order, what is not withdrawn is exactly what the surviving versions state.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { chunkText } from '../../processors/chunk-text.ts'
import { extractTopics } from '../../processors/extract-topics.ts'
import { ledger } from '../../processors/ledger.ts'
import { prompt } from '../../processors/prompt.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { deadTopic } from '../../src/broker/topics.ts'
import { replayWaiting } from '../../src/cli/replay.ts'
import { cutParts } from '../../src/documents/parts.ts'
import { splitText } from '../../src/documents/split.ts'
import { GraphmillError } from '../../src/errors.ts'
import { loadDocument, removeDocument } from '../../src/extraction/load-document.ts'
import { inputGroup, type OutputPort } from '../../src/flow/ports.ts'
import { type AnyProcessor, defineProcessor, type Outputs } from '../../src/flow/processor.ts'
import { emissionKey, splitKeys } from '../../src/messages/emission.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { Status } from '../../src/messages/generated.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

const cut = { chunkSize: 40, chunkOverlap: 0 }
/** How often each text was asked about. */
const asked = new Map<string, number>()

/** States the text of each chunk, and reports it. */
const readerNamed = (name: string) =>
  defineProcessor({
    name,
    inputs: ['chunk'],
    outputs: ['topics', 'progress'],
    async *handle({ id, payload: { text } }) {
      asked.set(text, (asked.get(text) ?? 0) + 1)
      const run = { id: `run of ${id}`, startedAt: 1 }
      yield { to: 'topics', payload: { run, facts: [{ topic: text, definition: '' }] } }
      const payload = { kind: 'reply', unit: name, run, seq: 0, last: true, facts: { topics: 1 } }
      yield { to: 'progress', payload }
    },
  })
const reader = readerNamed('reader')

/** How many of the next messages die: parts when the first chunk is to be sent, chunks when they have been read. */
const faults = { document: 0, chunk: 0 }

/** The processor, and messages that die where `at` says. */
function mortal(processor: AnyProcessor, port: 'document' | 'chunk', at: string): AnyProcessor {
  return {
    ...processor,
    async *handle(message, context) {
      const outputs = (processor.handle as AnyHandler)(message, context)
      let stored: Promise<void> | undefined
      try {
        for (;;) {
          const step = await (outputs.next as (stored: unknown) => ReturnType<typeof outputs.next>)(stored)
          if (step.done) return
          if (step.value.to === at && faults[port] > 0) {
            faults[port]--
            throw new GraphmillError('message_invalid', 'This one dies.')
          }
          stored = yield step.value
        }
      } finally {
        await outputs.return(undefined)
      }
    },
  }
}
type AnyHandler = (...given: Parameters<AnyProcessor['handle']>) => Outputs<OutputPort>

const processors: readonly AnyProcessor[] = [
  mortal(chunkText, 'document', 'chunk'),
  mortal(reader, 'chunk', 'progress'),
  ledger,
]
/** A second passes whenever it is asked for: no status waits until it is due. */
let now = Date.now()
const start = (cluster = createMemoryCluster(), size = cut) =>
  startFlow(processors, {
    cluster,
    flows: [{ ...scope, settings: { ...settings, ...size, extractors: ['reader'] } }],
    clock: { now: () => (now += 1000) },
  })

/** As `load` publishes it, in document parts of two paragraphs. */
async function load(
  flow: TestFlow,
  documentId: string,
  paragraphs: readonly string[],
  versionTime: number,
  { again = false, twice = false, collection = 'default' } = {},
) {
  const version = `v${versionTime}`
  const header = { documentId, collection, chunkId: '', version, versionTime }
  const parts = paragraphs.length === 0 ? [] : [...Array(Math.ceil(paragraphs.length / 2)).keys()]
  await flow.send('progress', { kind: 'loading', title: documentId }, header)
  for (const part of parts) {
    const text = paragraphs.slice(2 * part, 2 * part + 2).join('\n\n')
    const payload = { title: documentId, uri: '', mediaType: 'text/plain', part, offset: 0, text }
    const id = `${documentId} ${version} ${part}`
    for (let time = 0; time < (twice ? 2 : 1); time++)
      await flow.send('document', { ...payload, again, last: part === parts.length - 1 }, { ...header, id })
  }
  await flow.send('progress', { kind: 'document', parts: parts.length, title: documentId }, header)
}

const remove = (flow: TestFlow, documentId: string, versionTime: number) =>
  flow.send(
    'document',
    { title: '', uri: '', mediaType: '', text: '', removed: 'removed' },
    { documentId, chunkId: '', versionTime },
  )

async function settled(flow: TestFlow, readers: readonly AnyProcessor[] = [reader]): Promise<void> {
  const groups = [
    ['document', chunkText],
    ...readers.map((each) => ['chunk', each] as const),
    ['progress', ledger],
  ] as const
  for (let quiet = 0; quiet < 2; ) {
    let total = 0
    for (const [port, { name }] of groups)
      total += (await flow.broker.lag(inputGroup(port, { space: 'gm', ...scope }, name), flow.topic(port)))
        .total
    quiet = total === 0 ? quiet + 1 : 0
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** What the documents state, by everything that was published and withdrawn. */
async function stated(flow: TestFlow): Promise<Map<string, Set<string>>> {
  const newest = new Map<string, Message<'Retractions'>>()
  for (const message of (await flow.all(flow.topic('retractions'))) as Message<'Retractions'>[]) {
    const before = newest.get(message.documentId)
    if (!before || message.versionTime >= before.versionTime) newest.set(message.documentId, message)
  }
  const found = new Map<string, Set<string>>()
  for (const message of (await flow.all(flow.topic('topics'))) as Message<'Topics'>[]) {
    const { documentId, versionTime, payload } = message
    const retraction = newest.get(documentId)
    const isWithdrawn =
      retraction !== undefined &&
      versionTime <= retraction.versionTime &&
      !splitKeys(retraction.payload.kept).includes(emissionKey(message))
    if (!isWithdrawn) found.set(documentId, (found.get(documentId) ?? new Set()).add(payload.facts[0]!.topic))
  }
  return found
}

async function statedBy(paragraphs: readonly string[]): Promise<Set<string>> {
  const texts = new Set<string>()
  for (let at = 0; at < paragraphs.length; at += 2)
    for (const { text } of await splitText(paragraphs.slice(at, at + 2).join('\n\n'), cut)) texts.add(text)
  return texts
}

const paragraph = fc.constantFrom(
  'Ada wrote notes.',
  'Chalk is white.',
  'Mills grind wheat.',
  'Rye is a grain, and so is wheat, but not all.',
  'The end.',
)
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      to: fc.constant('load' as const),
      document: fc.nat(1),
      paragraphs: fc.array(paragraph, { minLength: 1, maxLength: 9 }),
      twice: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ to: fc.constant('remove' as const), document: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.constant({ to: 'join' as const }) },
  { weight: 1, arbitrary: fc.constant({ to: 'kill' as const }) },
  { weight: 2, arbitrary: fc.constant({ to: 'wait' as const }) },
)
const mishap = fc.oneof(
  fc.record({
    to: fc.constant('die' as const),
    port: fc.constantFrom('document' as const, 'chunk' as const),
  }),
  fc.constant({ to: 'replay' as const }),
)

type Step =
  | (typeof step extends fc.Arbitrary<infer T> ? T : never)
  | (typeof mishap extends fc.Arbitrary<infer T> ? T : never)

/** What happens, and the last versions that were loaded. There are one or two replicas of every processor. */
async function happen(history: readonly Step[]) {
  const cluster = createMemoryCluster()
  const replicas = [await start(cluster)]
  const surviving = new Map<string, readonly string[]>()
  for (const [at, next] of history.entries()) {
    const flow = replicas.at(-1)!
    if (next.to === 'join' && replicas.length < 2) replicas.push(await start(cluster))
    else if (next.to === 'kill') {
      replicas.push(await start(cluster))
      await replicas.shift()!.stop()
    } else if (next.to === 'wait') await settled(flow)
    else if (next.to === 'die') faults[next.port]++
    else if (next.to === 'replay') await replay(flow)
    else if (next.to === 'load' || next.to === 'remove') {
      const documentId = `urn:d${next.document}`
      if (next.to === 'load') await load(flow, documentId, next.paragraphs, at + 1, next)
      else await remove(flow, documentId, at + 1)
      surviving.set(documentId, next.to === 'load' ? next.paragraphs : [])
    }
  }
  await settled(replicas[0]!)
  return { replicas, surviving, flow: replicas[0]! }
}

/** Brings all dead messages back. */
async function replay({ broker, codec, topic }: TestFlow): Promise<void> {
  const onRefused = (_: unknown, error: GraphmillError) => {
    throw error
  }
  const context = { broker, codec, onRefused, signal: AbortSignal.timeout(20_000) }
  for (const port of ['document', 'chunk'] as const) {
    const name = deadTopic(topic(port))
    if (await broker.hasTopic(name)) await replayWaiting(context, name, 'replay')
  }
}

async function statuses(flow: TestFlow): Promise<Map<string, Status>> {
  const messages = (await flow.all(flow.topic('status'))) as Message<'Status'>[]
  return new Map(messages.map(({ documentId, payload }) => [documentId, payload]))
}

async function expectSurvivors(flow: TestFlow, surviving: ReadonlyMap<string, readonly string[]>) {
  const found = await stated(flow)
  for (const [documentId, paragraphs] of surviving)
    expect(found.get(documentId) ?? new Set()).toEqual(await statedBy(paragraphs))
}

test(
  'whatever is loaded and removed, and killed meanwhile, the surviving versions state all that is not withdrawn',
  { timeout: 120_000 },
  () =>
    fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 9 }), async (history) => {
        const { replicas, flow, surviving } = await happen(history)
        await expectSurvivors(flow, surviving)
        expect((await flow.broker.listTopics('gm.')).filter(({ name }) => name.endsWith('.dead'))).toEqual([])
        for (const each of replicas) await each.stop()
      }),
      { numRuns: 12 },
    ),
)

test(
  'whatever dies meanwhile and is replayed, every document ends, and is right when it is loaded again',
  { timeout: 120_000 },
  () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(step, mishap), { minLength: 3, maxLength: 12 }), async (history) => {
        Object.assign(faults, { document: 0, chunk: 0 })
        const { replicas, flow, surviving } = await happen(history)
        Object.assign(faults, { document: 0, chunk: 0 })
        const ended = await statuses(flow)
        for (const documentId of surviving.keys())
          expect(['done', 'partial', 'failed', 'removed']).toContain(ended.get(documentId)?.state)
        for (const [documentId, paragraphs] of surviving)
          if (paragraphs.length > 0 && ended.get(documentId)!.state !== 'done')
            await load(flow, documentId, paragraphs, 1000, { again: true })
        await settled(flow)
        await expectSurvivors(flow, surviving)
        for (const each of replicas) await each.stop()
      }),
      { numRuns: 12 },
    ),
)

test('a part that dies while its chunks are sent holds up no later version', async () => {
  const flow = await start()
  const paragraphs = ['One is a number.', 'Two is a number.', 'Three is a number.', 'Four is a number.']
  faults.document = 1
  await load(flow, 'urn:dead', paragraphs, 1)
  await load(flow, 'urn:dead', [...paragraphs.slice(0, 3), 'Five is a number.'], 2)
  await settled(flow)
  expect((await statuses(flow)).get('urn:dead')).toMatchObject({ state: 'done', currentVersion: 'v2' })
  await expectSurvivors(flow, new Map([['urn:dead', [...paragraphs.slice(0, 3), 'Five is a number.']]]))
  // Brought back, it is late: its document is not changed.
  await replay(flow)
  await settled(flow)
  const { state, versions } = (await statuses(flow)).get('urn:dead')!
  expect([state, ...versions.map((each) => `${each.version} ${each.state}`)]).toEqual([
    'done',
    'v2 current',
    'v1 superseded',
  ])
  await flow.stop()
})

test('a replica that writes late overwrites nothing for good', async () => {
  const cluster = createMemoryCluster()
  let flow = await start(cluster)
  const [one, two, three] = ['The first text.', 'The second text.', 'The third text.']
  for (const [at, text] of [one!, two!, three!].entries()) {
    await load(flow, 'urn:doc', [text, 'It stays.'], at + 1)
    await settled(flow)
    if (at < 1) continue
    // As it was after the version before, stored behind what came since.
    for (const port of ['contents', 'retractions'] as const)
      for (const message of (await flow.all(flow.topic(port))) as Message<'Contents'>[])
        if (message.documentId === 'urn:doc') stale.push([port, message])
  }
  for (const [port, { payload, ...header }] of stale.splice(0))
    if (header.versionTime === 2) await flow.send(port, payload, { ...header, id: `late ${port}` })
  // Any document that is updated brings them back.
  for (const [at, text] of [one!, two!].entries()) await load(flow, 'urn:other', [text], at + 1)
  await settled(flow)
  for (const port of ['contents', 'retractions'] as const) {
    const kept = (await flow.all(flow.topic(port))).filter(({ documentId }) => documentId === 'urn:doc')
    expect(kept.map(({ versionTime }) => versionTime)).toEqual([3])
  }
  await flow.stop()
  flow = await start(cluster)
  await load(flow, 'urn:doc', [two!, 'It stays.'], 4)
  await settled(flow)
  await expectSurvivors(flow, new Map([['urn:doc', [two!, 'It stays.']]]))
  await flow.stop()
})
const stale: ['contents' | 'retractions', Message<'Contents'>][] = []

test('after an extractor was added, the next version is extracted completely, and becomes the current one', async () => {
  const cluster = createMemoryCluster()
  const readers = ['reader', 'extract-topics'].map(readerNamed)
  const open = (chosen: readonly AnyProcessor[]) => {
    const own = { ...settings, ...cut, extractors: chosen.map(({ name }) => name) }
    const clock = { now: () => (now += 1000) }
    return startFlow([chunkText, ...chosen, ledger], { cluster, flows: [{ ...scope, settings: own }], clock })
  }
  let flow = await open(readers.slice(0, 1))
  await load(flow, 'urn:doc', ['The added one.', 'It stays as it is, all of it.', 'And more.'], 1)
  await settled(flow)
  await flow.stop()
  flow = await open(readers)
  // The new one reads what is on the topic of chunks: nobody waits for that.
  await settled(flow, readers)
  const second = ['The added two.', 'It stays as it is, all of it.', 'And more.']
  await load(flow, 'urn:doc', second, 2)
  await settled(flow, readers)
  expect((await statuses(flow)).get('urn:doc')).toMatchObject({ state: 'done', currentVersion: 'v2' })
  await expectSurvivors(flow, new Map([['urn:doc', second]]))
  // From then on only what is new is asked about, also with fewer extractors.
  const before = asked.get('And more.')
  for (const [at, chosen] of [readers, readers.slice(1)].entries()) {
    await flow.stop()
    flow = await open(chosen)
    await load(flow, 'urn:doc', [`The added ${at}.`, ...second.slice(1)], 3 + at)
    await settled(flow, chosen)
    expect((await statuses(flow)).get('urn:doc')).toMatchObject({ state: 'done', versionTime: 3 + at })
  }
  expect(asked.get('And more.')).toBe(before)
  await flow.stop()
})

test('a document that moves to another collection is extracted again, also when both versions come at once', async () => {
  const flow = await start()
  const paragraphs = ['Moving is a change.', 'It stays as it is, all of it.']
  await load(flow, 'urn:moved', paragraphs, 1, { collection: 'old' })
  await load(flow, 'urn:moved', paragraphs, 2, { collection: 'new' })
  await settled(flow)
  const texts = await statedBy(paragraphs)
  const topics = (await flow.all(flow.topic('topics'))) as Message<'Topics'>[]
  const moved = topics.filter(({ collection }) => collection === 'new')
  expect(new Set(moved.map(({ payload }) => payload.facts[0]!.topic))).toEqual(texts)
  const kept = ((await flow.all(flow.topic('retractions'))).at(-1) as Message<'Retractions'>).payload.kept
  const keys = new Set(splitKeys(kept))
  expect(topics.filter((each) => keys.has(emissionKey(each)))).toEqual(moved)
  expect((await statuses(flow)).get('urn:moved')).toMatchObject({ state: 'done', collection: 'new' })
  await flow.stop()
})

test('a text that was the newest one is loaded again while another one, or a removal, is on its way', async () => {
  const cluster = createMemoryCluster()
  const broker = cluster.connect()
  const page = (text: string) => ({ id: 'page-7', title: 'Ways', text })
  let flow = await start(cluster)
  const first = await loadDocument(page('There is one way.'), { broker })
  await settled(flow)
  expect(await loadDocument(page('There is one way.'), { broker })).toMatchObject({ unchanged: true })
  for (const change of [
    () => loadDocument(page('There is another way.'), { broker }),
    () => removeDocument('page-7', { broker }),
  ]) {
    await flow.stop()
    await change()
    const { unchanged } = await loadDocument(page('There is one way.'), { broker })
    expect(unchanged).toBe(false)
    flow = await start(cluster)
    await settled(flow)
    const status = (await statuses(flow)).get('page-7')
    expect(status).toMatchObject({ state: 'done', currentVersion: first.version })
    await expectSurvivors(flow, new Map([['page-7', ['There is one way.']]]))
  }
  await flow.stop()
  await broker.close()
})

test('a removal without a time that is delivered again removes nothing that was loaded after it', async () => {
  const flow = await start()
  await load(flow, 'urn:doc', ['The first text.'], 1)
  await settled(flow)
  const removal = { documentId: 'urn:doc', chunkId: '', id: 'removal', time: 1 }
  const payload = { title: '', uri: '', mediaType: '', text: '', removed: 'removed' }
  await flow.send('document', payload, removal)
  await settled(flow)
  expect((await stated(flow)).get('urn:doc')).toBeUndefined()
  await load(flow, 'urn:doc', ['The second text.'], 5)
  await flow.send('document', payload, removal)
  await settled(flow)
  expect((await stated(flow)).get('urn:doc')).toEqual(new Set(['The second text.']))
  await flow.stop()
})

test('a message without a value removes the document with its key', async () => {
  const flow = await start()
  const topic = flow.topic('document')
  await load(flow, 'urn:doc', ['The first text.'], 1)
  await load(flow, 'urn:other', ['The other text.'], 1)
  await settled(flow)
  await flow.broker.publish({ topic, key: 'urn:doc', value: new Uint8Array(), headers: {} })
  await settled(flow)
  expect(await stated(flow)).toEqual(new Map([['urn:other', new Set(['The other text.'])]]))
  expect((await statuses(flow)).get('urn:doc')!.state).toBe('removed')
  for (const key of ['', 'urn:never-loaded'])
    await flow.broker.publish({ topic, key, value: new Uint8Array(), headers: {} })
  for (const { headers } of await flow.letters('document', 2))
    expect(headers['dead-code']).toBe('message_empty')
  await flow.stop()
})

test('an edited document asks only about new text, and what is gone is withdrawn when the new version is done', async () => {
  const flow = await start()
  asked.clear()
  const paragraphs = Array.from({ length: 40 }, (_, n) => `This is the paragraph of number ${n}.`)
  await load(flow, 'urn:book', paragraphs, 1)
  await settled(flow)
  expect(await flow.all(flow.topic('retractions'))).toEqual([])
  const edited = [...paragraphs.slice(0, 10), 'This paragraph is new.', ...paragraphs.slice(11)]
  await load(flow, 'urn:book', edited, 2)
  await settled(flow)
  expect([...asked.values()].every((count) => count === 1)).toBe(true)
  expect(asked.size).toBe(41)
  expect((await stated(flow)).get('urn:book')).toEqual(await statedBy(edited))
  // The same text again costs nothing, and removes nothing.
  await load(flow, 'urn:book', edited, 3)
  await settled(flow)
  expect(asked.size).toBe(41)
  expect((await stated(flow)).get('urn:book')).toEqual(await statedBy(edited))
  const statuses = (await flow.all(flow.topic('status'))) as Message<'Status'>[]
  expect(statuses.at(-1)!.payload).toMatchObject({
    state: 'done',
    chunks: 40,
    version: 'v3',
    currentVersion: 'v3',
  })
  await flow.stop()
})

test('an edit in a document of 300 pages asks the model about the chunks whose text changed only', async () => {
  const llm = scriptedLlm(['{"type":"topic","topic":"a","definition":"b"}'])
  const flow = await startFlow([chunkText, prompt, extractTopics, ledger], {
    flows: [{ ...scope, settings: { ...settings, extractors: ['extract-topics'] } }],
    clock: { now: () => (now += 1000) },
    llm,
  })
  const words = ['mill', 'grain', 'river', 'stone', 'miller', 'sack', 'wheel', 'bread', 'field', 'winter']
  let seed = 1
  const word = () => {
    seed = (seed * 16_807) % 2_147_483_647
    return words[seed % words.length]!
  }
  const sentence = () => `The ${Array.from({ length: 12 }, word).join(' ')}.`
  const page = () => [0, 1, 2, 3].map(() => Array.from({ length: 6 }, sentence).join(' ')).join('\n\n')
  const pages = Array.from({ length: 300 }, page)
  const loadPages = async (edited: readonly string[], versionTime: number) => {
    const header = { documentId: 'urn:book', chunkId: '', version: `v${versionTime}`, versionTime }
    let parts = 0
    for await (const part of cutParts([edited.join('\n\n')])) {
      await flow.send('document', { ...part, title: '', uri: '', mediaType: '' }, header)
      parts++
    }
    await flow.send('progress', { kind: 'document', parts, title: '' }, header)
    await expect
      .poll(async () => (await statuses(flow)).get('urn:book'), { timeout: 60_000, interval: 200 })
      .toMatchObject({ state: 'done', currentVersion: `v${versionTime}` })
    return llm.requests.splice(0).length
  }
  const whole = await loadPages(pages, 1)
  expect(whole).toBeGreaterThan(250)
  expect(await loadPages(['A paragraph that is new.', ...pages], 2)).toBeLessThanOrEqual(4)
  const changed = pages.with(150, pages[150]!.replace('mill', 'windmill'))
  // The chunk that begins with the new paragraph is as it was at first, and so may be those up to the next anchor.
  expect(await loadPages(changed, 3)).toBeLessThanOrEqual(8)
  expect(await loadPages(changed, 4)).toBe(0)
  await flow.stop()
}, 120_000)

test('a version that comes late changes nothing', async () => {
  const flow = await start()
  await load(flow, 'urn:late', ['The new one.'], 2)
  await settled(flow)
  await load(flow, 'urn:late', ['The old one.'], 1)
  await settled(flow)
  expect((await stated(flow)).get('urn:late')).toEqual(new Set(['The new one.']))
  expect((await statuses(flow)).get('urn:late')).toMatchObject({
    state: 'done',
    versions: [
      { version: 'v2', state: 'current' },
      { version: 'v1', state: 'late' },
    ],
  })
  await flow.stop()
})
