import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type { AnyProcessor } from '../../src/flow/processor.ts'
import { type Extraction, openExtraction, paragraphs } from '../support/extraction.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'

const chunks = 60
const text = paragraphs(chunks)
let server: LlmServer
let undisturbed: Set<string>
let opened: Extraction | undefined

const open = async () => (opened = await openExtraction(server.url))

async function expectTheSame({ finished, triples }: Extraction): Promise<void> {
  const [document] = await finished()
  expect(document).toMatchObject({
    state: 'done',
    chunks,
    units: { expected: 3 * chunks, done: 3 * chunks, partial: 0, dead: 0 },
  })
  expect([...triples].sort()).toEqual([...undisturbed].sort())
}

beforeAll(async () => {
  server = await startLlmServer()
  const execution = await open()
  await execution.start()
  await execution.load(text)
  const [document] = await execution.finished()
  expect(document).toMatchObject({ state: 'done', chunks })
  undisturbed = execution.triples
  expect(undisturbed.size).toBeGreaterThan(3 * chunks)
})
afterEach(async () => {
  vi.useRealTimers()
  await server.back()
  await opened?.stop()
  opened = undefined
})
afterAll(() => server.close())

describe('the triples are those of an undisturbed execution', () => {
  test('when the model server is unavailable for a while', async () => {
    const execution = await open()
    await execution.start()
    await server.away('refuse')
    await execution.load(text)
    await expect.poll(() => execution.aggregate.documents()[0]?.chunks).toBe(chunks)
    await new Promise((resolve) => setTimeout(resolve, 1500))
    expect(execution.triples.size).toBe(0)
    await server.back()
    await expectTheSame(execution)
  })

  test('when the model server answers with errors of the kind that passes', async () => {
    const execution = await open()
    await execution.start()
    await server.away('503')
    await execution.load(text)
    await expect.poll(() => server.counts.calls).toBeGreaterThan(0)
    await server.back()
    await expectTheSame(execution)
  })

  test('when handlers throw what they should not, once in a while', async () => {
    const failed = new Set<string>()
    let messages = 0
    const execution = await open()
    const clumsy = execution.processors.map(
      (processor): AnyProcessor => ({
        ...processor,
        async *handle(message, context) {
          const inner = processor.handle(message, context)
          yield* inner
          // Late, so that what was yielded is published twice.
          const { id } = message as { readonly id: string }
          if (++messages % 7 !== 0 || failed.has(id)) return
          failed.add(id)
          throw new TypeError('clumsy')
        },
      }),
    )
    await execution.start(clumsy)
    await execution.load(text)
    await expectTheSame(execution)
  })

  test('when members come and go, and lose what they have in flight', async () => {
    const execution = await open()
    await execution.start()
    await execution.load(text)
    await expect.poll(() => execution.triples.size).toBeGreaterThan(20)
    const second = await execution.start()
    for (const group of [
      'gm.prompt.prompt.default.default',
      'gm.emit-triples.definitions.default.default',
      'gm.store-triples.triples.default.default',
    ])
      expect(execution.cluster.faults.evict(group, { rewind: 5 })).toBeGreaterThan(0)
    await second.stop()
    await expectTheSame(execution)
  })

  test('when all stops in the middle and starts again', async () => {
    const execution = await open()
    const first = await execution.start()
    await execution.load(text)
    await expect.poll(() => execution.triples.size).toBeGreaterThan(20)
    await first.runtime.stop(0)
    expect(execution.triples.size).toBeLessThan(undisturbed.size)
    await execution.start()
    await expectTheSame(execution)
  })

  test('when the clock is set back by a day in the middle, and stands still', async () => {
    const execution = await open()
    await execution.start()
    await server.away('503')
    await execution.load(text)
    await expect.poll(() => server.counts.calls).toBeGreaterThan(0)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 24 * 60 * 60 * 1000 })
    await server.back()
    await expectTheSame(execution)
  })

  test('when the broker takes no facts for a while', async () => {
    const execution = await open()
    const heal = execution.cluster.faults.failPublish((topic) => topic.startsWith('gm.flow.definitions'), {
      stored: true,
    })
    await execution.start()
    await execution.load(text)
    await expect.poll(() => execution.triples.size).toBeGreaterThan(20)
    heal()
    await expectTheSame(execution)
  })
})
