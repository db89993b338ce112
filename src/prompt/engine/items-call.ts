// One call of a jsonl prompt. Its items leave as they complete; it is cancelled when the model repeats itself without end.
import { GraphmillError } from '../../errors.ts'
import { excerptOf } from '../../items/excerpt.ts'
import type { ItemEvent } from '../../items/item.ts'
import { createItemsParser } from '../../items/parser.ts'
import { fingerprint } from '../../items/value.ts'
import type { CallReason } from '../../llm/cache/entry.ts'
import type { CompletionRequest } from '../../llm/llm.ts'
import { watchStringLoop } from '../../llm/string-loop.ts'
import { type CallEnd, reasoningTooLong } from './calls.ts'
import { maxShown } from './continuation.ts'
import type { ItemJudge } from './examples.ts'
import { refusalLength, repetition } from './incompleteness.ts'
import type { ItemCollector, ItemFound } from './item-collector.ts'
import type { ItemsForm } from './items-form.ts'
import { type RejectedRecord, recordOf } from './reask.ts'
import { createRepetitionGuard } from './repetition.ts'
import { type IncompleteCause, maxPart, type ReplyEvent, type RunContext } from './reply.ts'
import { watchThoughts } from './thoughts.ts'

export interface ItemsCall {
  readonly request: CompletionRequest
  readonly reason: CallReason
  /** The latest items about the text, as JSON texts; the items of this call are added. */
  readonly shown: string[]
  /** Only these records were asked for: an item that has nothing in common with one of them is ignored. */
  readonly reasked?: Set<RejectedRecord>
}

/** How a call went. */
export interface ItemsCallEnd extends CallEnd {
  /** Items of any kind. */
  readonly items: number
  /** Items that no earlier call gave. */
  readonly fresh: number
  readonly rejected: number
  /** Nothing was written but white space or an empty list, and the model stopped by itself. */
  readonly empty: boolean
  /** The last record was cut off. */
  readonly cut: boolean
  /** Why it was ended before the model had ended it. */
  readonly stopped: IncompleteCause | undefined
  /** How the reply begins. */
  readonly opening: string
  /** The reply ends inside a thought. */
  readonly thinking: boolean
}

/** The longest record in characters: each must fit a message. */
const maxRecord = maxPart

/** Items of one reply, accepted or rejected: far more than a model that keeps to its output limit can write. */
const maxItems = 100_000

const tooManyItems: IncompleteCause = {
  type: 'reply_too_large',
  message: `The model wrote more than ${maxItems} items in one reply, and was stopped.`,
}

/** Makes the call, and adds what it brings to `collector`. Throws what the model throws. */
export async function* callForItems(
  { calls, form, judge }: RunContext,
  collector: ItemCollector,
  asked: ItemsCall,
): AsyncGenerator<readonly ReplyEvent[], ItemsCallEnd> {
  const call = calls.open(asked.request, asked.reason)
  const reader = new ItemsReader(form, collector, asked, judge)
  try {
    for await (const event of call.events) {
      const text = calls.count(call, event)
      if (text === '') continue
      const items = reader.read(text)
      if (items.length > 0) yield items
      // Leaving the loop cancels the request.
      if (reader.stopped) break
    }
  } catch (thrown) {
    calls.fail(call, thrown)
    // What was found may stand all the same.
    reader.rejectThoughts()
    throw thrown
  }
  const last = reader.end()
  if (last.items.length > 0) yield last.items
  reader.rejectThoughts()
  const end = calls.close(call)
  const { items, stopped, opening, thinking } = reader
  const empty = last.empty && end.finishReason === 'stop'
  const isComplete = end.finishReason === 'stop' || end.finishReason === 'length'
  // A reask that brings nothing leaves its records rejected, so it is not honestly empty.
  if ((items > reader.echoes && isComplete) || (empty && !asked.reasked)) calls.keep()
  const counts = { items, fresh: reader.fresh, rejected: reader.rejected }
  return { ...end, ...counts, empty, cut: last.cut, stopped, opening, thinking }
}

/** What the text of one call holds. */
class ItemsReader {
  /** Items of any kind. */
  items = 0
  /** How the reply begins. */
  opening = ''
  /** Why the call must end before the model ends it. */
  stopped: IncompleteCause | undefined
  readonly #collector: ItemCollector
  readonly #asked: ItemsCall
  readonly #judge: ItemJudge | undefined
  readonly #parser
  readonly #guard = createRepetitionGuard()
  readonly #loop = watchStringLoop()
  readonly #thoughts
  readonly #before
  /** Items and rejected records. */
  #records = 0
  /** The places of the rejected echoes among the items. */
  readonly #echoes: number[] = []

  constructor(form: ItemsForm, collector: ItemCollector, asked: ItemsCall, judge: ItemJudge | undefined) {
    this.#judge = judge
    this.#collector = collector
    this.#asked = asked
    this.#parser = createItemsParser(form.schema, { ...form.parser, maxRecord })
    this.#thoughts = watchThoughts(this.#parser)
    const { accepted, rejected, rejections } = collector
    this.#before = { accepted, rejected, rejections: rejections.length }
    collector.nextCall()
  }

  get fresh(): number {
    return this.#collector.accepted - this.#before.accepted
  }

  /** Items that are rejected echoes of the prompt's examples. */
  get echoes(): number {
    return this.#echoes.length
  }

  get rejected(): number {
    return this.#collector.rejected - this.#before.rejected
  }

  /** The reply ends inside a thought. */
  get thinking(): boolean {
    return this.#parser.thinking
  }

  /** The items that complete with this text. */
  read(given: string): ReplyEvent[] {
    const untilBlank = this.#guard.blank(given)
    const loopEnd = this.#loop.end(untilBlank ?? given)
    const text = (untilBlank ?? given).slice(0, loopEnd)
    if (this.opening.length < refusalLength) this.opening += text.slice(0, refusalLength)
    const events = this.#parser.push(text)
    const items = events.length > 0 ? this.#accept(events) : []
    if (untilBlank !== undefined || loopEnd !== undefined) this.stopped ??= repetition
    return items
  }

  /** The items at the end of the text. */
  end(): { readonly items: ReplyEvent[]; readonly empty: boolean; readonly cut: boolean } {
    const { events, end } = this.#parser.end()
    return { items: this.#accept(events), empty: end.empty, cut: end.truncated }
  }

  /** Takes rejections of thoughts back. Accepted thoughts have left: those that the answer did not repeat are rejected now. */
  rejectThoughts(): void {
    const { items, rejected } = this.#parser.thoughts
    const echoes = this.#echoes.filter((place) => place < items).length
    if (!this.#asked.reasked) this.#collector.forgetRejections(this.#before.rejections, rejected + echoes)
    for (const thought of this.#thoughts.unconfirmed()) this.#collector.reject(thought)
  }

  #accept(events: readonly ItemEvent[]): ReplyEvent[] {
    const items: ReplyEvent[] = []
    for (const event of events) {
      if (this.stopped) break
      if (++this.#records > maxItems) this.stopped = tooManyItems
      else if (event.type === 'rejected') {
        if (!this.#asked.reasked) this.#collector.reject(event)
      } else {
        const item = this.#acceptItem(event)
        if (item) items.push(item)
      }
    }
    return items
  }

  /** An echo in place of a rejected record is no correction: the rejection stands. */
  #rejectEcho({ line, value }: ItemFound, place: number): void {
    if (this.#asked.reasked) return
    this.#echoes.push(place)
    const message = 'It is an example of the prompt, and does not stand in the text.'
    const text = excerptOf(JSON.stringify(value))
    this.#collector.reject({ reason: 'echo_of_example', line, text, message })
  }

  #acceptItem(event: ItemFound): ReplyEvent | undefined {
    const collector = this.#collector
    const { reasked, shown } = this.#asked
    const place = this.items++
    const record = reasked && recordOf(event.value, [...reasked])
    if (reasked && !record) return undefined
    const print = fingerprint(event.value)
    const knowledge = collector.know(event.value, print)
    // An answer that repeats the thoughts before it is no loop.
    if (this.#guard.repeats(knowledge !== 'new' && !this.#thoughts.confirms(print, place)))
      this.stopped = repetition
    // An item that the run already has does not replace a rejected record: the rejection stands.
    if (knowledge === 'from an earlier call') return undefined
    const { grounding, isEcho = false } = this.#judge?.(event.value) ?? {}
    if (isEcho) {
      this.#rejectEcho(event, place)
      return undefined
    }
    if (knowledge === 'repeated') collector.duplicates++
    if (record) {
      reasked.delete(record)
      collector.corrected(record)
    }
    const item = collector.accept(event, grounding)
    this.#thoughts.leave(print, { place, line: event.line, text: item.json })
    shown.push(item.json)
    if (shown.length > maxShown) shown.shift()
    return item
  }
}

/** The call, unless the limit cut it off before anything was complete: then it throws `item_too_long` or `reasoning_too_long`. */
export function notTooLong(call: ItemsCallEnd, cause?: unknown): ItemsCallEnd {
  if (call.finishReason !== 'length' || call.items > 0 || call.rejected > 0 || call.stopped) return call
  const { reasoned, opening, thinking } = call
  if ((reasoned && opening.trim() === '') || thinking) throw reasoningTooLong(cause)
  const message = 'The output limit cut the reply off inside its first item.'
  throw new GraphmillError('item_too_long', message, { cause })
}
