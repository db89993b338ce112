// What the model is asked about when a document changes while its chunks wait: only what its newest version has.
import { afterEach, describe, expect, test } from 'vitest'
import { chunkText } from '../../processors/chunk-text.ts'
import { extractTopics } from '../../processors/extract-topics.ts'
import { ledger } from '../../processors/ledger.ts'
import { prompt } from '../../processors/prompt.ts'
import { splitText } from '../../src/documents/split.ts'
import { createRateLimiter } from '../../src/llm/limits/rate-limiter.ts'
import { emissionKey, joinKeys } from '../../src/messages/emission.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { Contents, Status } from '../../src/messages/generated.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { createSupersededChunks } from '../../src/progress/superseded-chunks.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

const cut = { chunkSize: 40, chunkOverlap: 0 }
const documentId = 'urn:d'
const concurrency = 2

const flows: TestFlow[] = []
afterEach(async () => {
  await Promise.all(flows.splice(0).map((flow) => flow.stop()))
})

/** A flow whose model answers nothing until it is released. */
async function startWaiting() {
  const asked: string[] = []
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const scripted = scriptedLlm(['{"topic":"a","definition":"b"}'])
  const llm: typeof scripted = {
    ...scripted,
    async *stream(request, signal) {
      asked.push(String(request.origin!.terms['text']))
      const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      await Promise.race([released, aborted])
      signal.throwIfAborted()
      yield* scripted.stream(request, signal)
    },
  }
  // A second passes whenever it is asked for: no status waits until it is due.
  let now = Date.now()
  const metrics = createMetrics()
  const flow = await startFlow([chunkText, prompt, extractTopics, ledger], {
    metrics,
    flows: [{ ...scope, settings: { ...settings, ...cut, extractors: ['extract-topics'] } }],
    clock: { now: () => (now += 1000) },
    rateLimiter: createRateLimiter({ concurrency }),
    llm,
  })
  flows.push(flow)
  return { flow, asked, release, metrics: () => metrics.registry.metrics() }
}

const paragraphs = (from: number, count: number) =>
  Array.from({ length: count }, (_, n) => `Paragraph ${from + n} has some words.`)

async function load(flow: TestFlow, text: string, versionTime: number): Promise<string[]> {
  const header = { documentId, chunkId: '', version: `v${versionTime}`, versionTime }
  const payload = { title: 'd', uri: '', mediaType: 'text/plain', part: 0, offset: 0, text, last: true }
  await flow.send('progress', { kind: 'loading', title: 'd' }, header)
  await flow.send('document', payload, header)
  await flow.send('progress', { kind: 'document', parts: 1, title: 'd' }, header)
  return (await splitText(text, cut)).map((chunk) => chunk.text)
}

const entries = async (flow: TestFlow, kind: string) =>
  ((await flow.all(flow.topic('progress'))) as Message<'Progress'>[]).filter(
    ({ payload }) => payload.kind === kind,
  )

async function statusOf(flow: TestFlow): Promise<Status | undefined> {
  const messages = (await flow.all(flow.topic('status'))) as Message<'Status'>[]
  return messages.filter((message) => message.documentId === documentId).at(-1)?.payload
}

const patient = { timeout: 30_000 }

describe('while chunks wait for the model', { timeout: 60_000 }, () => {
  test('a new version ends those that it no longer has, and keeps the others', async () => {
    const { flow, asked, release } = await startWaiting()
    // More than the processor has in flight.
    const before = await load(flow, paragraphs(0, 200).join('\n\n'), 10)
    await expect.poll(() => asked.length, patient).toBe(concurrency)
    const after = await load(flow, [...paragraphs(100, 100), ...paragraphs(500, 3)].join('\n\n'), 20)
    const gone = before.filter((text) => !after.includes(text))
    const ended = async () => (await entries(flow, 'superseded')).map(({ chunkId }) => chunkId)
    await expect.poll(async () => new Set(await ended()).size, patient).toBe(gone.length)
    const inFlight = [...asked]
    release()
    await expect.poll(async () => (await statusOf(flow))?.state, patient).toBe('done')
    expect(new Set(asked)).toEqual(new Set([...inFlight, ...after]))
    expect(asked).toHaveLength(new Set(asked).size)
    expect(await statusOf(flow)).toMatchObject({
      chunks: after.length,
      expected: after.length,
      done: after.length,
      partial: 0,
      dead: 0,
      incomplete: {},
      versions: [
        { version: 'v20', state: 'current' },
        { version: 'v10', state: 'superseded' },
      ],
    })
    const [retraction, ...more] = (await flow.all(flow.topic('retractions'))) as Message<'Retractions'>[]
    expect(more).toEqual([])
    expect(retraction).toMatchObject({ versionTime: 20, payload: { reason: 'superseded' } })
  })

  test('a removal ends all of them', async () => {
    const { flow, asked, metrics } = await startWaiting()
    const chunks = await load(flow, paragraphs(0, 200).join('\n\n'), 10)
    await expect.poll(() => asked.length, patient).toBe(concurrency)
    const removal = { title: '', uri: '', mediaType: '', text: '', removed: 'removed' }
    await flow.send('document', removal, { documentId, chunkId: '', versionTime: 20 })
    await expect.poll(async () => (await entries(flow, 'superseded')).length, patient).toBe(chunks.length)
    expect(asked).toHaveLength(concurrency)
    await expect
      .poll(metrics, patient)
      .toContain(`graphmill_superseded_units_total{extractor="topics"} ${chunks.length}`)
    expect(await statusOf(flow)).toMatchObject({ state: 'removed', dead: 0, partial: 0 })
    expect((await entries(flow, 'superseded')).map(({ payload }) => payload.unit)).toEqual(
      chunks.map(() => 'extract-topics'),
    )
  })

  test('an earlier version does not become the current one without them', async () => {
    const { flow, asked } = await startWaiting()
    await load(flow, paragraphs(0, 4).join('\n\n'), 10)
    await expect.poll(() => asked.length, patient).toBe(concurrency)
    const gone = await load(flow, paragraphs(50, 4).join('\n\n'), 20)
    await expect.poll(async () => (await entries(flow, 'superseded')).length, patient).toBe(4)
    expect(gone).toHaveLength(4)
    expect(await statusOf(flow)).toMatchObject({ currentTime: 0, versionTime: 20, expected: 4, done: 0 })
  })
})

describe('which chunks are superseded', () => {
  const chunkAt = (name: string, versionTime: number) => ({
    documentId,
    chunkId: `${documentId}/${name}`,
    versionTime,
  })
  const part = (index: number, last: boolean, ...chunks: readonly ReturnType<typeof chunkAt>[]) => ({
    part: index,
    last,
    emissions: [...new Set(chunks.map(({ versionTime }) => versionTime))].map((versionTime) => ({
      versionTime,
      keys: joinKeys(chunks.filter((chunk) => chunk.versionTime === versionTime).map(emissionKey)),
    })),
  })
  const contents = (versionTime: number, payload: Partial<Contents>) =>
    ({
      documentId,
      version: `v${versionTime}`,
      versionTime,
      payload: { cause: '', parts: [], base: [], removals: [], ...payload },
    }) as Message<'Contents'>
  const known = (...messages: readonly Message<'Contents'>[]) => {
    const chunks = createSupersededChunks()
    for (const message of messages) chunks.take(message)
    return (chunk: ReturnType<typeof chunkAt>) => chunks.watch(chunk)?.signal.aborted
  }
  const kept = chunkAt('kept', 1)
  const gone = chunkAt('gone', 1)
  const own = chunkAt('own', 2)

  test('are those of older versions that the newest one does not have', () => {
    const isSuperseded = known(contents(2, { parts: [part(0, true, kept, own)] }))
    expect([gone, kept, own, chunkAt('newer', 3)].map(isSuperseded)).toEqual([true, false, false, false])
  })

  test('are none as long as a part of the newest version is missing, was given up or is known by place only', () => {
    expect(known(contents(2, { parts: [part(0, false, kept)] }))(gone)).toBe(false)
    expect(known(contents(2, { parts: [part(1, true, kept)] }))(gone)).toBe(false)
    expect(known(contents(2, { parts: [part(0, false, kept), part(1, true)] }))(gone)).toBe(false)
  })

  test('are all that came before a removal', () => {
    const isSuperseded = known(contents(2, { cause: 'a removal' }))
    expect([gone, chunkAt('after', 3)].map(isSuperseded)).toEqual([true, false])
  })

  test('do not depend on the order of messages', () => {
    const newer = contents(3, { parts: [part(0, true, kept)] })
    expect(known(newer, contents(2, { parts: [part(0, true, gone)] }))(gone)).toBe(true)
  })

  test('are those without a version when their document was removed since, and none that are of no chunk', () => {
    const [old, before] = [chunkAt('old', 0), contents(2, { parts: [part(0, true, own)] })]
    expect(known(before)(old)).toBe(false)
    expect(known(before, contents(3, { cause: 'a removal' }))(old)).toBe(true)
    expect(known(contents(4, { parts: [part(0, true, own)], removals: ['a removal'] }))(old)).toBe(true)
    expect(known(before)({ documentId, chunkId: '', versionTime: 1 })).toBeUndefined()
  })
})
