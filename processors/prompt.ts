// The prompt processor: a PromptRequest is rendered and sent to the model, and answered in parts on its reply topic.
import { batches } from '../src/batches.ts'
import { isForeign, promptReply, reformed } from '../src/flow/foreign-replies.ts'
import { type Context, defineProcessor, type Outputs } from '../src/flow/processor.ts'
import type { Message } from '../src/messages/envelope.ts'
import type { ProgressInit, PromptResponseInit } from '../src/messages/generated.ts'
import type { Prompt } from '../src/prompt/catalogue/prompt.ts'
import { decodeTerms } from '../src/prompt/catalogue/terms.ts'
import { ask, type LostRun, type RunPart } from '../src/prompt/engine/engine.ts'
import { withRepeats } from '../src/prompt/engine/reply-parts.ts'

/** The most rejections of one message: each has up to 200 characters of text. */
const rejectionLimits = { maxItems: 300 }

/** The prompts whose note was logged. */
const noted = new WeakSet<Prompt>()

export const prompt = defineProcessor({
  name: 'prompt',
  inputs: ['prompt', 'prompt-live'],
  outputs: ['reply', 'rejected', 'progress'],
  // Followed by its process: which chunks are superseded, and which replies in the cache are of erased documents.
  reads: ['contents', 'retractions'],
  maxInFlight: 128,

  async *handle(message: Message<'PromptRequest'>, context: Context): Answers {
    const watch = context.superseded?.watch(message)
    const unit = message.payload.context['unit'] ?? null
    let lost: LostRun | undefined
    try {
      watch?.signal.throwIfAborted()
      const signal = watch ? AbortSignal.any([context.signal, watch.signal]) : context.signal
      const answers = answer(message, { ...context, signal }, (run) => {
        lost = run
      })
      yield* isForeign(message) ? formed(answers, message, context) : answers
    } catch (thrown) {
      if (context.signal.aborted) throw thrown
      if (lost) await (yield { to: 'progress', payload: spentOn(lost, unit) })
      if (!watch?.signal.aborted) throw thrown
      yield { to: 'progress', payload: { kind: 'superseded', unit } }
    } finally {
      watch?.end()
    }
  },

  async *onDead(message, error, context) {
    const { promptId, context: echo } = message.payload
    const isUnset = isForeign(message) && context.prompts.ids().length === 0
    yield {
      to: 'reply',
      payload: {
        promptId,
        run: { id: context.ids.next(), startedAt: context.clock.now() },
        endOfStream: true,
        error: { type: isUnset ? 'no-configuration' : error.code, message: error.message },
        // Every reply part must fit a message.
        context: error.code === 'context_too_large' ? {} : echo,
      },
    }
  },
})

type Answers = Outputs<'reply' | 'rejected' | 'progress'>

async function* answer(
  { documentId, versionTime, payload, traceparent }: Message<'PromptRequest'>,
  context: Context,
  onLost: (lost: LostRun) => void,
): Answers {
  const { promptId, streaming, context: echo, grounding, repeat } = payload
  const { llm, limits, replies, scope, signal, ids, clock } = context
  const prompt = context.prompts.get(promptId)
  const terms = decodeTerms(payload.terms)
  const newRun = () => ({ id: ids.next(), startedAt: clock.now() })
  const { workspace } = scope
  const owner = documentId ? { workspace, documentId, versionTime } : undefined
  const cache = replies && { replies, workspace, owner }
  const onNote = (note: string) => {
    if (!noted.has(prompt)) context.log.warn({ promptId }, note)
    noted.add(prompt)
  }
  const cause = traceparent ?? undefined
  const request = {
    prompt,
    terms,
    llm,
    streaming,
    grounding,
    newRun,
    limits,
    cache,
    onNote,
    onLost,
    signal,
    traceparent: cause,
  }
  let seq = 0
  const parts = ask(request)
  for await (const runPart of repeat && prompt.responseType === 'jsonl' ? withRepeats(parts) : parts) {
    const { run, end } = runPart
    for (const batch of batches(end?.rejections ?? [], rejectionLimits)) {
      const items = batch.map(({ reason, line, text, message }) => ({ reason, line, text, message }))
      yield { to: 'rejected', payload: { promptId, run, model: end!.model, items } }
    }
    if (end?.cause) context.log.warn({ cause: end.cause }, 'reply stayed incomplete')
    await (yield {
      to: 'reply',
      payload: { promptId, run, model: llm.model, context: echo, seq: seq++, ...replyPartOf(runPart) },
    })
  }
}

function formed(answers: Answers, { payload }: Message<'PromptRequest'>, { prompts }: Context): Answers {
  const { promptId, streaming } = payload
  const kind = prompts.find(promptId)?.responseType ?? 'text'
  return reformed(answers, 'reply', (parts) => promptReply(parts, { kind, streaming }))
}

function spentOn({ run, model, spent }: LostRun, unit: string | null): ProgressInit {
  return { kind: 'spent', unit, run, model, usage: { spent } }
}

function replyPartOf({
  text,
  object,
  groundings,
  accepted,
  rejected,
  repeated,
  end,
}: RunPart): Omit<PromptResponseInit, 'run'> {
  return {
    text,
    object,
    groundings,
    accepted,
    rejected,
    repeated: repeated ?? null,
    endOfStream: end !== undefined,
    ...(end && {
      model: end.model,
      outputMode: end.outputMode ?? null,
      finishReason: end.finishReason,
      truncated: end.truncated,
      incomplete: end.incomplete ?? null,
      cause: end.cause ?? null,
      rejections: { ...end.rejectedBy },
      repaired: end.repaired,
      duplicates: end.duplicates,
      reasked: end.reasked,
      usage: { ...end.usage, spent: end.spent },
    }),
  }
}
