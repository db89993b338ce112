// The calls of one answer: each asks in the current mode, goes on in the next where the server refuses that, and reads the value.

import type { ResolvedMode } from '../../config/models.ts'
import { isSameJson } from '../cache/canonical.ts'
import type { Attempt } from '../call-retry.ts'
import type { CompletionRequest, Usage } from '../llm.ts'
import { invalid } from '../provider-error.ts'
import { readWholeReply, type WholeReply } from '../whole-reply.ts'
import { StructuredOutputInvalid } from './invalid-error.ts'
import type { AnswerJsonOptions, JsonAnswer } from './json-answer.ts'
import { type AnswerPlan, planAnswer } from './modes.ts'
import type { AnswerPath } from './path.ts'
import type { CheckedSchema } from './response-format.ts'
import { answerIn } from './value.ts'

export interface RunOptions {
  readonly options: AnswerJsonOptions
  readonly checked: CheckedSchema | undefined
  /** `strict` for the mode `openai`. */
  readonly strict: boolean
  readonly path: AnswerPath
}

export interface Run {
  /** What the prompt says of the schema. */
  schemaBlock(): string | undefined
  /** One call, and its value. Throws StructuredOutputInvalid where it has none. */
  attempt(attempt: Attempt): Promise<JsonAnswer>
}

/** A run of calls that becomes one answer. Throws `schema_invalid` where the mode cannot give what the schema asks for. */
export function newRun({ options, checked, strict, path }: RunOptions): Run {
  const { refusals, second } = path
  const usages: Usage[] = []
  const unaided = checked && second && (options.unaided ?? refusals.has(checked.schema))
  let current = plan(unaided ? second : path.first)

  function plan(mode: ResolvedMode): AnswerPlan {
    return planAnswer({ ...options, schema: checked?.schema, mode, as: options.as ?? 'example', strict })
  }

  async function ask(added: Attempt['added']): Promise<WholeReply> {
    const { llm, sampling, origin, signal, maxCharacters = 8 * 1024 * 1024 } = options
    const request = {
      messages: [...current.messages, ...added],
      extras: joined(options.extras, current.extras),
      ...(sampling && { sampling }),
      ...(origin && { origin }),
    }
    return readWholeReply(llm.stream(request, signal), { maxCharacters, model: llm.model })
  }

  async function askOrFallBack(added: Attempt['added']): Promise<WholeReply> {
    try {
      return await ask(added)
    } catch (thrown) {
      if (!checked || !second || current.mode === second) throw thrown
      return refusals.goOn({ thrown, schema: checked.schema, extras: options.extras }, () => {
        current = plan(second)
        return ask(added)
      })
    }
  }

  return {
    schemaBlock: () => current.schemaBlock,
    async attempt({ added, attemptIndex }: Attempt): Promise<JsonAnswer> {
      const reply = await askOrFallBack(added)
      usages.push(reply.usage)
      const objects = checked ? checked.schema['type'] === 'object' : current.mode !== 'plain'
      const answer = answerIn(reply.content, { check: checked?.check, objects })
      if (answer.type === 'value')
        return {
          ...reply,
          value: answer.value,
          usage: summed(usages),
          outputMode: current.mode,
          calls: attemptIndex + 1,
        }
      throw new StructuredOutputInvalid({
        code: answer.type === 'not_json' ? 'reply_not_json' : 'reply_schema_failed',
        responseSchema: checked?.schema,
        outputContent: reply.content,
        errorMessage: answer.problem,
        finishReason: reply.finishReason,
        usage: reply.usage,
      })
    },
  }
}

/** The caller's extras and the mode's; one that both name must be the same. */
function joined(own: CompletionRequest['extras'] = {}, modes: AnswerPlan['extras']): AnswerPlan['extras'] {
  const conflict = Object.keys(modes).find(
    (name) => own[name] !== undefined && !isSameJson(own[name], modes[name]),
  )
  if (conflict) throw invalid(`The extra field ${conflict} contradicts the JSON mode's own.`)
  return { ...own, ...modes }
}

function summed(usages: readonly Usage[]): Usage {
  const sum = (count: keyof Usage) =>
    usages.reduce<number | null>((total, usage) => {
      const more = usage[count]
      return total === null || more === null ? null : total + more
    }, 0)
  return {
    promptTokens: sum('promptTokens'),
    completionTokens: sum('completionTokens'),
    totalTokens: sum('totalTokens'),
  }
}
