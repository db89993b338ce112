// Two whole flows in one process that share a model, which takes only some calls at once.
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { processors } from '../../processors/index.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { systemClock as clock, uuids as ids } from '../../src/flow/clock.ts'
import { loadDocument } from '../../src/flow/load-document.ts'
import { outputRoute } from '../../src/flow/ports.ts'
import { run, topicsOf } from '../../src/flow/run.ts'
import { createCircuits } from '../../src/flow/runner/circuits.ts'
import { createRateLimiter } from '../../src/llm/limits/rate-limiter.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import { createCodec } from '../../src/messages/codec.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import { settings as usual } from '../support/flow.ts'
import { extractionReply, guessExtraction } from '../support/llm-extraction.ts'
import { chunkOf } from '../support/llm-script.ts'
import { startLlmServer } from '../support/llm-server.ts'

const space = 'gm'
const settings = { ...usual, chunkSize: 90, chunkOverlap: 0 }
const serving = processors.filter(
  ({ name }) => !name.startsWith('extract-') || settings.extractors.includes(name),
)

test('one workspace with 10,000 chunks does not starve another with 10', { timeout: 120_000 }, async () => {
  const calls = { big: 0, small: 0 }
  await using server = await startLlmServer({
    latencyMs: 50,
    maxConcurrent: 4,
    rules: [
      {
        reply({ prompt }) {
          calls[prompt.includes('Small mill') ? 'small' : 'big']++
          const chunk = chunkOf(prompt)
          return extractionReply(guessExtraction(prompt.replace(chunk, ''))!, chunk)
        },
      },
    ],
  })
  const broker = createMemoryCluster().connect()
  const codec = createCodec(loadSchemas())
  const circuits = createCircuits({ now: () => clock.now() })
  const rateLimiter = createRateLimiter({ concurrency: 4 })
  const llm = createOpenAi({ baseUrl: server.url, model: 'test-model' })
  const over = new AbortController()

  async function load(workspace: string, text: string): Promise<void> {
    const scope = { workspace, flow: 'default' }
    await broker.ensureTopics(topicsOf(serving, { space, ...scope }))
    const place = { broker, codec, circuits, clock, ids, space, scope, collection: 'default', source: 'test' }
    const source = { title: workspace, uri: `urn:${workspace}`, mediaType: 'text/plain' }
    await loadDocument(
      {
        ...source,
        text: async function* () {
          yield text
        },
      },
      place,
      over.signal,
    )
  }
  const start = (workspace: string) =>
    run(
      {
        broker,
        codec,
        circuits,
        rateLimiter,
        llm,
        space,
        processors: serving,
        flows: [{ workspace, flow: 'default', settings }],
        store: { write: async () => undefined, close: async () => undefined },
        log: pino({ level: 'silent' }),
      },
      over.signal,
    )
  /** Resolves when every unit of the workspace's document is done. */
  async function finished(workspace: string): Promise<void> {
    const aggregate = createProgressAggregate()
    const topic = outputRoute('progress', { space, workspace, flow: 'default' }).topic
    for await (const entry of broker.read({ topic, from: 'earliest', until: 'never' }, over.signal)) {
      aggregate.add(codec.decode(entry.value, entry.headers) as Message<'Progress'>)
      const [status] = aggregate.documents()
      if (status?.state === 'done') return
    }
  }

  const textOf = (name: string, chunks: number) =>
    Array.from(
      { length: chunks },
      (_, n) => `${name} mill ${n} stands by the river and grinds the grain of the valley.`,
    )
  await load('big', textOf('Big', 10_000).join('\n\n'))
  const runtimes = [await start('big'), await start('small')]
  await server.until(() => calls.big > 100)
  const before = calls.big
  await load('small', textOf('Small', 10).join('\n\n'))
  await finished('small')
  expect(calls.small).toBe(30)
  // Taking turns, the other flow makes about as many calls; without turns, all of its requests in flight (256) came first.
  expect(calls.big - before).toBeGreaterThan(15)
  expect(calls.big - before).toBeLessThan(256)
  await Promise.all(runtimes.map((runtime) => runtime.stop(0)))
  over.abort()
  await broker.close()
})
