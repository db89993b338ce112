// The prompt engine: a request goes to the model, and what the model writes comes back in parts while it is still writing.
// What was remembered of an equal run is not asked for again.
import type { ReplyCache } from '../../llm/cache/reply-cache.ts'
import type { CompletionRequest, Llm } from '../../llm/llm.ts'
import { isOutputRefusal } from '../../llm/structured-output/schema-refusal.ts'
import type { Prompt } from '../catalogue/catalogue.ts'
import type { Terms } from '../catalogue/terms.ts'
import { type Calls, type CallsOptions, createCalls } from './calls.ts'
import { type ChosenForm, chooseForm, type ItemsForm } from './items-form.ts'
import { hearJson } from './json-reply.ts'
import { hearJsonl } from './jsonl-reply.ts'
import { cutParts, type Part, partsOf } from './parts.ts'
import {
  defaultLimits,
  type ReplyEvent,
  type ReplyStream,
  type RunContext,
  type RunLimits,
  type Spent,
} from './reply.ts'
import { openRecord, type Run, type RunRecord } from './run-record.ts'
import { unsplit } from './split.ts'
import { hearText } from './text-reply.ts'

export type { Part } from './parts.ts'
export type { ReplyEnd, RunLimits, Spent } from './reply.ts'

export interface AskOptions {
  readonly prompt: Prompt
  readonly terms: Terms
  readonly llm: Llm
  /** Parts while the model writes, or one with all (split only where it would be too large for a message). */
  readonly streaming: boolean
  /** A new run, for an attempt that is not the replay of a whole one. */
  readonly newRun: () => Run
  readonly limits?: Partial<RunLimits> | undefined
  /** Where replies are remembered, and whose they are. Default: nowhere. */
  readonly cache?: { readonly replies: ReplyCache; readonly workspace: string } | undefined
  /** Told what the operator may want to know of how the model is asked. Default: nobody is. */
  readonly onNote?: ((note: string) => void) | undefined
  /** Told of a run that fails, when it has asked the model. Default: nobody is. */
  readonly onLost?: ((lost: LostRun) => void) | undefined
  readonly signal: AbortSignal
}

/** A run that failed, and what it has spent; never nothing. */
export interface LostRun {
  readonly run: Run
  readonly model: string
  readonly spent: readonly Spent[]
}

/** A part and the run that it belongs to. */
export interface RunPart extends Part {
  readonly run: Run
}

/**
 * The parts of one run. The next part is only asked for when the one before is on its way, so a slow reader gets larger ones.
 * Throws what the model throws, `reply_not_json` and `reply_schema_failed` for json prompts, `item_too_long`,
 * `reasoning_too_long`, and `context_overflow` where splitting the text did not help.
 */
export async function* ask(options: AskOptions): AsyncGenerator<RunPart, void> {
  const { cache, prompt, llm, terms, signal } = options
  const chosen = await chooseForm(prompt, llm, signal)
  if (chosen.note) options.onNote?.(chosen.note)
  if (!cache) {
    yield* live(chosen, options, undefined)
    return
  }
  const request = cacheKeyRequest(prompt, terms, llm, chosen.form)
  const { replies, workspace } = cache
  const record = await openRecord({ cache: replies, workspace, prompt, llm, request, signal })
  try {
    const parts = record.isOver ? await replayed(chosen, options, record) : undefined
    if (parts) {
      await record.leave()
      yield* parts
    } else yield* live(chosen, options, record)
  } finally {
    await record.leave()
  }
}

/** A run that asks the model, from where an interrupted one was remembered to have come. */
async function* live(
  chosen: ChosenForm,
  options: AskOptions,
  record: RunRecord | undefined,
): AsyncGenerator<RunPart, void> {
  const { prompt, streaming } = options
  const run = options.newRun()
  const calls = callsOf(
    options,
    record && {
      ...recordedIn(record),
      remember: (made) => record.remember(run, made),
    },
  )
  const cuts: number[] = []
  const parts = partsOf(hear(chosen, options, calls), { kind: prompt.responseType, streaming })
  try {
    for await (const { part, weight } of parts) {
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

/** The parts of the run that was remembered, or undefined where it would go on differently now. */
async function replayed(
  chosen: ChosenForm,
  options: AskOptions,
  record: RunRecord,
): Promise<Iterable<RunPart> | undefined> {
  const { run, cut } = record.found!
  const calls = callsOf(options, { ...recordedIn(record), replayOnly: true })
  const heard: ReplyEvent[] = []
  try {
    for await (const pieces of hear(chosen, options, calls)) heard.push(...pieces)
  } catch {
    options.signal.throwIfAborted()
    return undefined
  }
  const { streaming, prompt } = options
  const cuts = cut?.streaming === streaming ? cut.cuts : undefined
  const parts = cutParts(heard, { kind: prompt.responseType, cuts })
  return parts.map((part) => ({ run, ...part }))
}

function recordedIn({ found }: RunRecord): Partial<CallsOptions> {
  return found ? { recorded: found.calls, unaided: found.unaided ?? false } : {}
}

/** The prompts that servers refused to constrain, by the server's circuit. */
const refusals = new Set<string>()

/** All that is heard, in the form that was chosen, or where the server does not take that, in the other. */
function hear({ form, otherwise }: ChosenForm, options: AskOptions, calls: Calls): ReplyStream {
  return otherwise ? hearEither(form, otherwise) : hearIn(form, options, calls)

  async function* hearEither(form: ItemsForm, otherwise: ItemsForm): ReplyStream {
    const { prompt, llm } = options
    const place = `${llm.circuit}\n${prompt.id}`
    calls.unaided ??= refusals.has(place)
    if (!calls.unaided) {
      let left = false
      try {
        for await (const heard of hearIn(form, options, calls)) {
          left = true
          yield heard
        }
        return
      } catch (thrown) {
        // What has left cannot be called back.
        if (left || !isOutputRefusal(thrown)) throw thrown
        options.onNote?.(`The server does not take the schema of ${prompt.id}. Its model is asked for lines.`)
        calls.startOver()
      }
    }
    yield* hearIn(otherwise, options, calls)
    refusals.add(place)
  }
}

function callsOf({ llm, limits, signal }: AskOptions, more: Partial<CallsOptions> | undefined): Calls {
  const { maxCalls = defaultLimits.maxCalls } = limits ?? {}
  return createCalls({ llm, signal, maxCalls, ...more })
}

function hearIn(form: ItemsForm, options: AskOptions, calls: Calls): ReplyStream {
  const { prompt, terms, llm, limits, signal } = options
  const request = (about: Terms) => form.constrain(requestOf(prompt, about, llm))
  const asking: RunContext = {
    prompt,
    terms,
    form,
    request,
    calls,
    limits: { ...defaultLimits, ...limits },
    signal,
  }
  switch (prompt.responseType) {
    case 'text':
      return whole(hearText(asking), prompt)
    case 'json':
      return whole(hearJson(asking), prompt)
    case 'jsonl':
      return hearJsonl(asking)
    default:
      return prompt.responseType satisfies never
  }
}

/** A reply that must come of one text. */
async function* whole(heard: ReplyStream, prompt: Prompt): ReplyStream {
  try {
    yield* heard
  } catch (thrown) {
    throw unsplit(thrown, prompt)
  }
}

/**
 * What a run is found by: its first request as it is wished for, also where the server refused that and was asked otherwise.
 * Throws `prompt_render_failed`.
 */
export function cacheKeyRequest(prompt: Prompt, terms: Terms, llm: Llm, form: ItemsForm): CompletionRequest {
  const request = form.constrain(requestOf(prompt, terms, llm))
  if (prompt.responseType !== 'json') return request
  // On the wire the mode says the schema in its own way.
  const { outputMode = llm.outputMode, jsonSchema } = prompt
  return { ...request, extras: { ...request.extras, outputMode, jsonSchema } }
}

/** The first request of a run. Throws `prompt_render_failed`. */
function requestOf(prompt: Prompt, terms: Terms, llm: Llm): CompletionRequest {
  const { system, user } = prompt.render(terms)
  return {
    messages: [
      ...(system === '' ? [] : [{ role: 'system', content: system } as const]),
      { role: 'user', content: user },
    ],
    sampling: { ...llm.sampling, ...prompt.sampling },
    origin: { promptId: prompt.id, terms, schema: prompt.jsonSchema },
  }
}
