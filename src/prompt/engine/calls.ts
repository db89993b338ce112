// The model calls of one run. They are counted, added up and remembered for the cache, and answered from what was remembered
// while the run asks the same. A call is remembered by its whole text, or as a final failure; a call that a retry may improve
// is not remembered.
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { type CallReason, type Failure, type RecordedCall, requestDigest } from '../../llm/cache/entry.ts'
import type { CompletionEvent, CompletionRequest, FinishReason, Llm, Usage } from '../../llm/llm.ts'
import { isOutputRefusal } from '../../llm/structured-output/schema-refusal.ts'
import { sumOfUsages, unknownUsage } from '../../llm/usage.ts'
import type { RecordedRun } from './run-record.ts'

export interface CallsOptions {
  readonly llm: Llm
  readonly maxCalls: number
  readonly signal: AbortSignal
  /** The calls that earlier attempts at this run remembered. Default: none. */
  readonly recorded?: readonly RecordedCall[]
  /** Whether the recorded calls do without the server's own constraint. Default: not known yet. */
  readonly unaided?: boolean | undefined
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

/** A replay would have to ask the model. */
export class Diverged extends Error {}

/** Characters of a run that are remembered, at most. */
const maxRemembered = 4 * 1024 * 1024

export class Calls {
  readonly llm: Llm
  /** Whether the calls do without the server's own constraint; undefined when that is not known yet. */
  unaided: boolean | undefined
  readonly #options: CallsOptions
  readonly #opened: Call[] = []
  #done: RecordedCall[] = []
  #uncounted = 0
  #isReplaying: boolean
  #isWorthKeeping = false
  #remembered = 0

  constructor(options: CallsOptions) {
    this.#options = options
    this.llm = options.llm
    this.unaided = options.unaided
    this.#isReplaying = options.replayOnly === true || (options.recorded ?? []).length > 0
  }

  /** Calls that may still be made. */
  get left(): number {
    return this.#options.maxCalls - (this.#opened.length - this.#uncounted)
  }

  /** The model that answered first. */
  get model(): string {
    return this.#ended[0]?.model ?? this.llm.model
  }

  /** Begins the calls again without the server's own constraint. The calls so far are not remembered, but still counted and paid. */
  startOver(): void {
    this.unaided = true
    this.#done = []
    this.#isWorthKeeping = false
  }

  /** Throws Diverged when the model must not be asked. */
  open(request: CompletionRequest, reason: CallReason): Call {
    const { remember, signal } = this.#options
    const digest = remember || this.#isReplaying ? requestDigest(request) : ''
    const recorded = this.#recordedCall(digest)
    const call = new Call(this.llm.model, {
      reason: recorded ? 'cached' : reason,
      events: recorded ? replay(recorded) : this.llm.stream(request, signal),
      mayRemember: (length) => digest !== '' && this.#mayRemember(length),
      onEnd: (text, end) => this.#done.push({ digest, text, ...end, failure: null }),
      onFail: (text, thrown) => this.#fail(digest, text, thrown),
    })
    this.#opened.push(call)
    return call
  }

  #mayRemember(length: number): boolean {
    this.#remembered += length
    return this.#remembered <= maxRemembered
  }

  #recordedCall(digest: string): RecordedCall | undefined {
    const { recorded = [], replayOnly } = this.#options
    const next = recorded[this.#done.length]
    this.#isReplaying &&= next?.digest === digest
    if (!this.#isReplaying && replayOnly) throw new Diverged()
    return this.#isReplaying ? next : undefined
  }

  #fail(digest: string, text: string, thrown: unknown): void {
    if (isOutputRefusal(thrown) || isOverflow(thrown)) this.#uncounted++
    // When the form of the first call is refused, the run begins in another.
    if (isOutputRefusal(thrown) && this.#done.length === 0) return
    const failure = this.#options.signal.aborted ? undefined : finalFailure(thrown)
    if (!failure || failure.code === 'cost_limit_reached') return
    const end = { finishReason: 'error', usage: unknownUsage, reasoned: false } as const
    this.#done.push({ digest, text, ...end, model: this.llm.model, failure })
  }

  /** Marks the calls so far as worth remembering: the latest held an item, or was honestly empty. */
  keep(): void {
    this.#isWorthKeeping = true
    if (!this.#isReplaying && this.#remembered <= maxRemembered) this.#options.remember?.(this.#soFar())
  }

  /** All calls, when they are worth remembering and not too long. */
  get whole(): RecordedRun | undefined {
    return this.#isWorthKeeping && this.#remembered <= maxRemembered ? this.#soFar() : undefined
  }

  #soFar(): RecordedRun {
    return { calls: [...this.#done], ...(this.unaided && { unaided: true }) }
  }

  get #ended(): CallEnd[] {
    return this.#opened.flatMap(({ end = [] }) => end)
  }

  /** Of all calls that came to an end. */
  usage(): Usage {
    return sumOfUsages(this.#ended.map(({ usage }) => usage))
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

interface CallOptions {
  readonly reason: CallReason
  readonly events: AsyncIterable<CompletionEvent>
  /** Whether so many characters more may be remembered. */
  readonly mayRemember: (length: number) => boolean
  readonly onEnd: (text: string, end: CallEnd) => void
  readonly onFail: (text: string, thrown: unknown) => void
}

/** One call: pass every one of `events` to `hear`, then call `close`, or `fail` when they throw. */
export class Call {
  readonly reason: CallReason
  readonly events: AsyncIterable<CompletionEvent>
  /** How many the model wrote, its thoughts included. */
  characters = 0
  /** The model wrote nothing but white space. */
  isBlank = true
  end: CallEnd | undefined
  /** It ended or failed. */
  isOver = false
  readonly #options: CallOptions
  readonly #asked: string
  #reasoned = false
  #text = ''

  constructor(asked: string, options: CallOptions) {
    this.#asked = asked
    this.#options = options
    this.reason = options.reason
    this.events = options.events
  }

  /** Counts the event. Returns the text that the model wrote, without its thoughts: these are not remembered either. */
  hear(event: CompletionEvent): string {
    if (event.type === 'end') {
      const { finishReason, usage, model } = event
      this.#finish({ finishReason, usage, model, reasoned: this.#reasoned })
      return ''
    }
    this.characters += event.text.length
    if (event.kind === 'reasoning') {
      this.#reasoned = true
      return ''
    }
    if (this.#options.mayRemember(event.text.length)) this.#text += event.text
    this.isBlank &&= event.text.trim() === ''
    return event.text
  }

  /** How the call ended: as if at the token limit when its reader left early. */
  close(): CallEnd {
    const reasoned = this.#reasoned
    return (
      this.end ?? this.#finish({ finishReason: 'length', usage: unknownUsage, model: this.#asked, reasoned })
    )
  }

  #finish(end: CallEnd): CallEnd {
    this.end = end
    this.isOver = true
    this.#options.onEnd(this.#text, end)
    return end
  }

  /** A call whose prompt did not fit, or whose form the server does not take, is not counted. */
  fail(thrown: unknown): void {
    this.isOver = true
    this.#options.onFail(this.#text, thrown)
  }

  /** The model spent its whole output limit thinking. */
  get onlyThought(): boolean {
    return this.end?.finishReason === 'length' && this.isBlank && this.#reasoned
  }
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
