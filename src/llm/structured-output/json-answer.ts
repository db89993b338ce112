// A checked JSON value from any model that streams text, in one of the modes. Every reply is evaluated, the last too; a reply
// that cannot be used is answered with what is wrong, as often as `reask` says; the end is a typed error with the last output.

import { type AnswerMode, answerModes, type ResolvedMode } from '../../config/models.ts'
import { runAttempts } from '../call-retry.ts'
import type { CompletionRequest, FinishReason, JsonSchema, Llm, TextMessage, Usage } from '../llm.ts'
import { newRun } from './attempts.ts'
import { feedbackOn } from './feedback.ts'
import { answerPath } from './path.ts'
import { checkedSchema } from './response-format.ts'
import { unwrapped } from './unwrapped.ts'

export interface AnswerJsonOptions extends Omit<CompletionRequest, 'messages'> {
  readonly llm: Llm
  /** With a user message; none of them is changed. */
  readonly messages: readonly TextMessage[]
  /** Bare, or in one of OpenAI's three wrappers. Default: any JSON will do. */
  readonly schema?: JsonSchema | undefined
  /**
   * Default: the model's own `outputMode`; without one, with a schema as `native`, and as `fallback` where the server refuses that or the schema is not one of objects;
   * without a schema nothing is asked for, and the JSON is looked for in the reply.
   */
  readonly mode?: AnswerMode | undefined
  /** Whether to do without the server's own constraint, where no mode is named. Default: where the server has refused it. */
  readonly unaided?: boolean | undefined
  /** How often a reply that cannot be used is answered. Default 1. */
  readonly reask?: number | undefined
  /** How a schema stands in the prompt. Default `example`. */
  readonly as?: 'example' | 'schema' | undefined
  /** `strict` for the mode `openai`. Default: what a wrapper says, else false. */
  readonly schemaStrict?: boolean | undefined
  /** Whether `auto` warns, once a model, that it may choose wrongly. Default true. */
  readonly warnAuto?: boolean | undefined
  /** Default: `process.emitWarning`. */
  readonly onWarning?: ((message: string) => void) | undefined
  /** The longest reply in characters. Default 8 Mi. */
  readonly maxCharacters?: number | undefined
  readonly signal: AbortSignal
}

export interface JsonAnswer {
  readonly value: unknown
  /** The last reply, verbatim. */
  readonly content: string
  readonly finishReason: FinishReason
  /** Of all calls together; null where one of them did not say. */
  readonly usage: Usage
  readonly model: string
  readonly outputMode: ResolvedMode
  /** How often the model was called. */
  readonly calls: number
}

/**
 * Throws TypeError for a mode that does not exist or an empty schema, `schema_invalid` for a schema that cannot be used,
 * StructuredOutputInvalid for the last reply when none could be used, and whatever the model throws: nothing else is tried again.
 */
export async function answerJson(options: AnswerJsonOptions): Promise<JsonAnswer> {
  const { reask = 1, signal } = options
  const { schema, strict } = schemaOf(options)
  const checked = schema && checkedSchema(schema, 'any')
  const run = newRun({ options, checked, strict, path: answerPath(options, checked) })
  return runAttempts(
    {
      policy: {
        maxAttempts: reask + 1,
        classifier: () => false,
        backoff: () => 0,
        reask: (context) => feedbackOn(run.schemaBlock())(context),
      },
      signal,
    },
    run.attempt,
  )
}

function schemaOf(options: AnswerJsonOptions): { schema: JsonSchema | undefined; strict: boolean } {
  const { schema: given, mode, as = 'example', schemaStrict, reask = 1 } = options
  if (mode !== undefined && !answerModes.includes(mode))
    throw new TypeError(`There is no mode ${String(mode)}; there are ${answerModes.join(', ')}.`)
  if (as !== 'example' && as !== 'schema')
    throw new TypeError(`A schema stands in the prompt as example or as schema, not as ${String(as)}.`)
  if (!Number.isInteger(reask) || reask < 0) throw new TypeError('reask must be 0 or more.')
  if (given === undefined) return { schema: undefined, strict: schemaStrict ?? false }
  if (typeof given !== 'object' || given === null || Array.isArray(given) || Object.keys(given).length === 0)
    throw new TypeError('The schema must be an object that is not empty.')
  const { schema, strict = false } = unwrapped(given)
  return { schema, strict: schemaStrict ?? strict }
}
