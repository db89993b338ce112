// A flow of some processors on the memory broker, for tests: send messages in, see what comes out.
import { setTimeout as pause } from 'node:timers/promises'
import { pino } from 'pino'
import type { Broker, ReadMessage } from '../../src/broker/broker.ts'
import { createMemoryCluster, type MemoryCluster } from '../../src/broker/memory/memory.ts'
import { deadTopic } from '../../src/broker/topics.ts'
import { GraphmillError } from '../../src/errors.ts'
import { type OutputPort, outputRoute, payloadOf, type ReplyPort } from '../../src/flow/ports.ts'
import { type AnyProcessor, defineProcessor, type FlowSettings } from '../../src/flow/processor.ts'
import { type FlowRuntime, type FlowRuntimeOptions, run } from '../../src/flow/run.ts'
import { createRateLimiter } from '../../src/llm/limits/rate-limiter.ts'
import type { Llm } from '../../src/llm/llm.ts'
import { type Codec, createCodec } from '../../src/messages/codec.ts'
import type { Header, Message, TypedPayload } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { loadCatalogue } from '../../src/prompt/catalogue/catalogue.ts'

export const settings: FlowSettings = {
  extractors: ['extract-definitions', 'extract-relationships', 'extract-topics'],
  chunkSize: 2000,
  chunkOverlap: 100,
}

export const scope = { workspace: 'default', flow: 'default' }

/** A model that must not be asked. */
export const noLlm: Llm = {
  provider: 'openai',
  model: 'none',
  destination: 'nowhere',
  circuit: 'llm:none',
  stream() {
    throw new GraphmillError('llm_not_configured', 'This test has no model.')
  },
  async ready() {},
}

/** Turns a chunk into a topics message, unless `handle` throws; the chunk's text steers it. */
export const worker = (handle: (text: string, attempt: number) => void | Promise<void>) => {
  const attempts = new Map<string, number>()
  return defineProcessor({
    name: 'worker',
    inputs: ['chunk'],
    outputs: ['topics'],
    async *handle(message) {
      const { text } = message.payload
      attempts.set(text, (attempts.get(text) ?? 0) + 1)
      await handle(text, attempts.get(text)!)
      yield {
        to: 'topics',
        payload: { run: { id: 'r', startedAt: 1 }, facts: [{ topic: text, definition: 'd' }] },
      }
    },
  })
}

/** A worker that refuses every chunk for good. */
export const refusing = () =>
  worker(() => {
    throw new GraphmillError('message_invalid', 'no')
  })

export interface TestFlow {
  readonly cluster: MemoryCluster
  readonly broker: Broker
  readonly codec: Codec
  readonly runtime: FlowRuntime
  /** Publishes a message as a source would; resolves to its id. */
  send(port: Exclude<OutputPort, ReplyPort>, payload: unknown, header?: Partial<Header>): Promise<string>
  topic(port: Exclude<OutputPort, ReplyPort>): string
  /** The next `count` messages of a topic, from its beginning. */
  first(topic: string, count: number): Promise<Message[]>
  /** The next `count` dead letters of a port, from the first. */
  letters(port: Exclude<OutputPort, ReplyPort>, count: number): Promise<ReadMessage[]>
  /** All messages that a topic holds now. */
  all(topic: string): Promise<Message[]>
  stop(): Promise<void>
}

let sent = 0

export async function startFlow(
  processors: readonly AnyProcessor[],
  more: Partial<FlowRuntimeOptions> & { cluster?: MemoryCluster } = {},
): Promise<TestFlow> {
  const { cluster = createMemoryCluster(), ...rest } = more
  const broker = cluster.connect()
  const codec = createCodec(loadSchemas())
  const stop = new AbortController()
  const options: FlowRuntimeOptions = {
    broker,
    processors,
    codec,
    flows: [{ ...scope, settings }],
    allExtractors: true,
    llm: noLlm,
    rateLimiter: createRateLimiter({}),
    prompts: more.prompts ?? (await loadCatalogue()),
    store: { write: async () => undefined, close: async () => undefined },
    log: pino({ level: 'silent' }),
    clock: { now: () => Date.now() },
    ids: { next: () => `id-${++sent}` },
    ...rest,
  }
  const runtime = await run(options, stop.signal)
  const topic = (port: Exclude<OutputPort, ReplyPort>) => outputRoute(port, { space: 'gm', ...scope }).topic
  const decode = (entry: { value: Uint8Array; headers: Readonly<Record<string, string>> }) =>
    codec.decode(entry.value, entry.headers)
  return {
    cluster,
    broker,
    codec,
    runtime,
    topic,
    async send(port, payload, header = {}) {
      const id = header.id ?? `sent-${++sent}`
      const full = {
        source: 'test',
        time: Date.now(),
        ...scope,
        collection: 'default',
        documentId: 'urn:d',
        chunkId: 'urn:d/0/0',
        correlationId: id,
        causationId: '',
        replyTo: null,
        deadline: null,
        traceparent: null,
        ...header,
      }
      const typed = { type: payloadOf[port], payload } as TypedPayload
      const route = outputRoute(port, { space: 'gm', ...scope })
      const key = route.key === 'id' ? id : full[route.key]
      await broker.publish(codec.encode(full, typed, { topic: route.topic, key, salt: '', id: () => id }))
      return id
    },
    async first(name, count) {
      const messages: Message[] = []
      for await (const entry of broker.read(
        { topic: name, from: 'earliest', until: 'never' },
        AbortSignal.timeout(20_000),
      )) {
        messages.push(decode(entry))
        if (messages.length === count) break
      }
      return messages
    },
    async letters(port, count) {
      const name = deadTopic(topic(port))
      const signal = AbortSignal.timeout(20_000)
      while ((await broker.listTopics(name)).length === 0) await pause(5, undefined, { signal })
      const letters: ReadMessage[] = []
      for await (const entry of broker.read({ topic: name, from: 'earliest', until: 'never' }, signal)) {
        letters.push(entry)
        if (letters.length === count) return letters
      }
      throw new Error(`There are ${letters.length} letters instead of ${count}.`)
    },
    async all(name) {
      const messages: Message[] = []
      for await (const entry of broker.read(
        { topic: name, from: 'earliest', until: 'end' },
        AbortSignal.timeout(20_000),
      ))
        messages.push(decode(entry))
      return messages
    },
    async stop() {
      await runtime.stop(0)
      stop.abort()
      await broker.close()
    },
  }
}
