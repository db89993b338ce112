// The model calls of one run: counted, added up, remembered for the cache, and answered from what was remembered as long as
// the run asks the same. What is remembered is a call's whole text, or that it failed for good; a call that may go better
// another time is not.
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { type CallReason, type Failure, type RecordedCall, requestDigest } from '../../llm/cache/entry.ts'
import type { CompletionEvent, CompletionRequest, FinishReason, Llm, Usage } from '../../llm/llm.ts'
import { isOutputRefusal } from '../../llm/structured-output/schema-refusal.ts'
import type { Spent } from './reply.ts'
import type { Remembered } from './run-record.ts'

export interface CallsOptions {
  readonly llm: Llm
  readonly maxCalls: number
  readonly signal: AbortSignal
  /** What earlier attempts at this run remembered. Default nothing. */
  readonly recorded?: readonly RecordedCall[]
  /** Whether they do without the server's own constraint. Default: that is not known yet. */
  readonly unaided?: boolean | undefined
  /** The model must not be asked: throws Diverged instead. */
  readonly replayOnly?: boolean
  /** Given all calls so far whenever they are worth remembering. Default: nothing is remembered. */
  readonly remember?: (made: Remembered) => void
}

/** How a call ended. */
export interface CallEnd {
  readonly finishReason: FinishReason
  readonly usage: Usage
  readonly model: string
  /** The model gave thoughts beside its text. */
  readonly reasoned: boolean
}

/** One call: read `events`, tell what was heard of them, then how it ended. */
export interface Call {
  readonly events: AsyncIterable<CompletionEvent>
  /** Of thoughts, only that there were some: they are not remembered. Default `content`. */
  hear(text: string, kind?: 'content' | 'reasoning'): void
  end(end: CallEnd): void
  /** It failed. A call whose prompt did not fit, or whose form the server does not take, does not count. */
  fail(thrown: unknown): void
}

export interface Calls {
  readonly llm: Llm
  /** Calls that may still be made. */
  readonly left: number
  /** The model that answered first. */
  readonly model: string
  /** Whether the calls do without the server's own constraint; undefined: that is not known yet. */
  unaided: boolean | undefined
  /** The calls begin again without the server's own constraint: those so far are not remembered. They stay counted and paid. */
  startOver(): void
  /** Throws Diverged where the model must not be asked. */
  open(request: CompletionRequest, reason: CallReason): Call
  /** The calls so far are worth remembering: the latest held an item, or was empty honestly. */
  keep(): void
  /** All calls, where they are worth remembering and not too much. */
  readonly whole: Remembered | undefined
  /** By reason and model; calls of which the tokens are not known, such as those that broke off, stand apart. */
  spent(): Spent[]
  /** Of all calls that came to an end. */
  usage(): Usage
}

/** A replay would have to ask the model. */
export class Diverged extends Error {}

export const noUsage: Usage = { promptTokens: null, completionTokens: null, totalTokens: null }

/** Characters of a run that are remembered, at most. */
const mostRemembered = 4 * 1024 * 1024

export function createCalls(options: CallsOptions): Calls {
  const { llm, signal, recorded = [], remember } = options
  const done: RecordedCall[] = []
  const opened: OpenedCall[] = []
  let made = 0
  let replaying = recorded.length > 0 || options.replayOnly === true
  let remembered = 0
  let kept = false
  let { unaided } = options

  function soFar(): Remembered {
    return { calls: [...done], ...(unaided && { unaided }) }
  }

  function known(digest: string): RecordedCall | undefined {
    const next = recorded[done.length]
    replaying &&= next?.digest === digest
    if (!replaying && options.replayOnly) throw new Diverged()
    return replaying ? next : undefined
  }

  return {
    llm,
    get whole() {
      return kept && remembered <= mostRemembered ? soFar() : undefined
    },
    get unaided() {
      return unaided
    },
    set unaided(is) {
      unaided = is
    },
    get left() {
      return options.maxCalls - made
    },
    startOver() {
      unaided = true
      done.length = 0
      kept = false
    },
    get model() {
      return ended(opened)[0]?.model ?? llm.model
    },
    open(request, reason) {
      const digest = remember || replaying ? requestDigest(request) : ''
      const old = known(digest)
      made++
      const own: OpenedCall = { reason: old ? 'cached' : reason, model: llm.model, characters: 0 }
      opened.push(own)
      let text = ''
      return {
        events: old ? replay(old) : llm.stream(request, signal),
        hear(more, kind = 'content') {
          own.characters += more.length
          if (digest === '' || kind === 'reasoning') return
          remembered += more.length
          if (remembered <= mostRemembered) text += more
        },
        end(end) {
          own.end = end
          done.push({ digest, text, ...end, failure: null })
        },
        fail(thrown) {
          if (isOutputRefusal(thrown) || overflows(thrown)) made--
          // Where the first call is refused for its form, the run begins in another.
          if (isOutputRefusal(thrown) && done.length === 0) return
          const failure = signal.aborted ? undefined : finalFailure(thrown)
          if (!failure || failure.code === 'cost_limit_reached') return
          const unread = { finishReason: 'error', usage: noUsage, reasoned: false } as const
          done.push({ digest, text, ...unread, model: llm.model, failure })
        },
      }
    },
    keep() {
      kept = true
      if (!replaying && remembered <= mostRemembered) remember?.(soFar())
    },
    spent: () => addUp(opened),
    usage() {
      const usages = ended(opened).map(({ usage }) => usage)
      return {
        promptTokens: sum(usages, 'promptTokens'),
        completionTokens: sum(usages, 'completionTokens'),
        totalTokens: sum(usages, 'totalTokens'),
      }
    },
  }
}

/**
 * A failure that no retry mends, as it is told and remembered; undefined for others. A server that chokes on the form of reply that it is
 * asked for (500, 501) is not away: it refuses the request.
 */
export function finalFailure(thrown: unknown): Failure | undefined {
  const { code, message, retry } = toGraphmillError(thrown)
  if (isOutputRefusal(thrown)) return { code: 'llm_request_invalid', message }
  return retry === 'never' && code !== 'unexpected' ? { code, message } : undefined
}

export function overflows(thrown: unknown): boolean {
  return thrown instanceof GraphmillError && thrown.code === 'context_overflow'
}

async function* replay(call: RecordedCall): AsyncGenerator<CompletionEvent> {
  const { finishReason, usage, model, failure, text } = call
  if (call.reasoned) yield { type: 'delta', kind: 'reasoning', text: '' }
  if (text !== '' || !failure) yield { type: 'delta', kind: 'content', text }
  if (failure) throw new GraphmillError(failure.code, failure.message)
  yield { type: 'end', finishReason, usage, model, raw: undefined }
}

/** A call, and how far it has come. */
interface OpenedCall {
  readonly reason: CallReason
  /** The model that is asked. */
  readonly model: string
  characters: number
  end?: CallEnd
}

const ended = (calls: readonly OpenedCall[]) => calls.flatMap(({ end = [] }) => end)

function sum(usages: readonly Usage[], count: keyof Usage): number | null {
  return usages.reduce<number | null>((total, { [count]: more }) => {
    return total === null || more === null ? null : total + more
  }, 0)
}

/** A call that failed before it wrote anything was not paid. */
function addUp(calls: readonly OpenedCall[]): Spent[] {
  const paid = calls
    .filter(({ characters, end }) => end || characters > 0)
    .map(({ reason, model, end }) => ({ reason, model: end?.model ?? model, usage: end?.usage ?? noUsage }))
  const groups = Map.groupBy(paid, ({ reason, model, usage }) =>
    JSON.stringify([reason, model, usage.promptTokens === null, usage.completionTokens === null]),
  )
  return [...groups.values()].map((group) => {
    const [{ reason, model }] = group as [(typeof paid)[number]]
    const usages = group.map(({ usage }) => usage)
    const [promptTokens, completionTokens] = [sum(usages, 'promptTokens'), sum(usages, 'completionTokens')]
    return { reason, model, calls: group.length, promptTokens, completionTokens }
  })
}
