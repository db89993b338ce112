// One execution of the whole flow over a document of 200 chunks on some broker: runtimes in this process and graphmill
// processes of their own, in topics of its own, with a model that answers every chunk by its hash.
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { v7 } from 'uuid'
import { processors as all } from '../../processors/index.ts'
import type { Broker } from '../../src/broker/broker.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { systemClock as clock, uuids as ids } from '../../src/flow/clock.ts'
import { loadDocument } from '../../src/flow/load-document.ts'
import {
  type InputPort,
  inputGroup,
  inputTopic,
  type OutputPort,
  outputRoute,
  type PayloadOf,
  payloadOf,
} from '../../src/flow/ports.ts'
import type { AnyProcessor } from '../../src/flow/processor.ts'
import { type FlowRuntime, run } from '../../src/flow/run.ts'
import { createCircuits } from '../../src/flow/runner/circuits.ts'
import { untilAvailable } from '../../src/flow/runner/retry.ts'
import { createSchemasTopic } from '../../src/flow/schemas-topic.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import { createCodec } from '../../src/messages/codec.ts'
import type { Header, Message, TypedPayload } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { createMetrics, type FlowMetrics } from '../../src/observe/metrics.ts'
import type { DocumentStatus } from '../../src/progress/document-status.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import { openFolderStore } from '../../src/rdf/folder-store.ts'
import { bookOf, chunkSize, readGraph } from '../support/graph.ts'
import { type GraphmillProcess, startGraphmill } from '../support/processes.ts'

export const chunks = 200
export const units = 3 * chunks
/** The units of the flow. */
export const extractors = ['extract-definitions', 'extract-relationships', 'extract-topics']
const settings = { extractors, chunkSize, chunkOverlap: 100 }
const scope = { workspace: 'default', flow: 'default' }
/** How often the state of the broker is polled. */
const lookMs = 200

export interface Site {
  /** For `graphmill run`. */
  readonly brokerUrl: string
  /** A broker object of its own for each mill: closing one harms no other. */
  readonly connect: () => Promise<Broker>
}

export interface Work {
  taken: number
  /** Those that were taken from a handler, because their partition went to another member. */
  lost: number
}

export interface FlowRuntimeOptions {
  /** Default: all. */
  readonly only?: readonly string[]
  /** Default: all but these. */
  readonly without?: readonly string[]
  /** Processors that take the place of those with their names. */
  readonly instead?: readonly AnyProcessor[]
  /** Default: none. */
  readonly provenance?: 'subgraph'
}

export interface RunningRuntime {
  readonly runtime: FlowRuntime
  readonly metrics: FlowMetrics
  /** What its handlers have had in flight, by processor. */
  readonly work: ReadonlyMap<string, Work>
  /** As SIGTERM does it: finishes what is in flight for at most `graceMs` (default 60 s), and leaves. */
  stop(graceMs?: number): Promise<void>
}

export interface Execution {
  readonly space: string
  /** The test's own client. */
  readonly broker: Broker
  startRuntime(options?: FlowRuntimeOptions): Promise<RunningRuntime>
  /** Resolves when it is running. */
  startProcess(
    names: readonly string[],
    flags?: readonly string[],
    program?: string,
  ): Promise<GraphmillProcess>
  /** Loads a document of so many chunks, default 200; those of other numbers are about other things. */
  load(paragraphs?: number, number?: number): Promise<void>
  /** Publishes a message as a client would, about no document unless its header says so; resolves to its id. */
  send<P extends OutputPort & InputPort>(
    port: P,
    payload: PayloadOf<P>,
    header?: Partial<Header>,
  ): Promise<string>
  /** Resolves when `condition` holds for the document, by its progress. */
  until(condition: (status: DocumentStatus) => boolean): Promise<DocumentStatus>
  /** Resolves when no group has anything left to read, from the document to the triples, with these extractors (default all three). */
  settled(extractors?: readonly string[]): Promise<void>
  /** How many messages there are for a processor, and how many of them its groups have settled, at most. */
  inputOf(processor: string): Promise<{ readonly published: number; readonly settled: number }>
  /** The same; resolves to the document's status. */
  finished(): Promise<DocumentStatus>
  /** The id of the document that was loaded last. */
  documentId(): string
  /** The triples of the default graph so far. */
  graph(): Promise<Set<string>>
  /** Everything that is stored, as N-Quads. */
  quads(): Promise<string>
  /** All messages that a topic holds now. */
  messages(topic: string): Promise<Message[]>
  topic(port: InputPort, processor?: string): string
  close(): Promise<void>
}

export interface ExecutionOptions {
  readonly space: string
  readonly llmUrl: string
}

/** The document that is loaded. */
export function valley(paragraphs = chunks, number = 0) {
  const text = bookOf(paragraphs, number)
  return {
    title: 'The valley',
    uri: 'urn:test:valley',
    mediaType: 'text/plain',
    async *text() {
      yield text
    },
  }
}

export async function openExecution(
  { brokerUrl, connect }: Site,
  { space, llmUrl }: ExecutionOptions,
): Promise<Execution> {
  const folder = await mkdtemp(join(tmpdir(), `graphmill-${space}-`))
  const out = join(folder, 'triples')
  const broker = await connect()
  const codec = createCodec(loadSchemas())
  const aggregate = createProgressAggregate()
  const over = new AbortController()
  await createSchemasTopic(broker, codec, space).announce(over.signal)
  const looks = new Set<() => void>()
  const runtimes = new Set<RunningRuntime>()
  const processes = new Set<GraphmillProcess>()
  const topic = (port: InputPort, processor = '') => inputTopic(port, { space, ...scope }, processor)
  const log = pino({ level: process.env['FAULTS_LOG'] ?? 'silent' })
  const llm = createOpenAi({ baseUrl: llmUrl, apiKey: 'none', model: 'test-model' })
  let documentId = ''
  let following: Promise<void> | undefined

  async function follow(): Promise<void> {
    const range = { topic: topic('progress'), from: 'earliest', until: 'never' } as const
    for await (const entry of broker.read(range, over.signal)) {
      aggregate.add(codec.decode(entry.value, entry.headers) as Message<'Progress'>)
      for (const look of looks) look()
    }
  }

  const execution: Execution = {
    space,
    broker,
    topic,
    async startRuntime({ only, without = [], instead = [], provenance } = {}) {
      const processors = all
        .filter(({ name }) => (only ? only.includes(name) : !without.includes(name)))
        .filter(({ name }) => !name.startsWith('extract-') || extractors.includes(name))
        .map((one) => instead.find(({ name }) => name === one.name) ?? one)
      const own = await connect()
      const store = openFolderStore(out, { format: 'nquads' })
      const metrics = createMetrics()
      const work = new Map(processors.map(({ name }) => [name, { taken: 0, lost: 0 }]))
      const flows = [{ ...scope, settings: { ...settings, ...(provenance && { provenance }) } }]
      const watched = processors.map((processor) => watch(processor, work.get(processor.name)!))
      const runtime = await run(
        { broker: own, processors: watched, flows, llm, log, store, space, metrics },
        new AbortController().signal,
      )
      const running: RunningRuntime = {
        runtime,
        metrics,
        work,
        async stop(graceMs = 60_000) {
          if (!runtimes.delete(running)) return
          await runtime.stop(graceMs)
          await runtime.done
          await own.close()
          await store.close()
        },
      }
      runtimes.add(running)
      return running
    },
    async startProcess(names, more = [], program) {
      // Every call is to reach the model, whatever other executions have heard of it.
      const place = ['--no-cache', '--broker', brokerUrl, '--space', space, '--out', out, '--http', 'off']
      const model = ['--llm', 'openai', '--model', 'test-model', '--chunk-size', `${chunkSize}`]
      const server = { OPENAI_BASE_URL: llmUrl, OPENAI_API_KEY: 'none' }
      const started = startGraphmill(['run', ...names, ...place, ...model, ...more], server, program)
      processes.add(started)
      await started.says('"running"')
      return started
    },
    async load(paragraphs = chunks, number = 0) {
      const source = valley(paragraphs, number)
      const circuits = createCircuits()
      const place = {
        broker,
        codec,
        circuits,
        clock,
        ids,
        space,
        scope,
        collection: 'default',
        source: 'test',
      }
      documentId = (await loadDocument(source, place, over.signal)).documentId
      following ??= follow()
      following.catch(() => {})
    },
    async send(port, payload, own = {}) {
      const id = v7()
      const header = { ...blank, ...scope, source: 'test', time: Date.now(), correlationId: id, ...own }
      const typed = { type: payloadOf[port], payload } as TypedPayload
      const { key } = outputRoute(port, { space, ...scope })
      const sealing = { topic: topic(port), key: key === 'id' ? id : header[key] || id }
      await broker.publish(codec.encode(header, typed, { ...sealing, salt: '', id: () => id }))
      return id
    },
    until(condition) {
      return new Promise((resolve, reject) => {
        const look = () => {
          const status = aggregate.status(documentId)
          if (!status || !condition(status)) return
          looks.delete(look)
          resolve(status)
        }
        looks.add(look)
        look()
        following?.catch(reject)
      })
    },
    async settled(serving) {
      const names = (await broker.listTopics(`${space}.`)).map(({ name }) => name)
      for (const { port, processor } of inputLines(serving)) {
        const group = inputGroup(port, { space, ...scope }, processor)
        const name = topic(port, processor)
        // A loop that is kept busy on purpose makes our own questions time out, too.
        const lag = () =>
          untilAvailable(() => broker.lag(group, name), { signal: over.signal, onFailure() {} })
        while (names.includes(name) && (await lag()).total > 0) await delay(lookMs)
      }
    },
    async inputOf(processor) {
      const lines = inputLines().filter((line) => line.processor === processor)
      const lagOf = async (groupOf: (port: InputPort) => string) => {
        const lags = lines.map(({ port }) => broker.lag(groupOf(port), topic(port, processor)))
        return (await Promise.all(lags)).reduce((sum, { total }) => sum + total, 0)
      }
      // A group that never was has everything before it. What comes in between the two questions counts as settled.
      const left = await lagOf((port) => inputGroup(port, { space, ...scope }, processor))
      const published = await lagOf(() => `${space}.nobody`)
      return { published, settled: published - left }
    },
    async finished() {
      await execution.settled()
      // What was said on progress before now, and perhaps not heard yet.
      const said = createProgressAggregate()
      for (const message of await execution.messages(topic('progress')))
        said.add(message as Message<'Progress'>)
      return said.status(documentId)!
    },
    documentId: () => documentId,
    graph: () => readGraph(out),
    async quads() {
      const names = (await readdir(out)).filter((name) => name.endsWith('.nq'))
      return (await Promise.all(names.map((name) => readFile(join(out, name), 'utf8')))).join('')
    },
    async messages(name) {
      const found: Message[] = []
      for await (const entry of broker.read({ topic: name, from: 'earliest', until: 'end' }, over.signal))
        found.push(codec.decode(entry.value, entry.headers))
      return found
    },
    async close() {
      over.abort()
      await Promise.all([...processes].map((each) => each.end('SIGKILL')))
      await Promise.all([...runtimes].map((each) => each.stop(0)))
      await following?.catch(() => {})
      await broker.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
  return execution
}

/** The processor, with its work counted. */
function watch(processor: AnyProcessor, work: Work): AnyProcessor {
  return {
    ...processor,
    async *handle(message, context) {
      work.taken++
      const lose = () => work.lost++
      context.signal.addEventListener('abort', lose)
      try {
        return yield* processor.handle(message, context)
      } finally {
        context.signal.removeEventListener('abort', lose)
      }
    },
  }
}

/** What the envelope of a message says that is about nothing. */
const blank = {
  collection: 'default',
  documentId: '',
  chunkId: '',
  causationId: '',
  replyTo: null,
  deadline: null,
  traceparent: null,
}

/** Every input of every processor, in the order in which the work passes. */
export function inputLines(
  serving: readonly string[] = extractors,
): { port: InputPort; processor: string }[] {
  return [
    { port: 'document', processor: 'chunk-text' },
    ...serving.map((processor) => ({ port: 'chunk' as const, processor })),
    { port: 'prompt', processor: 'prompt' },
    ...serving.map((processor) => ({ port: 'prompt-reply' as const, processor })),
    ...(['definitions', 'relationships', 'topics'] as const).map((port) => ({
      port,
      processor: 'emit-triples',
    })),
    { port: 'triples', processor: 'store-triples' },
  ]
}

/** What an execution gives that nothing disturbs. */
export interface Outcome {
  readonly graph: ReadonlySet<string>
  readonly facts: Readonly<Record<string, number>>
}

/** The execution that nothing disturbs, on the memory broker. */
export async function undisturbed(llmUrl: string): Promise<Outcome> {
  const cluster = createMemoryCluster()
  const site = { brokerUrl: 'memory://', connect: async () => cluster.connect() }
  const execution = await openExecution(site, { space: 'undisturbed', llmUrl })
  try {
    await execution.startRuntime()
    await execution.load()
    await execution.until(({ state }) => state === 'done')
    const { totals } = await execution.finished()
    return { graph: await execution.graph(), facts: { ...totals.facts } }
  } finally {
    await execution.close()
  }
}
