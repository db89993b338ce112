// The reply to a jsonl prompt: items leave as they complete, over as many calls as it takes. A reply that was cut off is
// continued, a text that does not fit is split, and items that failed their schema are asked for again. The end says what is
// still missing then; it never costs what was found.
import { GraphmillError } from '../../errors.ts'
import type { CallReason } from '../../llm/cache/entry.ts'
import type { CompletionRequest, FinishReason } from '../../llm/llm.ts'
import { isOutputRefusal } from '../../llm/structured-output/schema-refusal.ts'
import type { Terms } from '../catalogue/terms.ts'
import { finalFailure, isOverflow } from './calls.ts'
import { continuationRequest } from './continuation.ts'
import { brokenOff, incompleteness } from './incompleteness.ts'
import { ItemCollector } from './item-collector.ts'
import { callForItems, type ItemsCallEnd, notTooLong } from './items-call.ts'
import { reaskable, reaskRequest } from './reask.ts'
import type { IncompleteCause, ReplyEnd, ReplyEvent, ReplyStream, RunContext } from './reply.ts'
import { maxSplits, splitTerms } from './split.ts'

/** What the run has found, and what is known of its texts so far. */
interface ItemsRun {
  readonly context: RunContext
  readonly collector: ItemCollector
  finishReason: FinishReason
  truncated: boolean
  /** The replies about every text are honestly empty. */
  empty: boolean
  opening: string
  cause: IncompleteCause | undefined
}

/** One text that is asked about. */
interface ItemsText {
  readonly request: CompletionRequest
  /** The latest items about it, as JSON texts. */
  readonly shown: string[]
}

export async function* readItems(context: RunContext): ReplyStream {
  const run: ItemsRun = {
    context,
    collector: new ItemCollector(),
    finishReason: 'stop',
    truncated: false,
    empty: true,
    opening: '',
    cause: undefined,
  }
  yield* readText(run, context.terms, 'first', maxSplits)
  yield* askAgainForRejected(run)
  yield [{ type: 'end', end: endOf(run) }]
}

/** All about one text, or about its halves when it does not fit the context. */
async function* readText(run: ItemsRun, about: Terms, reason: CallReason, splits: number): ReplyStream {
  const { context, collector } = run
  const text: ItemsText = { request: context.request(about), shown: [] }
  const rejectedBefore = collector.rejections.length
  let first: ItemsCallEnd
  try {
    first = noted(run, yield* callForItems(context, collector, { ...text, reason }))
  } catch (thrown) {
    const halves = isOverflow(thrown) && splits > 0 ? splitTerms(about) : undefined
    if (!halves) keepFound(run, thrown)
    for (const half of halves ?? []) if (hasCallLeft(run)) yield* readText(run, half, 'split', splits - 1)
    return
  }
  try {
    const isCutInFirstItem = first.finishReason === 'length' && first.items === 0 && !first.stopped
    const longer = isCutInFirstItem ? yield* askLonger(run, first, text) : undefined
    if (longer) collector.forgetRejections(rejectedBefore, first.rejected)
    yield* readOn(run, longer?.call ?? first, longer?.text ?? text)
  } catch (thrown) {
    keepFound(run, thrown)
  }
}

/** Adds a call about a text to what is known of the whole reply. */
function noted(run: ItemsRun, call: ItemsCallEnd): ItemsCallEnd {
  if (run.finishReason !== 'content_filter') run.finishReason = call.finishReason
  run.empty &&= call.empty
  run.opening ||= call.opening
  return call
}

/**
 * One retry with a doubled output limit for a reply that was cut off inside its first item; undefined when that was not
 * possible and the first call stands. Throws `item_too_long` or `reasoning_too_long`.
 */
async function* askLonger(
  run: ItemsRun,
  first: ItemsCallEnd,
  { request, shown }: ItemsText,
): AsyncGenerator<readonly ReplyEvent[], { call: ItemsCallEnd; text: ItemsText } | undefined> {
  const limit = request.sampling?.maxTokens ?? first.usage.completionTokens
  let cause: unknown
  try {
    if (limit && run.context.calls.left > 0) {
      const text = { request: { ...request, sampling: { ...request.sampling, maxTokens: 2 * limit } }, shown }
      const call = yield* callForItems(run.context, run.collector, { ...text, reason: 'longer' })
      return { call: notTooLong(noted(run, call)), text }
    }
  } catch (thrown) {
    // When the server does not take the form, nothing was found: the other form may work.
    if (!finalFailure(thrown) || isOutputRefusal(thrown)) throw thrown
    cause = thrown
  }
  notTooLong(first, cause)
  return undefined
}

/** The rest of a reply that was cut off, as far as the limits allow. */
async function* readOn(run: ItemsRun, first: ItemsCallEnd, { request, shown }: ItemsText): ReplyStream {
  const { prompt, limits, calls, form } = run.context
  const maxContinuations = prompt.maxContinuations ?? limits.maxContinuations
  let last = first
  for (let count = 0; last.finishReason === 'length' && last.fresh > 0 && !last.stopped; count++) {
    if (count >= maxContinuations) return endText(run, last, true)
    if (calls.left <= 0) throw callsExhausted()
    const rest = {
      request: continuationRequest(request, shown, form),
      reason: 'continuation',
      shown,
    } as const
    last = noted(run, yield* callForItems(run.context, run.collector, rest))
    // Neither an item nor an honest end: what was cut off is still missing.
    if (last.items === 0 && !last.empty) return endText(run, last, true)
  }
  endText(run, last, last.finishReason === 'length' || last.cut || last.stopped !== undefined)
}

function endText(run: ItemsRun, last: ItemsCallEnd, truncated: boolean): void {
  const broken = brokenOff(last.finishReason)
  run.truncated ||= truncated || broken !== undefined
  run.cause ??= broken ?? last.stopped
}

/** One call for the records that failed their schema. */
async function* askAgainForRejected({ context, collector }: ItemsRun): ReplyStream {
  const { calls, prompt, form, terms } = context
  const records = reaskable(collector.rejections)
  if (records.length === 0 || calls.left <= 0) return
  const request = reaskRequest(context.request(terms), records, { schema: prompt.jsonSchema, form })
  try {
    const reasked = new Set(records)
    yield* callForItems(context, collector, { request, reason: 'reask', shown: [], reasked })
  } catch (thrown) {
    // The rejections stand as they are. A failure that may pass fails the run, which is then tried again.
    if (!finalFailure(thrown)) throw thrown
  }
}

/** Items found so far are never lost to a later failure: one that no retry can fix only cuts the reply off. Throws others. */
function keepFound(run: ItemsRun, thrown: unknown): void {
  const failure = finalFailure(thrown)
  const isAtCostLimit = failure?.code === 'cost_limit_reached'
  if (!failure || (run.collector.accepted === 0 && !isAtCostLimit)) throw thrown
  run.truncated = true
  run.cause ??= { type: failure.code, message: failure.message }
}

function hasCallLeft(run: ItemsRun): boolean {
  if (run.context.calls.left > 0) return true
  keepFound(run, callsExhausted())
  return false
}

function endOf({ context, collector, finishReason, truncated, empty, opening, cause }: ItemsRun): ReplyEnd {
  const { form, calls } = context
  const { accepted, repaired, duplicates, reasked, rejected, rejections } = collector
  const rejectedBy = collector.counts()
  const thoughts = rejectedBy['thought'] ?? 0
  const known = { finishReason, truncated, empty, opening, thoughts, accepted, rejected, cause }
  return {
    finishReason,
    outputMode: form.outputMode,
    usage: calls.usage(),
    spent: calls.spent(),
    model: calls.model,
    truncated,
    incomplete: incompleteness(known),
    cause,
    accepted,
    rejected,
    rejections,
    rejectedBy,
    repaired,
    duplicates,
    reasked,
  }
}

function callsExhausted(): GraphmillError {
  return new GraphmillError('calls_exhausted', 'The run has made all the model calls that it may make.')
}
