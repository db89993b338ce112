// The reply to a jsonl prompt: items leave as they complete, over as many calls as it takes. A reply that was cut off is
// continued, a text that does not fit is split, items that failed their schema are asked for again; what is still missing
// then is said, and never costs what was found.
import { GraphmillError } from '../../errors.ts'
import type { CallReason } from '../../llm/cache/entry.ts'
import type { CompletionRequest, FinishReason } from '../../llm/llm.ts'
import { isOutputRefusal } from '../../llm/structured-output/schema-refusal.ts'
import type { Terms } from '../catalogue/terms.ts'
import { finalFailure, overflows } from './calls.ts'
import { continuationOf } from './continuation.ts'
import { brokenOff, incompleteness } from './incompleteness.ts'
import { createItemCollector } from './item-collector.ts'
import { callForItems, notTooLong, type Outcome } from './items-call.ts'
import { reaskable, reaskOf } from './reask.ts'
import type { ReplyEnd, ReplyEvent, ReplyStream, RunContext } from './reply.ts'
import { mostSplits, splitTerms } from './split.ts'

/** What is known of the texts of the run so far. */
interface Progress {
  finishReason: FinishReason
  truncated: boolean
  /** Everything that was asked about is honestly empty. */
  empty: boolean
  opening: string
  cause: ReplyEnd['cause']
}

export async function* hearJsonl(asking: RunContext): ReplyStream {
  const { prompt, calls, limits, terms, form } = asking
  const collector = createItemCollector()
  const seen: Progress = {
    finishReason: 'stop',
    truncated: false,
    empty: true,
    opening: '',
    cause: undefined,
  }
  const maxContinuations = prompt.maxContinuations ?? limits.maxContinuations

  yield* readText(terms, 'first', mostSplits)
  yield* askAgain()
  yield [{ type: 'end', end: endOf() }]

  /** All about one text, or about its halves where it does not fit the context. */
  async function* readText(about: Terms, reason: CallReason, splits: number): ReplyStream {
    const request = asking.request(about)
    const rejected = collector.rejections.length
    const shown: string[] = []
    let first: Outcome
    try {
      first = noted(yield* callForItems(asking, collector, { request, reason, shown }))
    } catch (thrown) {
      const halves = overflows(thrown) && splits > 0 ? splitTerms(about) : undefined
      if (!halves) giveIn(thrown)
      else for (const half of halves) if (isOpen()) yield* readText(half, 'split', splits - 1)
      return
    }
    try {
      const isCutInside = first.finishReason === 'length' && first.items === 0 && !first.stopped
      if (!isCutInside) yield* readOn(first, request, shown)
      else {
        const { outcome, longer } = yield* askLonger(first, request, shown)
        if (outcome !== first) collector.forgetRejections(rejected, first.rejected)
        yield* readOn(outcome, longer, shown)
      }
    } catch (thrown) {
      giveIn(thrown)
    }
  }

  /** One retry with a doubled output limit for a reply that was cut off inside its first item. */
  async function* askLonger(
    first: Outcome,
    request: CompletionRequest,
    shown: string[],
  ): AsyncGenerator<readonly ReplyEvent[], { outcome: Outcome; longer: CompletionRequest }> {
    const limit = request.sampling?.maxTokens ?? first.usage.completionTokens
    if (!limit || calls.left <= 0) return { outcome: notTooLong(first), longer: request }
    const longer = { ...request, sampling: { ...request.sampling, maxTokens: 2 * limit } }
    try {
      const again = { request: longer, reason: 'longer', shown } as const
      return { outcome: notTooLong(noted(yield* callForItems(asking, collector, again))), longer }
    } catch (thrown) {
      // Where the server does not take the form, nothing was found: the other form may do.
      if (!finalFailure(thrown) || isOutputRefusal(thrown)) throw thrown
      return { outcome: notTooLong(first, thrown), longer: request }
    }
  }

  /** The rest of a reply that was cut off, as far as the limits allow. */
  async function* readOn(first: Outcome, request: CompletionRequest, shown: string[]): ReplyStream {
    let last = first
    for (let count = 0; last.finishReason === 'length' && last.fresh > 0 && !last.stopped; count++) {
      if (count >= maxContinuations) return end(last, true)
      if (calls.left <= 0) throw exhausted()
      const rest = { request: continuationOf(request, shown, form), reason: 'continuation', shown } as const
      last = noted(yield* callForItems(asking, collector, rest))
      // Neither an item nor an honest end: what was cut off is still missing.
      if (last.items === 0 && !last.empty) return end(last, true)
    }
    end(last, last.finishReason === 'length' || last.cut || last.stopped !== undefined)
  }

  function end(last: Outcome, truncated: boolean): void {
    const broken = brokenOff(last.finishReason)
    seen.truncated ||= truncated || broken !== undefined
    seen.cause ??= broken
    seen.cause ??= last.stopped
  }

  /** Items found so far are never lost to what came later: a failure that no retry mends only cuts the reply off. */
  function giveIn(thrown: unknown): void {
    const failure = finalFailure(thrown)
    const isPaidUp = failure?.code === 'cost_limit_reached'
    if (!failure || (collector.accepted === 0 && !isPaidUp)) throw thrown
    seen.truncated = true
    seen.cause ??= { type: failure.code, message: failure.message }
  }

  function isOpen(): boolean {
    if (calls.left > 0) return true
    giveIn(exhausted())
    return false
  }

  async function* askAgain(): ReplyStream {
    const lines = reaskable(collector.rejections)
    if (lines.length === 0 || calls.left <= 0) return
    const request = reaskOf(asking.request(terms), lines, { schema: prompt.jsonSchema, form })
    try {
      yield* callForItems(asking, collector, { request, reason: 'reask', shown: [], lines: new Set(lines) })
    } catch (thrown) {
      // The rejections stand as they are; what may pass is tried again with the whole run.
      if (!finalFailure(thrown)) throw thrown
    }
  }

  /** Takes in what a call about the text tells of the whole reply. */
  function noted(outcome: Outcome): Outcome {
    if (seen.finishReason !== 'content_filter') seen.finishReason = outcome.finishReason
    seen.empty &&= outcome.empty
    seen.opening ||= outcome.opening
    return outcome
  }

  function endOf(): ReplyEnd {
    const { finishReason, truncated, empty, opening, cause } = seen
    const { accepted, repaired, duplicates, reasked, rejected, rejections } = collector
    const rejectedBy = collector.counts()
    return {
      finishReason,
      outputMode: form.outputMode,
      usage: calls.usage(),
      spent: calls.spent(),
      model: calls.model,
      truncated,
      incomplete: incompleteness({
        finishReason,
        truncated,
        empty,
        opening,
        thoughts: rejectedBy['thought'] ?? 0,
        accepted,
        rejected,
        cause,
      }),
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
}

function exhausted(): GraphmillError {
  return new GraphmillError('calls_exhausted', 'The run has made all the model calls that it may make.')
}
