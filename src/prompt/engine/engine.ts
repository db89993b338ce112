// The prompt engine: a request goes to the model, and its reply comes back in parts while the model is still writing. A run
// that the cache has whole is replayed without asking the model.
import type { Llm } from '../../llm/llm.ts'
import {
  afterRefusal,
  ignored,
  type Lesson,
  refusalsOf,
  waysFrom,
} from '../../llm/structured-output/schema-refusal.ts'
import type { GroundingRequest } from '../../messages/generated.ts'
import type { Prompt } from '../catalogue/prompt.ts'
import type { Terms } from '../catalogue/terms.ts'
import { Calls, type CallsOptions, type Spent } from './calls.ts'
import { createJudge } from './examples.ts'
import { chooseForm, type ItemsForm, type ItemsForms } from './items-form.ts'
import { readJson } from './json-reply.ts'
import { readItems } from './jsonl-reply.ts'
import { defaultLimits, type ReplyEvent, type ReplyStream, type RunLimits } from './reply.ts'
import { cutParts, partsOf, type ReplyPart } from './reply-parts.ts'
import { cacheKeyRequest, firstRequest } from './request.ts'
import { openRecord, type Run, type RunCache, type RunRecord } from './run-record.ts'
import { unsplit } from './split.ts'
import { readText } from './text-reply.ts'

export interface AskOptions {
  readonly prompt: Prompt
  readonly terms: Terms
  readonly llm: Llm
  /** Parts while the model writes, or one with everything (split only when it would be too large for a message). */
  readonly streaming: boolean
  /** Makes the run of an attempt that is not the replay of a whole one. */
  readonly newRun: () => Run
  readonly limits?: Partial<RunLimits> | undefined
  /** How the items of a jsonl prompt are looked for in the term `text`. Default: they are not. */
  readonly grounding?: GroundingRequest | null
  /** Default: nothing is remembered. */
  readonly cache?: RunCache | undefined
  /** Receives what the operator may want to know about how the model is asked. */
  readonly onNote?: ((note: string) => void) | undefined
  /** Receives a run that failed after it had asked the model. */
  readonly onLost?: ((lost: LostRun) => void) | undefined
  /** The `traceparent` of the request: the spans of the model calls are its children. Default: the active span. */
  readonly traceparent?: string | undefined
  readonly signal: AbortSignal
}

/** A run that failed, and what it has spent; never nothing. */
export interface LostRun {
  readonly run: Run
  readonly model: string
  readonly spent: readonly Spent[]
}

/** A reply part and the run that it belongs to. */
export interface RunPart extends ReplyPart {
  readonly run: Run
}

/**
 * The parts of one run. The next part is made when the reader asks for it, so a slow reader gets larger ones.
 * Throws what the model throws, `reply_not_json` and `reply_schema_failed` for json prompts, `item_too_long`,
 * `reasoning_too_long`, and `context_overflow` when splitting the text did not help.
 */
export async function* ask(options: AskOptions): AsyncGenerator<RunPart, void> {
  const { cache, prompt, llm, terms, signal } = options
  const forms = await chooseForm(prompt, llm, signal)
  if (forms.note) options.onNote?.(forms.note)
  if (!cache) return yield* askModel(options, forms, undefined)
  const request = cacheKeyRequest(prompt, terms, llm, forms.ways[0].mode)
  const record = await openRecord({ ...cache, prompt, llm, request, signal })
  try {
    const parts = record.isOver ? await replay(options, forms, record) : undefined
    // Equal requests need not wait until a replay is read.
    if (parts) await record.leave()
    yield* parts ?? askModel(options, forms, record)
  } finally {
    await record.leave()
  }
}

/** A run that asks the model. It continues from the calls that an interrupted run left in the cache. */
async function* askModel(
  options: AskOptions,
  forms: ItemsForms,
  record: RunRecord | undefined,
): AsyncGenerator<RunPart, void> {
  const { prompt, streaming } = options
  const run = options.newRun()
  const calls = newCalls(options, record, record && { remember: (made) => record.remember(run, made) })
  const cuts: number[] = []
  try {
    for await (const { part, weight } of partsOf(readReply(options, forms, calls), {
      kind: prompt.responseType,
      streaming,
    })) {
      cuts.push(weight)
      if (part.end && calls.whole) await record?.complete(run, calls.whole, { cuts, streaming })
      yield { run, ...part }
    }
  } catch (thrown) {
    const spent = calls.spent().filter(({ reason }) => reason !== 'cached')
    if (spent.length > 0) options.onLost?.({ run, model: calls.model, spent })
    throw thrown
  }
}

/** The parts of the run that was remembered; undefined when it would go on differently now. */
async function replay(
  options: AskOptions,
  forms: ItemsForms,
  record: RunRecord,
): Promise<RunPart[] | undefined> {
  const { run, cut } = record.found!
  const events: ReplyEvent[] = []
  try {
    for await (const more of readReply(options, forms, newCalls(options, record, { replayOnly: true })))
      events.push(...more)
  } catch {
    options.signal.throwIfAborted()
    return undefined
  }
  const { streaming, prompt } = options
  const cuts = cut?.streaming === streaming ? cut.cuts : undefined
  return [...cutParts(events, { kind: prompt.responseType, cuts })].map((part) => ({ run, ...part }))
}

function newCalls(
  { llm, limits, signal, traceparent }: AskOptions,
  record: RunRecord | undefined,
  more: Partial<CallsOptions> | undefined,
): Calls {
  const { maxCalls = defaultLimits.maxCalls } = limits ?? {}
  const { found } = record ?? {}
  const recorded = found && { recorded: found.calls, aid: found.aid }
  return new Calls({ llm, signal, maxCalls, traceparent, ...recorded, ...more })
}

function readReply(options: AskOptions, { ways }: ItemsForms, calls: Calls): ReplyStream {
  const { jsonSchema } = options.prompt
  if (ways.length === 1 || !jsonSchema) return readInForm(options, ways[0].mode, calls)
  return readInFirstForm(options, ways, { calls, schema: jsonSchema })
}

/** The reply in the first form that the server neither refuses nor ignores. */
async function* readInFirstForm(
  options: AskOptions,
  ways: ItemsForms['ways'],
  { calls, schema }: { readonly calls: Calls; readonly schema: NonNullable<Prompt['jsonSchema']> },
): ReplyStream {
  const { prompt, llm, onNote } = options
  const refusals = refusalsOf(llm)
  let left = calls.aid ? waysFrom(ways, calls.aid) : refusals.left(ways, schema)
  let lesson: Lesson | undefined
  calls.startWith(left[0]!.aid)
  for (;;) {
    const { aid, mode: form } = left[0]!
    const inPrompt = left.slice(1).filter((way) => way.aid === 'prompt')
    let hasEvents = false
    try {
      let isIgnored = false
      for await (const events of readInForm(options, form, calls)) {
        isIgnored = !hasEvents && calls.left > 0 && inPrompt.length > 0 && isProse(events)
        if (isIgnored) break
        if (lesson && (!lesson.isIgnored || !isProse(events))) {
          const note = refusals.learn(lesson, aid, schema)
          if (note) onNote?.(`${prompt.id}: ${note}`)
        }
        hasEvents = true
        yield events
      }
      if (!isIgnored) return
      ;[lesson, left] = [ignored, inPrompt]
    } catch (thrown) {
      const next = afterRefusal(thrown, left)
      // Items that were handed on cannot be taken back.
      if (hasEvents || !next) throw thrown
      ;({ lesson, ways: left } = next)
      calls.startWith(left[0]!.aid)
    }
  }
}

/** Whether a whole reply is neither items nor an honest end without them: a model that is held to a schema cannot write it. */
function isProse([first]: readonly ReplyEvent[]): boolean {
  if (first?.type !== 'end') return false
  const { finishReason, incomplete, truncated } = first.end
  return finishReason === 'stop' && incomplete === 'no_items' && !truncated
}

function readInForm(options: AskOptions, form: ItemsForm, calls: Calls): ReplyStream {
  const { prompt, terms, llm, grounding, signal } = options
  const limits = { ...defaultLimits, ...options.limits }
  const request = (about: Terms) => firstRequest(prompt, about, llm, form)
  const judge = prompt.responseType === 'jsonl' ? createJudge(prompt, terms, grounding) : undefined
  const note = (text: string) => options.onNote?.(`${prompt.id}: ${text}`)
  const context = { prompt, terms, form, request, calls, judge, limits, note, signal }
  switch (prompt.responseType) {
    case 'jsonl':
      return readItems(context)
    case 'json':
      return unsplit(readJson(context), prompt)
    case 'text':
      return unsplit(readText(context), prompt)
    default:
      return prompt.responseType satisfies never
  }
}
