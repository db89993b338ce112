// The model calls of one run. They are counted, added up and remembered for the cache, and answered from what was remembered
// while the run asks the same. A call is remembered by its whole text, or as a final failure; a call that a retry may improve
// is not remembered.
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import type { CallReason, Failure, RecordedCall } from '../../llm/cache/entry.ts'
import { requestDigest } from '../../llm/cache/run-key.ts'
import type { CompletionEvent, CompletionRequest, FinishReason, Llm, Usage } from '../../llm/llm.ts'
import { type Aid, isOutputRefusal } from '../../llm/structured-output/schema-refusal.ts'
import { sumOfUsages, unknownUsage } from '../../llm/usage.ts'
import type { RecordedRun } from './run-record.ts'

export interface CallsOptions {
  readonly llm: Llm
  readonly maxCalls: number
  readonly signal: AbortSignal
  /** The `traceparent` of what the run is made for. */
  readonly traceparent?: string | undefined
  /** The calls that earlier attempts at this run remembered. Default: none. */
  readonly recorded?: readonly RecordedCall[]
  /** Who is responsible for the schema in the recorded calls. Default: not known yet. */
  readonly aid?: Aid | undefined
  /** The model must not be asked: `open` throws Diverged instead. */
  readonly replayOnly?: boolean
  /** Receives all calls so far whenever they are worth remembering. Default: nothing is remembered. */
  readonly remember?: (calls: RecordedRun) => void
}

/** How a call ended. */
export interface CallEnd {
  readonly finishReason: FinishReason
  readonly usage: Usage
  readonly model: string
  /** The model gave thoughts beside its text. */
  readonly reasoned: boolean
}

/** Tokens of calls of one kind; null when the server did not report them. */
export interface Spent {
  readonly reason: CallReason
  readonly model: string
  readonly calls: number
  readonly promptTokens: number | null
  readonly completionTokens: number | null
}

/** One call: pass each of `events` to `count`, then call `close`, or `fail` when they throw. */
export interface Call {
  readonly events: AsyncIterable<CompletionEvent>
  readonly reason: CallReason
  readonly digest: string
  /** What the model wrote, without its thoughts, as far as it is remembered. */
  text: string
  /** How many characters the model wrote, its thoughts included. */
  characters: number
  /** The model wrote nothing but white space. */
  isBlank: boolean
  reasoned: boolean
  end?: CallEnd
  failure?: Failure
}

/** A replay would have to ask the model. */
export class Diverged extends Error {}

/** Characters of a run that are remembered, at most. */
const maxRemembered = 4 * 1024 * 1024

export class Calls {
  readonly llm: Llm
  /** Who is responsible for the schema in the first call that is remembered; undefined when that is not known yet. */
  aid: Aid | undefined
  readonly #options: CallsOptions
  readonly #opened: Call[] = []
  /** The index of the first call that may be remembered. */
  #start = 0
  #uncounted = 0
  #isReplaying: boolean
  #isWorthKeeping = false
  #remembered = 0

  constructor(options: CallsOptions) {
    this.#options = options
    this.llm = options.llm
    this.aid = options.aid
    this.#isReplaying = options.replayOnly === true || (options.recorded ?? []).length > 0
  }

  /** Calls that may still be made. */
  get left(): number {
    return this.#options.maxCalls - (this.#opened.length - this.#uncounted)
  }

  /** The model that answered first. */
  get model(): string {
    return this.#ends[0]?.model ?? this.llm.model
  }

  /** Starts the calls again in this way. Calls so far in another way are not remembered, but still counted and paid. */
  startWith(aid: Aid): void {
    if (this.aid === aid) return
    this.aid = aid
    this.#start = this.#opened.length
    this.#isWorthKeeping = false
  }

  /** Throws Diverged when the model must not be asked. */
  open(request: CompletionRequest, reason: CallReason): Call {
    const { recorded = [], remember, replayOnly, signal, traceparent } = this.#options
    const digest = remember || this.#isReplaying ? requestDigest(request) : ''
    const next = recorded[this.#done.length]
    this.#isReplaying &&= next?.digest === digest
    if (!this.#isReplaying && replayOnly) throw new Diverged()
    const [source, events] = this.#isReplaying
      ? (['cached', replay(next!)] as const)
      : [reason, this.llm.stream({ ...request, traceparent }, signal)]
    const call = { events, reason: source, digest, text: '', characters: 0, isBlank: true, reasoned: false }
    this.#opened.push(call)
    return call
  }

  /** Counts the event. Returns the text that the model wrote, without its thoughts. */
  count(call: Call, event: CompletionEvent): string {
    if (event.type === 'end') {
      const { finishReason, usage, model } = event
      call.end = { finishReason, usage, model, reasoned: call.reasoned }
      return ''
    }
    const { kind, text } = event
    call.characters += text.length
    if (kind === 'reasoning') {
      call.reasoned = true
      return ''
    }
    if (call.digest !== '') {
      this.#remembered += text.length
      if (this.#remembered <= maxRemembered) call.text += text
    }
    call.isBlank &&= text.trim() === ''
    return text
  }

  /** How the call ended: as if at the token limit when its reader left early. */
  close(call: Call): CallEnd {
    const { reasoned } = call
    call.end ??= { finishReason: 'length', usage: unknownUsage, model: this.llm.model, reasoned }
    return call.end
  }

  /** The call failed. When its prompt did not fit, or the server does not take its form, it is not counted. */
  fail(call: Call, thrown: unknown): void {
    const isRefusal = isOutputRefusal(thrown)
    if (isRefusal || isOverflow(thrown)) this.#uncounted++
    // When the form of the first call is refused, the run begins in another.
    if (isRefusal && this.#done.length === 0) return
    const failure = this.#options.signal.aborted ? undefined : finalFailure(thrown)
    if (failure && failure.code !== 'cost_limit_reached') call.failure = failure
  }

  /** Marks the calls so far as worth remembering: the latest held an item, or was honestly empty. */
  keep(): void {
    this.#isWorthKeeping = true
    const { whole } = this
    if (whole && !this.#isReplaying) this.#options.remember?.(whole)
  }

  /** All calls, when they are worth remembering and not too long. */
  get whole(): RecordedRun | undefined {
    if (!this.#isWorthKeeping || this.#remembered > maxRemembered) return undefined
    return { calls: this.#done, ...(this.aid && { aid: this.aid }) }
  }

  /** The calls that ended, or failed for good, as they are remembered. */
  get #done(): RecordedCall[] {
    const unread = {
      finishReason: 'error',
      usage: unknownUsage,
      model: this.llm.model,
      reasoned: false,
    } as const
    return this.#opened.slice(this.#start).flatMap(({ digest, text, end, failure = null }) => {
      return end || failure ? { digest, text, ...(end ?? unread), failure } : []
    })
  }

  get #ends(): CallEnd[] {
    return this.#opened.flatMap(({ end = [] }) => end)
  }

  /** The usage of all calls that ended. */
  usage(): Usage {
    return sumOfUsages(this.#ends.map(({ usage }) => usage))
  }

  /** By reason and model; calls whose tokens are not known, such as those that broke off, stand apart. */
  spent(): Spent[] {
    // A call that failed before it wrote anything was not paid.
    const paid = this.#opened
      .filter(({ characters, end }) => end || characters > 0)
      .map(({ reason, end }) => ({
        reason,
        model: end?.model ?? this.llm.model,
        usage: end?.usage ?? unknownUsage,
      }))
    const groups = Map.groupBy(paid, ({ reason, model, usage }) =>
      JSON.stringify([reason, model, usage.promptTokens === null, usage.completionTokens === null]),
    )
    return [...groups.values()].map((group) => {
      const [{ reason, model }] = group as [(typeof paid)[number]]
      const { promptTokens, completionTokens } = sumOfUsages(group.map(({ usage }) => usage))
      return { reason, model, calls: group.length, promptTokens, completionTokens }
    })
  }
}

/** The model spent its whole output limit thinking. */
export function onlyThought({ end, isBlank }: Call): boolean {
  return end?.finishReason === 'length' && isBlank && end.reasoned
}

/**
 * A failure that no retry can fix, as it is reported and remembered; undefined for others. A server that fails on the form of
 * the reply (500, 501) is not unavailable: it refuses the request.
 */
export function finalFailure(thrown: unknown): Failure | undefined {
  const { code, message, retry } = toGraphmillError(thrown)
  if (isOutputRefusal(thrown)) return { code: 'llm_request_invalid', message }
  return retry === 'never' && code !== 'unexpected' ? { code, message } : undefined
}

export function isOverflow(thrown: unknown): boolean {
  return thrown instanceof GraphmillError && thrown.code === 'context_overflow'
}

export function reasoningTooLong(cause?: unknown): GraphmillError {
  const message = 'The model spent its whole output limit thinking, and wrote nothing.'
  return new GraphmillError('reasoning_too_long', message, { cause })
}

async function* replay(call: RecordedCall): AsyncGenerator<CompletionEvent> {
  const { finishReason, usage, model, failure, text } = call
  if (call.reasoned) yield { type: 'delta', kind: 'reasoning', text: '' }
  if (text !== '' || !failure) yield { type: 'delta', kind: 'content', text }
  if (failure) throw new GraphmillError(failure.code, failure.message)
  yield { type: 'end', finishReason, usage, model, raw: undefined }
}
