// Documents without versions, as programs publish them that know of none: what is left of one that is removed, and loaded again.
import { afterEach, expect, test } from 'vitest'
import { chunkText } from '../../processors/chunk-text.ts'
import { ledger } from '../../processors/ledger.ts'
import { inputGroup } from '../../src/flow/ports.ts'
import { defineProcessor } from '../../src/flow/processor.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { Status } from '../../src/messages/generated.ts'
import { createRetractionCache } from '../../src/progress/retraction-cache.ts'
import { isWithdrawn } from '../../src/rdf/support.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'

const documentId = 'urn:plain'

/** States the text of each chunk, and reports it. */
const reader = defineProcessor({
  name: 'reader',
  inputs: ['chunk'],
  outputs: ['topics', 'progress'],
  async *handle({ id, payload: { text } }) {
    const run = { id: `run of ${id}`, startedAt: 1 }
    yield { to: 'topics', payload: { run, facts: [{ topic: text, definition: '' }] } }
    yield {
      to: 'progress',
      payload: { kind: 'reply', unit: 'reader', run, seq: 0, last: true, facts: { topics: 1 } },
    }
  },
})

let flow: TestFlow
let now: number
afterEach(() => flow.stop())

async function start(): Promise<void> {
  now = 1_000_000
  flow = await startFlow([chunkText, reader, ledger], {
    flows: [{ ...scope, settings: { ...settings, extractors: ['reader'] } }],
    clock: { now: () => (now += 1000) },
  })
}

type Order = 'entries first' | 'entries last'

async function load(texts: readonly string[], time: number, order: Order = 'entries last'): Promise<void> {
  const header = { documentId, chunkId: '', time }
  const entries = async () => {
    await flow.send('progress', { kind: 'loading', title: 'plain' }, header)
    await flow.send('progress', { kind: 'document', parts: texts.length, title: 'plain' }, header)
    await settled()
  }
  if (order === 'entries first') await entries()
  for (const [part, text] of texts.entries())
    await flow.send(
      'document',
      { title: 'plain', uri: '', mediaType: 'text/plain', part, offset: 0, text },
      { ...header, id: `${time} ${part}` },
    )
  await settled()
  if (order === 'entries last') await entries()
}

async function remove(versionTime: number): Promise<void> {
  const removal = { title: '', uri: '', mediaType: '', text: '', removed: 'removed' }
  await flow.send('document', removal, { documentId, chunkId: '', time: versionTime, versionTime })
  await settled()
}

async function settled(): Promise<void> {
  const groups = [
    ['document', chunkText],
    ['chunk', reader],
    ['progress', ledger],
  ] as const
  const lag = async () => {
    let total = 0
    for (const [port, { name }] of groups)
      total += (await flow.broker.lag(inputGroup(port, { space: 'gm', ...scope }, name), flow.topic(port)))
        .total
    return total
  }
  for (let quiet = 0; quiet < 2; quiet = (await lag()) === 0 ? quiet + 1 : 0)
    await new Promise((resolve) => setImmediate(resolve))
}

/** What a store holds that has followed the newest retraction. */
async function stated(): Promise<Set<string>> {
  const cache = createRetractionCache()
  for (const message of await flow.all(flow.topic('retractions')))
    cache.put(message as Message<'Retractions'>)
  const withdrawal = cache.of(documentId)
  const facts = (await flow.all(flow.topic('topics'))) as Message<'Topics'>[]
  const kept = facts.filter((message) => !withdrawal || !isWithdrawn(message, withdrawal))
  return new Set(kept.map(({ payload }) => payload.facts[0]!.topic))
}

async function statusOf(): Promise<Status> {
  const messages = (await flow.all(flow.topic('status'))) as Message<'Status'>[]
  return messages.filter((message) => message.documentId === documentId).at(-1)!.payload
}

const late = async () =>
  ((await flow.all(flow.topic('progress'))) as Message<'Progress'>[]).filter(
    ({ payload }) => payload.kind === 'late',
  )

test.each<Order>(['entries first', 'entries last'])(
  'one that is removed and loaded again is there again, with %s',
  async (order) => {
    await start()
    await load(['It was here.', 'This too.'], 1000, order)
    expect(await statusOf()).toMatchObject({ state: 'done', chunks: 2, done: 2 })
    await remove(2000)
    expect(await statusOf()).toMatchObject({ state: 'removed' })
    expect(await stated()).toEqual(new Set())
    await load(['It was here.', 'It is back.'], 3000, order)
    expect(await stated()).toEqual(new Set(['It was here.', 'It is back.']))
    expect(await statusOf()).toMatchObject({ state: 'done', chunks: 2, done: 2, dead: 0 })
    await remove(4000)
    expect(await stated()).toEqual(new Set())
    expect(await statusOf()).toMatchObject({ state: 'removed' })
  },
)

test('parts from before its removal are passed over, and what was made of them does not stay, also after it was loaded with a version', async () => {
  await start()
  await load(['It was here.'], 1000)
  await remove(2000)
  await load(['It is late.'], 1500)
  expect(await stated()).toEqual(new Set())
  expect((await late()).map(({ payload }) => payload.part)).toEqual([0])
  const header = { documentId, chunkId: '', version: 'v', versionTime: 3000 }
  await flow.send('progress', { kind: 'loading', title: 'plain' }, header)
  const text = {
    title: 'plain',
    uri: '',
    mediaType: 'text/plain',
    part: 0,
    offset: 0,
    text: 'A version.',
    last: true,
  }
  await flow.send('document', text, header)
  await flow.send('progress', { kind: 'document', parts: 1, title: 'plain' }, header)
  await settled()
  // A chunk that has waited since before the removal.
  await flow.send(
    'chunk',
    { part: 0, index: 0, offset: 0, text: 'It waited.' },
    { documentId, chunkId: `${documentId}/0/0` },
  )
  await settled()
  expect(await statusOf()).toMatchObject({ state: 'done', chunks: 1, version: 'v', currentVersion: 'v' })
  expect(await stated()).toEqual(new Set(['A version.']))
})
