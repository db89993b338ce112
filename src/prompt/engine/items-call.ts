// One call of a jsonl prompt: its items leave as they complete, and it is cancelled where the model has lost its way.
import { GraphmillError } from '../../errors.ts'
import type { ItemEvent } from '../../items/item.ts'
import { createItemsParser } from '../../items/parser.ts'
import { fingerprint } from '../../items/value.ts'
import type { CallReason } from '../../llm/cache/entry.ts'
import type { CompletionRequest } from '../../llm/llm.ts'
import { type CallEnd, noUsage } from './calls.ts'
import { mostShown } from './continuation.ts'
import { refusalLength } from './incompleteness.ts'
import type { ItemCollector } from './item-collector.ts'
import { lineOf, type Refused } from './reask.ts'
import { createRepetitionGuard } from './repetition.ts'
import { maxPart, type ReplyEnd, type ReplyEvent, type RunContext } from './reply.ts'
import { watchThoughts } from './thoughts.ts'

export interface ItemsCall {
  readonly request: CompletionRequest
  readonly reason: CallReason
  /** The latest items of the text that is asked about, as JSON texts: those of this call are added. */
  readonly shown: string[]
  /** Only these lines were asked for: what has nothing in common with one of them is passed over. */
  readonly lines?: Set<Refused>
}

/** How a call went. */
export interface Outcome extends CallEnd {
  /** Items of any kind, and those that no call before gave. */
  readonly items: number
  readonly fresh: number
  readonly rejected: number
  /** Nothing was written but white space or an empty list, and the model stopped by itself. */
  readonly empty: boolean
  /** The last record was cut off. */
  readonly cut: boolean
  /** Why it was ended before the model had ended it. */
  readonly stopped: ReplyEnd['cause']
  /** How the reply begins. */
  readonly opening: string
  /** It begins with a thought, and does not get to its end. */
  readonly thinking: boolean
}

const thought = '<think>'
const endOfThought = '</think>'

function beginsWithThought(opening: string): boolean | undefined {
  const beginning = opening.trimStart()
  return beginning.length < thought.length ? undefined : beginning.startsWith(thought)
}

/** The longest record in characters: each must fit a message. */
const maxRecord = maxPart

/** Items of one reply, accepted or rejected: far more than a model that is held to its output limit can write. */
const mostItems = 100_000

const repetition = {
  type: 'repetition',
  message: 'The model repeated itself without end, and was stopped.',
} as const
const tooManyItems = {
  type: 'reply_too_large',
  message: `The model wrote more than ${mostItems} items in one reply, and was stopped.`,
} as const

/** Makes the call, and takes what it brings into `findings`. Throws what the model throws. */
export async function* callForItems(
  { calls, form }: RunContext,
  collector: ItemCollector,
  { request, reason, shown, lines }: ItemsCall,
): AsyncGenerator<readonly ReplyEvent[], Outcome> {
  const made = calls.open(request, reason)
  const parser = createItemsParser(form.schema, { ...form.parser, maxRecord })
  const guard = createRepetitionGuard()
  const before = { accepted: collector.accepted, rejected: collector.rejected }
  const told = collector.rejections.length
  const thoughts = watchThoughts(parser)
  let items = 0
  let seen = 0
  let stopped: Outcome['stopped']
  let opening = ''
  let ending = ''
  /** It began with a thought that has no end yet; undefined while its beginning is not known. */
  let thinks: boolean | undefined
  let reasoned = false
  let end: CallEnd | undefined
  collector.nextCall()

  function sort(events: readonly ItemEvent[]): ReplyEvent[] {
    const heard: ReplyEvent[] = []
    for (const event of events) {
      if (stopped) break
      if (++seen > mostItems) stopped = tooManyItems
      else if (event.type === 'rejected') {
        if (!lines) collector.reject(event)
      } else {
        const item = take(event)
        if (item) heard.push(item)
      }
    }
    return heard
  }

  function take(
    event: Extract<ItemEvent, { type: 'item' }>,
  ): Extract<ReplyEvent, { type: 'item' }> | undefined {
    const place = items++
    const line = lines && lineOf(event.value, [...lines])
    if (lines && !line) return undefined
    const print = fingerprint(event.value)
    const knowledge = collector.know(event.value, print)
    // An answer that repeats the thoughts before it is no loop.
    if (guard.repeats(knowledge !== 'new' && !thoughts.confirms(print, place))) stopped = repetition
    // What the run has already takes no rejected line's place: the rejection stands.
    if (knowledge === 'from an earlier call') return undefined
    if (knowledge === 'repeated') collector.duplicates++
    if (line) {
      lines.delete(line)
      collector.mended(line)
      collector.reasked++
    }
    const heard = collector.accept(event)
    thoughts.leave(print, { place, line: event.line, text: heard.json })
    shown.push(heard.json)
    if (shown.length > mostShown) shown.shift()
    return heard
  }

  /** Rejected thoughts are nothing; accepted ones have left. */
  function tellThoughts(): void {
    if (!lines) collector.forgetRejections(told, parser.thoughts.rejected)
    for (const thought of thoughts.unconfirmed()) collector.reject(thought)
  }

  try {
    for await (const event of made.events) {
      if (event.type === 'end') end = { ...event, reasoned }
      else if (event.kind === 'reasoning') {
        reasoned = true
        made.hear(event.text, 'reasoning')
      } else {
        const blank = guard.blank(event.text)
        const text = blank ?? event.text
        made.hear(text)
        if (opening.length < refusalLength) opening += text.slice(0, refusalLength)
        thinks ??= beginsWithThought(opening)
        if (thinks) {
          ending += text
          thinks = !ending.includes(endOfThought)
          ending = ending.slice(1 - endOfThought.length)
        }
        const events = parser.push(text)
        if (events.length > 0) {
          const heard = sort(events)
          if (heard.length > 0) yield heard
        }
        if (blank !== undefined) stopped ??= repetition
        // Whoever stops reading cancels the request.
        if (stopped) break
      }
    }
  } catch (thrown) {
    made.fail(thrown)
    // What was found may stand all the same.
    tellThoughts()
    throw thrown
  }
  const last = parser.end()
  const rest = sort(last.events)
  if (rest.length > 0) yield rest
  tellThoughts()
  end ??= { finishReason: 'length', usage: noUsage, model: calls.llm.model, reasoned }
  const empty = last.end.empty && end.finishReason === 'stop'
  made.end(end)
  const isOver = end.finishReason === 'stop' || end.finishReason === 'length'
  // That rejected lines stay as they are is no honest empty.
  if ((items > 0 && isOver) || (empty && !lines)) calls.keep()
  return {
    ...end,
    items,
    fresh: collector.accepted - before.accepted,
    rejected: collector.rejected - before.rejected,
    empty,
    cut: last.end.truncated,
    stopped,
    opening,
    thinking: thinks === true,
  }
}

/** The call, unless the limit cut it off before anything was complete: throws `item_too_long` or `reasoning_too_long` then. */
export function notTooLong(call: Outcome, cause?: unknown): Outcome {
  if (call.finishReason !== 'length' || call.items > 0 || call.rejected > 0 || call.stopped) return call
  const { reasoned, opening, thinking } = call
  if ((reasoned && opening.trim() === '') || thinking)
    throw new GraphmillError(
      'reasoning_too_long',
      'The model spent its whole output limit thinking, and wrote nothing.',
      { cause },
    )
  throw new GraphmillError('item_too_long', 'The output limit cut the reply off inside its first item.', {
    cause,
  })
}
