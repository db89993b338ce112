// Documents that change: whatever happens, and in whatever order, what is not withdrawn is exactly what the surviving versions state.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { chunkText } from '../../processors/chunk-text.ts'
import { ledger } from '../../processors/ledger.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { splitText } from '../../src/documents/split.ts'
import { inputGroup } from '../../src/flow/ports.ts'
import { type AnyProcessor, defineProcessor } from '../../src/flow/processor.ts'
import { emissionKey, splitKeys } from '../../src/messages/emission.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'

const cut = { chunkSize: 40, chunkOverlap: 0 }
/** How often each text was asked about. */
const asked = new Map<string, number>()

/** States the text of each chunk, and reports it. */
const reader = defineProcessor({
  name: 'reader',
  inputs: ['chunk'],
  outputs: ['topics', 'progress'],
  async *handle({ id, payload: { text } }) {
    asked.set(text, (asked.get(text) ?? 0) + 1)
    const run = { id: `run of ${id}`, startedAt: 1 }
    yield { to: 'topics', payload: { run, facts: [{ topic: text, definition: '' }] } }
    const payload = { kind: 'reply', unit: 'reader', run, seq: 0, last: true, facts: { topics: 1 } }
    yield { to: 'progress', payload }
  },
})

const processors: readonly AnyProcessor[] = [chunkText, reader, ledger]
const start = (cluster = createMemoryCluster()) =>
  startFlow(processors, {
    cluster,
    flows: [{ ...scope, settings: { ...settings, ...cut, extractors: ['reader'] } }],
  })

/** As `load` publishes it, in document parts of two paragraphs. */
async function load(flow: TestFlow, documentId: string, paragraphs: readonly string[], versionTime: number) {
  const version = `v${versionTime}`
  const header = { documentId, chunkId: '', version, versionTime }
  const parts = paragraphs.length === 0 ? [] : [...Array(Math.ceil(paragraphs.length / 2)).keys()]
  await flow.send('progress', { kind: 'loading', title: documentId }, header)
  for (const part of parts) {
    const text = paragraphs.slice(2 * part, 2 * part + 2).join('\n\n')
    const payload = { title: documentId, uri: '', mediaType: 'text/plain', part, offset: 0, text }
    await flow.send('document', { ...payload, last: part === parts.length - 1 }, header)
  }
  await flow.send('progress', { kind: 'document', parts: parts.length, title: documentId }, header)
}

const remove = (flow: TestFlow, documentId: string, versionTime: number) =>
  flow.send(
    'document',
    { title: '', uri: '', mediaType: '', text: '', removed: 'removed' },
    { documentId, chunkId: '', versionTime },
  )

async function settled(flow: TestFlow): Promise<void> {
  const groups = [
    ['document', chunkText],
    ['chunk', reader],
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
const action = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      to: fc.constant('load' as const),
      document: fc.nat(1),
      paragraphs: fc.array(paragraph, { minLength: 1, maxLength: 9 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ to: fc.constant('remove' as const), document: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.record({ to: fc.constant('kill' as const) }) },
  { weight: 1, arbitrary: fc.record({ to: fc.constant('wait' as const) }) },
)

test(
  'whatever is loaded and removed, and killed meanwhile, the surviving versions state all that is not withdrawn',
  { timeout: 120_000 },
  () =>
    fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 2, maxLength: 8 }), async (history) => {
        const cluster = createMemoryCluster()
        let flow = await start(cluster)
        const surviving = new Map<string, readonly string[]>()
        for (const [at, step] of history.entries()) {
          if (step.to === 'kill') {
            await flow.stop()
            flow = await start(cluster)
          } else if (step.to === 'wait') await settled(flow)
          else {
            const documentId = `urn:d${step.document}`
            const paragraphs = step.to === 'load' ? step.paragraphs : []
            if (step.to === 'load') await load(flow, documentId, paragraphs, at + 1)
            else await remove(flow, documentId, at + 1)
            surviving.set(documentId, paragraphs)
          }
        }
        await settled(flow)
        const found = await stated(flow)
        for (const [documentId, paragraphs] of surviving)
          expect(found.get(documentId) ?? new Set()).toEqual(await statedBy(paragraphs))
        expect((await flow.broker.listTopics('gm.')).filter(({ name }) => name.endsWith('.dead'))).toEqual([])
        await flow.stop()
      }),
      { numRuns: 12 },
    ),
)

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

test('a version that comes late changes nothing', async () => {
  const flow = await start()
  await load(flow, 'urn:late', ['The new one.'], 2)
  await settled(flow)
  await load(flow, 'urn:late', ['The old one.'], 1)
  await settled(flow)
  expect((await stated(flow)).get('urn:late')).toEqual(new Set(['The new one.']))
  await flow.stop()
})
