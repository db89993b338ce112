import { expect, test } from 'vitest'
import {
  createMemoryCluster,
  createOffline,
  defineExtractor,
  defineProcessor,
  defineSink,
  type Message,
  PromptClient,
  processors,
  readFormat,
  run,
} from '../src/index.ts'

const scope = { workspace: 'default', flow: 'default' }
const nowhere = { write: async () => undefined, close: async () => undefined }

test('a program of a few lines runs processors of its own beside the built-in ones, on the memory broker', async () => {
  const found: string[] = []
  const shout = defineProcessor({
    name: 'shout',
    inputs: ['document'],
    outputs: ['chunk'],
    async *handle({ payload }) {
      yield { to: 'chunk', payload: { text: payload.text } }
    },
  })
  const extract = defineExtractor({
    name: 'extract-my-topics',
    prompt: 'extract-topics',
    implied: 'topic',
    outputs: ['topics'],
    terms: (chunk) => ({ text: chunk.text }),
    facts: {
      topic: (item) => ({
        to: 'topics',
        fact: { topic: String(item['topic']), definition: String(item['definition']) },
      }),
    },
  })
  const collect = defineSink({
    name: 'collect',
    input: 'topics',
    async write(batch) {
      for (const { payload } of batch) found.push(...payload.facts.map(({ topic }) => topic))
    },
  })
  const prompt = processors.find(({ name }) => name === 'prompt')!
  const broker = createMemoryCluster().connect()
  const stop = new AbortController()
  const mill = await run(
    {
      broker,
      processors: [shout, prompt, extract, collect],
      flows: [{ ...scope, settings: { extractors: [extract.name], chunkSize: 2000, chunkOverlap: 0 } }],
      llm: createOffline(),
      store: nowhere,
    },
    stop.signal,
  )
  const header: Omit<Message, 'type' | 'payload'> = {
    id: 'one',
    source: 'test',
    time: 0,
    ...scope,
    collection: 'default',
    documentId: 'urn:d',
    chunkId: 'urn:d/0/0',
    correlationId: 'one',
    causationId: '',
    replyTo: null,
    deadline: null,
    traceparent: null,
    version: '',
    versionTime: 0,
  }
  const text = 'Chalk is a soft white limestone. Chalk is formed of the shells of tiny sea creatures.'
  const document = { type: 'TextDocument', payload: { text } } as const
  const topic = 'gm.flow.document.default.default'
  await broker.publish(mill.codec.encode(header, document, { topic, salt: '', id: () => 'one' }))
  await expect.poll(() => found.length, { timeout: 20_000 }).toBeGreaterThan(0)
  await mill.stop(0)
  stop.abort()
  await broker.close()
})

test('a prompt client needs a broker and nothing more', async () => {
  const broker = createMemoryCluster().connect()
  const client = await PromptClient.connect({ broker })
  await client.close()
  await broker.close()
})

test('a stream of JSON is read as it arrives', async () => {
  const values: unknown[] = []
  for await (const event of readFormat('ndjson', [Buffer.from('{"a":'), Buffer.from('1}\n2\n')]))
    if (event.type === 'record') values.push(event.value)
  expect(values).toEqual([{ a: 1 }, 2])
})
