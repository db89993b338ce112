// `extract`: documents in, facts and triples out, in this process. It is the whole flow on the memory broker; what the flow publishes is
// read by a processor at its end, which waits for the reader of the events: a slow reader slows the flow and the calls of the model.
import type { Logger } from 'pino'
import { chunkText } from '../../processors/chunk-text.ts'
import { optionTable } from '../config/options.ts'
import type { FindOptions } from '../documents/read.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { loadDocument } from '../flow/load-document.ts'
import {
  type AnyProcessor,
  checkOverlap,
  type FlowSettings,
  isExtractor,
  type Scope,
} from '../flow/processor.ts'
import type { FlowRuntimeOptions } from '../flow/run.ts'
import { createCircuits } from '../flow/runner/circuits.ts'
import { withinCost } from '../llm/limits/budget.ts'
import type { Price } from '../llm/limits/prices.ts'
import { createRateLimiter } from '../llm/limits/rate-limiter.ts'
import type { Llm } from '../llm/llm.ts'
import type { Message } from '../messages/envelope.ts'
import { createLogger } from '../observe/log.ts'
import type { TripleStore } from '../rdf/store.ts'
import type { SubprocessLimits } from '../subprocess/subprocess.ts'
import { createEventQueue } from './event-queue.ts'
import { createEventReader, type ExtractionEvent } from './events.ts'
import { extractorNames, findProcessors } from './find-processors.ts'
import { type ChunkLimit, limitChunks } from './limit.ts'
import { type LocalFlow, openLocalFlow } from './local-flow.ts'
import { documentsOf, eachSource, nameOf, type Source, type Sources } from './sources.ts'
import type { ExtractionProgress, ExtractionSummary } from './summary.ts'
import { createTracker } from './tracker.ts'

/** How an extraction is done: with which model, extractors and limits. */
export interface ExtractOptions
  extends Omit<Partial<FlowSettings>, 'extractors' | 'replace'>,
    Pick<FlowRuntimeOptions, 'rateLimiter' | 'prompts' | 'limits' | 'replies'>,
    Partial<Scope> {
  /** The model, from `createOpenAi`, `createOllama`, `createAnthropic`, `createGemini`, or `createOffline` for the rules without one. */
  readonly llm: Llm
  /** Ends the extraction: the iteration throws the signal's reason, and calls of the model are cancelled. */
  readonly signal?: AbortSignal | undefined
  /**
   * The built-in extractors by name, such as `definitions` or `agent-kg`, and extractors of yours. Default: definitions, relationships and
   * topics, and those for `rowSchemas` and `ontologies` when these are given.
   */
  readonly extractors?: readonly (string | AnyProcessor)[]
  /** Further processors, or some that replace the built-in ones of the same name. */
  readonly processors?: readonly AnyProcessor[]
  /** Where triples are stored while the extraction runs. It stays open. Default: nowhere. */
  readonly store?: TripleStore
  /** Prices by model, per million tokens in any currency, for `cost` and `maxCost`. Default: no cost is known. */
  readonly prices?: Readonly<Record<string, Price>>
  /** The most that all calls may cost. Further ones are refused, and their chunks are partial or given up. Default: no limit. */
  readonly maxCost?: number
  /** The most chunks that are extracted, over all documents. Default: all. */
  readonly limit?: number | undefined
  /** The types of events to yield. Others cost less when they are left out. `end` is always yielded. Default: all. */
  readonly events?: readonly ExtractionEvent['type'][]
  /** When a source or document failed, or a chunk was given up: `throw` an `ExtractionIncomplete` at the end, or only `report` it. Default `throw`. */
  readonly failures?: 'throw' | 'report'
  /** The collection of the documents, for their messages. Default `default`. */
  readonly collection?: string
  /** Whether links in a folder that lead out of it are followed. Default false. */
  readonly followLinks?: boolean
  /** Limits of the process that reads a PDF or HTML file. Default: a minute and 1 GiB. */
  readonly documentLimits?: SubprocessLimits
  /** Default: nothing is logged; the events say it all. */
  readonly log?: Logger
}

/**
 * An extraction. It begins with the first event that is asked for, or with `finish`, and is read once. Leaving the loop ends it.
 */
export interface Extraction extends AsyncIterable<ExtractionEvent, void> {
  /** How far it is now. */
  progress(): ExtractionProgress
  /** What it has done up to now: its `outcome` is `stopped` until the last event. */
  summary(): ExtractionSummary
  /** Runs it to the end without events. Resolves to the summary; throws as the iteration does. */
  finish(): Promise<ExtractionSummary>
}

/** Thrown at the end of an extraction of which something failed: a source, a document, or the work of an extractor on a chunk. */
export class ExtractionIncomplete extends GraphmillError {
  readonly summary: ExtractionSummary

  constructor(summary: ExtractionSummary) {
    const { failed, documents, units } = summary
    const bad = documents.filter(({ state }) => state === 'failed')
    const [first] = [...failed.map(({ message }) => message), ...bad.map(({ error }) => error?.message)]
    const reasons = Object.keys(summary.incomplete).join(', ')
    const counts = `${failed.length + bad.length} documents failed, ${units.dead} units were given up`
    super('extraction_incomplete', `${counts}: ${first ?? reasons}`)
    this.name = 'ExtractionIncomplete'
    this.summary = summary
  }
}

/**
 * Extracts facts and triples from files, texts or streams, in this process. Iterate over the events, or `finish()` it. When something
 * fails it is an event, stands in the summary, and is thrown at the end as `ExtractionIncomplete`; a wrong key, an unknown model and the
 * like are thrown at once. Replies that were cut off, refused or empty make the summary's `outcome` `partial`.
 * @example
 * for await (const event of extract('notes.md', { llm: createOllama({ host: '127.0.0.1:11434', model: 'llama3.2' }) })) {
 *   if (event.type === 'fact') console.log(event.kind, event.fact)
 *   if (event.type === 'end') console.log(event.summary.outcome)
 * }
 */
export function extract(sources: Sources, options: ExtractOptions): Extraction {
  return openExtraction(sources, options)
}

/** Unread events from which the flow waits. */
const mostUnread = 256
/** How often progress is reported, in milliseconds. */
const tickMs = 200

/** The same, with what the display of the command line needs. */
export function openExtraction(sources: Sources, options: ExtractOptions) {
  const { failures = 'throw', signal: given } = options
  const parts = createParts(options)
  const { tracker, queue } = parts
  let begun = false

  async function* events(wants: (type: ExtractionEvent['type']) => boolean) {
    if (begun) throw new GraphmillError('usage', 'An extraction can be read only once.')
    begun = true
    const left = new AbortController()
    const signal = given ? AbortSignal.any([given, left.signal]) : left.signal
    const running = work(sources, { options, parts, wants }, signal).finally(queue.end)
    running.catch(() => undefined)
    try {
      for (let event = await queue.next(); event; event = await queue.next()) {
        if (signal.aborted) break
        if (event.type === 'progress') parts.hasUnreadProgress = false
        yield event
      }
      await running
      const summary = tracker.summary()
      yield { type: 'end', summary } as const
      if (summary.outcome === 'failed' && failures === 'throw') throw new ExtractionIncomplete(summary)
    } finally {
      left.abort(new GraphmillError('aborted', 'The extraction was left.'))
      await running.catch(() => undefined)
    }
  }

  return {
    tracker,
    circuits: parts.circuits,
    progress: tracker.progress,
    summary: tracker.summary,
    [Symbol.asyncIterator]: () => events((type) => options.events?.includes(type) ?? true),
    async finish(): Promise<ExtractionSummary> {
      for await (const _ of events(() => false));
      return tracker.summary()
    },
  }
}

type Parts = ReturnType<typeof createParts>

function createParts(options: ExtractOptions) {
  const { llm, rateLimiter = createRateLimiter() } = options
  const circuits = createCircuits()
  const prices = new Map(Object.entries(options.prices ?? {}))
  return {
    circuits,
    prices,
    rateLimiter,
    tracker: createTracker({ llm, prices, circuits, rateLimiter }),
    queue: createEventQueue<ExtractionEvent>(mostUnread),
    hasUnreadProgress: false,
  }
}

interface Work {
  readonly options: ExtractOptions
  readonly parts: Parts
  readonly wants: (type: ExtractionEvent['type']) => boolean
}

/** Resolves when every document has ended, and throws what ends the extraction before that. */
async function work(sources: Sources, { options, parts, wants }: Work, given: AbortSignal): Promise<void> {
  const { tracker, queue, circuits, rateLimiter } = parts
  const fault = new AbortController()
  const signal = AbortSignal.any([given, fault.signal])
  const { store = nowhere, collection = 'default', log = createLogger('silent') } = options
  const scope = { workspace: options.workspace ?? 'default', flow: options.flow ?? 'default' }
  const flow = await flowOf(options)
  const report = createReport({ parts, wants })
  const reader = createEventReader({
    processors: flow.processors,
    wants,
    push: queue.push,
    onProgress: report.add,
  })
  signal.throwIfAborted()
  if (flow.asksModel) await options.llm.ready(signal)
  const local = await openLocalFlow(
    {
      ...options,
      ...{ log, store, circuits, rateLimiter, collection, source: 'extract' },
      llm: modelOf(options, parts),
      processors: [...flow.processors, reader],
      flows: [{ ...scope, settings: flow.settings }],
      onOperatorFault: (error) => fault.abort(error),
    },
    signal,
  )
  const ticking = setInterval(report.tick, tickMs)
  let whole = false
  try {
    await load(sources, { options, parts, wants, local, limit: flow.limit }, signal)
    await local.untilDone(tracker.hasEnded)
    // A file that holds an older result must not keep it when nothing was found.
    if (tracker.documents().some(({ state }) => state !== 'failed')) await store.write([], scope)
    whole = true
  } finally {
    clearInterval(ticking)
    await local.close()
    if (flow.limit?.cut) tracker.limit()
    tracker.end(whole)
    report.tick()
  }
}

/** Where triples go that nobody stores. */
const nowhere: TripleStore = { write: async () => undefined, close: async () => undefined }

/** The model within its cost. It is not asked while events wait for their reader. */
function modelOf({ llm, maxCost }: ExtractOptions, { queue, prices }: Parts): Llm {
  const waiting: Llm = {
    ...llm,
    async *stream(request, signal) {
      await queue.room(signal)
      yield* llm.stream(request, signal)
    },
  }
  return maxCost === undefined ? waiting : withinCost(waiting, maxCost, prices)
}

/** The processors of the flow, and its settings. Throws `usage` and `configuration_invalid`. */
async function flowOf(options: ExtractOptions) {
  const { rowSchemas = [], ontologies, provenance = 'none', ungrounded = 'keep' } = options
  const { chunkSize = optionTable['chunk-size'].default } = options
  const { chunkOverlap = optionTable['chunk-overlap'].default } = options
  checkOverlap({ chunkSize, chunkOverlap })
  const implied = [...(rowSchemas.length > 0 ? ['rows'] : []), ...(ontologies ? ['ontology'] : [])]
  const { extractors: named = [...optionTable.extractors.default, ...implied] } = options
  const ofMine = named.filter((each) => typeof each !== 'string')
  const own = [...(options.processors ?? []), ...ofMine]
  const extractors = extractorNames(
    named.map((each) => (typeof each === 'string' ? each : each.name)),
    own.map(({ name }) => name),
  )
  checkExtractors(extractors, { own, rowSchemas, ...(ontologies && { ontologies }) })
  const builtIn = ['chunk-text', 'prompt', ...extractors, 'emit-triples']
  if (options.store) builtIn.push('store-triples')
  const missing = builtIn.filter((name) => !own.some((each) => each.name === name))
  const processors = [...(await findProcessors(missing)), ...own]
  const limit = options.limit === undefined ? undefined : limitChunks(chunkText, options.limit)
  return {
    limit,
    asksModel: missing.includes('prompt'),
    processors: processors.map((each) => (limit && each.name === chunkText.name ? limit.processor : each)),
    settings: {
      ...{ extractors, chunkSize, chunkOverlap, rowSchemas, provenance, ungrounded },
      ...(ontologies && { ontologies }),
    },
  }
}

function checkExtractors(
  extractors: readonly string[],
  {
    own,
    rowSchemas,
    ontologies,
  }: Pick<ExtractOptions, 'rowSchemas' | 'ontologies'> & { readonly own: readonly AnyProcessor[] },
): void {
  const unnamed = own.find((each) => isExtractor(each) && !extractors.includes(each.name))
  if (unnamed) throw new GraphmillError('usage', `The extractor ${unnamed.name} is not among extractors.`)
  if (extractors.includes('extract-rows') && !rowSchemas?.length)
    throw new GraphmillError('configuration_invalid', 'The extractor rows needs rowSchemas.')
  if (extractors.includes('extract-ontology') && !ontologies)
    throw new GraphmillError('configuration_invalid', 'The extractor ontology needs ontologies.')
}

/** Turns entries on `progress` into events. */
function createReport({ parts, wants }: Pick<Work, 'parts' | 'wants'>) {
  const { tracker, queue } = parts
  let changed = false
  return {
    async add(message: Message<'Progress'>, signal: AbortSignal): Promise<void> {
      tracker.add(message)
      changed = true
      const death = wants('failed') ? tracker.deathOf(message) : undefined
      if (death) await queue.push(death, signal)
    },
    tick(): void {
      const isWaiting = parts.circuits.open().length > 0 || parts.rateLimiter.paused() !== undefined
      if (!changed && !isWaiting) return
      changed = false
      if (wants('document'))
        for (const document of tracker.newResults()) queue.put({ type: 'document', document })
      if (!wants('progress') || parts.hasUnreadProgress) return
      parts.hasUnreadProgress = true
      queue.put({ type: 'progress', progress: tracker.progress() })
    },
  }
}

interface Load extends Work {
  readonly local: LocalFlow
  readonly limit: ChunkLimit | undefined
}

/** Loads every document that can be read, until the limit is reached. */
async function load(sources: Sources, work: Load, signal: AbortSignal): Promise<void> {
  const { limit, parts } = work
  for await (const source of eachSource(sources)) {
    signal.throwIfAborted()
    if (limit?.reached) return parts.tracker.limit()
    await loadSource(source, work, signal)
  }
}

async function loadSource(source: Source, work: Load, signal: AbortSignal): Promise<void> {
  const { options, parts, wants, local, limit } = work
  const { tracker, queue } = parts
  const { followLinks = false, documentLimits: limits } = options
  const name = nameOf(source)
  const fail = async (name: string, thrown: unknown) => {
    signal.throwIfAborted()
    const error = toGraphmillError(thrown)
    if (!error.code.startsWith('document_')) throw error
    tracker.notLoaded(name, error)
    const at = { documentId: '', chunkId: '', unit: null }
    if (wants('failed')) await queue.push({ type: 'failed', name, ...at, error }, signal)
  }
  const found: FindOptions = {
    ...{ followLinks, ...(limits && { limits }) },
    onSkipped: (files) => wants('skipped') && queue.put({ type: 'skipped', name, files }),
  }
  try {
    for await (const document of documentsOf(source, found, signal)) {
      if (limit?.reached) return tracker.limit()
      try {
        const { documentId } = await loadDocument(
          document,
          { ...local.source, keepsIds: isGiven(source) },
          signal,
        )
        tracker.loaded(documentId, document.name)
      } catch (thrown) {
        await fail(document.name, thrown)
      }
      if (limit) await local.untilIdle([chunkText])
    }
  } catch (thrown) {
    await fail(name, thrown)
  }
}

/** Whether the program gives the id of a document; those of files are made of their paths, for versions. */
const isGiven = (source: Source) => typeof source === 'object' && !(source instanceof URL)
