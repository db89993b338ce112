// A whole extraction on the memory broker against a scripted model server: load a text, wait until all is done, compare triples.
import { processors } from '../../processors/index.ts'
import { createMemoryCluster, type MemoryCluster } from '../../src/broker/memory/memory.ts'
import type { TextSource } from '../../src/documents/read.ts'
import { loadDocument } from '../../src/flow/load-document.ts'
import { inputGroup, inputTopic } from '../../src/flow/ports.ts'
import type { AnyProcessor, FlowSettings } from '../../src/flow/processor.ts'
import type { Llm } from '../../src/llm/llm.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { DocumentStatus } from '../../src/progress/document-status.ts'
import { createProgressAggregate, type ProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import { createEncoder } from '../../src/rdf/write.ts'
import { scope, settings, startFlow, type TestFlow } from './flow.ts'

/** A text of `count` paragraphs, each a chunk of its own at chunk size 200, all different. */
export function paragraphs(count: number): string {
  const words = [
    'mill',
    'river',
    'stone',
    'wheel',
    'miller',
    'grain',
    'flour',
    'sack',
    'sail',
    'tower',
    'weir',
    'race',
    'gear',
    'hopper',
    'bran',
    'barn',
  ]
  const word = (seed: number) => words[seed % words.length]
  const sentence = (n: number, k: number) =>
    `The ${word(n + k)} of parish ${n} stands by the ${word(n * 3 + k)} and feeds the ${word(n * 7 + 2 * k)}.`
  return Array.from({ length: count }, (_, n) => [0, 1, 2].map((k) => sentence(n, k)).join(' ')).join('\n\n')
}

export function textSource(title: string, text: string): TextSource {
  return {
    title,
    uri: '',
    mediaType: 'text/plain',
    async *text() {
      yield text
    },
  }
}

export interface Extraction {
  readonly cluster: MemoryCluster
  readonly aggregate: ProgressAggregate
  /** The lines of N-Quads that were stored. */
  readonly triples: Set<string>
  /** The processors. */
  readonly processors: readonly AnyProcessor[]
  /** When the first triple was stored, as `performance.now()` tells it. */
  firstStored(): Promise<number>
  /** Starts the processors (again); several starts are several members. */
  start(processors?: readonly AnyProcessor[]): Promise<TestFlow>
  load(text: string): Promise<void>
  /** Resolves when every document has ended and every message is settled. */
  finished(): Promise<DocumentStatus[]>
  stop(): Promise<void>
}

/** An extraction with a model, or the one of the server at a URL. */
export async function openExtraction(
  model: Llm | string,
  extractors: readonly string[] = settings.extractors,
  provenance: NonNullable<FlowSettings['provenance']> = 'none',
  chunkSize = 200,
): Promise<Extraction> {
  const wanted = ['chunk-text', 'prompt', ...extractors, 'emit-triples', 'store-triples']
  const extraction = processors.filter(({ name }) => wanted.includes(name))
  const llm = typeof model === 'string' ? createOpenAi({ baseUrl: model, model: 'test' }) : model
  const cluster = createMemoryCluster()
  const broker = cluster.connect()
  const encoder = createEncoder('nquads')
  const triples = new Set<string>()
  const aggregate = createProgressAggregate()
  const flows: TestFlow[] = []
  const ending = new AbortController()
  let following: Promise<void> | undefined
  const first = Promise.withResolvers<number>()
  const store = {
    async write(batch: Parameters<typeof encoder.encode>[0]) {
      first.resolve(performance.now())
      for (const line of encoder.encode(batch).split('\n')) if (line) triples.add(line)
    },
    close: async () => undefined,
  }

  async function follow({ codec, topic }: TestFlow): Promise<void> {
    for await (const entry of broker.read(
      { topic: topic('progress'), from: 'earliest', until: 'never' },
      ending.signal,
    ))
      aggregate.add(codec.decode(entry.value, entry.headers) as Message<'Progress'>)
  }

  return {
    cluster,
    aggregate,
    triples,
    processors: extraction,
    firstStored: () => first.promise,
    async start(chosen = extraction) {
      const flow = await startFlow(chosen, {
        cluster,
        llm,
        store,
        flows: [{ ...scope, settings: { ...settings, extractors, provenance, chunkSize, chunkOverlap: 0 } }],
      })
      flows.push(flow)
      following ??= follow(flow)
      return flow
    },
    async load(text) {
      const { broker, codec, runtime } = flows.at(-1)!
      const options = {
        broker,
        codec,
        circuits: runtime.circuits,
        clock: { now: () => Date.now() },
        ids: { next: () => crypto.randomUUID() },
      }
      await loadDocument(
        textSource('mills.txt', text),
        { ...options, space: 'gm', scope, collection: 'default', source: 'test' },
        ending.signal,
      )
    },
    async finished() {
      const place = { space: 'gm', ...scope }
      const lines = extraction.flatMap(({ name, inputs }) =>
        inputs.map((port) => [inputGroup(port, place, name), inputTopic(port, place, name)] as const),
      )
      for (;;) {
        const documents = aggregate.documents()
        const ended =
          documents.length > 0 && documents.every(({ state }) => state !== 'queued' && state !== 'running')
        const lags = ended
          ? await Promise.all(lines.map(async ([group, topic]) => (await broker.lag(group, topic)).total))
          : [1]
        if (lags.every((lag) => lag === 0)) return documents
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    },
    async stop() {
      ending.abort()
      await following?.catch(() => undefined)
      for (const flow of flows) await flow.stop()
      await broker.close()
    },
  }
}
