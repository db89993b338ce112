// A checked JSON value from any model that streams text, in one of the modes. A reply that cannot be used is answered with what
// is wrong, as often as `reask` says. The last reply is evaluated too; if it cannot be used, it is in the error.
import { type AnswerMode, answerModes, modeHints, type ResolvedMode } from '../../config/models.ts'
import { isObject } from '../../is-object.ts'
import type { RepairName } from '../../items/item.ts'
import type { CompletionRequest, FinishReason, JsonSchema, Llm, TextMessage, Usage } from '../llm.ts'
import { sumOfUsages } from '../usage.ts'
import { checkedSchema } from './checked-schema.ts'
import { feedbackOn } from './feedback.ts'
import { answerPath } from './mode-choice.ts'
import { type AnswerPlan, joinedExtras, planAnswer } from './modes.ts'
import type { Aid } from './schema-refusal.ts'
import { callStructured } from './structured-call.ts'
import { unwrapped } from './unwrapped.ts'
import { foundValue } from './value.ts'
import { readWholeReply } from './whole-reply.ts'

/** What value is asked for, and how. */
export interface AnswerJsonOptions extends Omit<CompletionRequest, 'messages'> {
  readonly llm: Llm
  /** At least one user message; none of them is changed. */
  readonly messages: readonly TextMessage[]
  /** Bare, or in one of OpenAI's three wrappers. Default: any JSON will do. */
  readonly schema?: JsonSchema | undefined
  /**
   * Default: the model's own `outputMode`. Without one, a schema is asked for as `native`, and as `fallback` when the server
   * refuses that or the schema does not describe an object. Without a schema the JSON is only searched for in the reply.
   */
  readonly mode?: AnswerMode | undefined
  /** Who is responsible for the schema, when no mode is named. Default: the server, until it has refused or ignored that. */
  readonly aid?: Aid | undefined
  /** Receives who is responsible for the schema at first, if that may change, and after each refusal. */
  readonly onWay?: ((aid: Aid) => void) | undefined
  /** Receives a sentence when the server turns out not to take a schema, or not to keep to it. Default: `onWarning`. */
  readonly onNote?: ((note: string) => void) | undefined
  /** Whether an invalid reply may be followed by another call. Default: always. */
  readonly mayAsk?: (() => boolean) | undefined
  /** How often the model is asked again after an unusable reply; with twice the limit if the limit cut it off. Default 1. */
  readonly reask?: number | undefined
  /** How the prompt shows a schema. Default `example`. */
  readonly as?: 'example' | 'schema' | undefined
  /** `strict` for the mode `openai`. Default: what a wrapper says, else false. */
  readonly schemaStrict?: boolean | undefined
  /** Whether `auto` warns, once for each model, that it may choose wrongly. Default true. */
  readonly warnAuto?: boolean | undefined
  /** Default: `process.emitWarning`. */
  readonly onWarning?: ((message: string) => void) | undefined
  /** The longest reply in characters. Default 8 Mi. */
  readonly maxCharacters?: number | undefined
  readonly signal: AbortSignal
}

/** The value that was asked for, and how it came about. */
export interface JsonAnswer {
  readonly value: unknown
  /** How the value was changed to be read, or to fit the schema; empty when it stands so in the reply. */
  readonly repairs: readonly RepairName[]
  /** The last reply, verbatim. */
  readonly content: string
  readonly finishReason: FinishReason
  /** Of all calls together; null when one of them did not report it. */
  readonly usage: Usage
  readonly model: string
  readonly outputMode: ResolvedMode
  /** How often the model was called. */
  readonly calls: number
  /** The model repeated itself without end behind the value, and was stopped. */
  readonly repeats?: boolean
}

/**
 * Throws TypeError for a mode that does not exist or an empty schema, `schema_invalid` for a schema that cannot be used,
 * StructuredOutputInvalid for the last reply when none could be used, and what the model throws: that is not tried again.
 */
export async function answerJson(options: AnswerJsonOptions): Promise<JsonAnswer> {
  const {
    llm,
    sampling,
    origin,
    signal,
    reask = 1,
    as = 'example',
    maxCharacters = 8 * 1024 * 1024,
  } = options
  const { schema: given, strict } = schemaOf(options)
  const checked = given && checkedSchema(given, 'any')
  const usages: Usage[] = []
  let plan: AnswerPlan
  let maxTokens = sampling?.maxTokens
  let repairs: readonly RepairName[] = []

  const { reply, value } = await callStructured({
    schema: checked,
    path: answerPath(options, checked),
    aid: options.aid,
    onWay: options.onWay,
    onNote: options.onNote ?? options.onWarning ?? ((note) => process.emitWarning(note)),
    mayAsk: options.mayAsk,
    extrasOf: () => options.extras,
    signal,
    retry: {
      maxAttempts: reask + 1,
      classifier: () => false,
      backoff: () => 0,
      reask: (context) => feedbackOn(context, plan.schemaBlock),
    },
    hasMoreRoom({ usage: { completionTokens } }) {
      const limit = maxTokens ?? completionTokens
      // Without a count the limit is not known.
      if (limit === null || limit === 0) return false
      maxTokens = 2 * limit
      return true
    },
    async ask({ mode, aid }, { added }) {
      plan = planAnswer({ ...options, schema: checked?.schema, mode, as, strict, loose: aid === 'loose' })
      const request = {
        messages: [...plan.messages, ...added],
        extras: joinedExtras(options.extras, plan.extras),
        ...((sampling || maxTokens !== undefined) && {
          sampling: { ...sampling, ...(maxTokens !== undefined && { maxTokens }) },
        }),
        ...(origin && { origin }),
      }
      const reply = await readWholeReply(llm, request, { maxCharacters, signal })
      usages.push(reply.usage)
      return { ...reply, outputMode: plan.mode }
    },
    textOf: ({ content }) => content,
    find(text) {
      const objects = checked ? checked.items.isOfObjects : plan.mode !== 'plain'
      const found = foundValue(text, { schema: checked?.items, objects })
      repairs = found.type === 'value' ? found.repairs : []
      return found
    },
  })
  const { content, finishReason, model, outputMode, repeats } = reply
  const usage = sumOfUsages(usages)
  const known = { value, repairs, content, finishReason, usage, model, outputMode, calls: usages.length }
  return { ...known, ...(repeats && { repeats }) }
}

function schemaOf(options: AnswerJsonOptions): { schema: JsonSchema | undefined; strict: boolean } {
  const { schema: given, mode, as = 'example', schemaStrict, reask = 1 } = options
  if (mode !== undefined && !answerModes.includes(mode))
    throw new TypeError(
      `There is no mode ${String(mode)}; there are ${answerModes.join(', ')}.${modeHints[mode] ?? ''}`,
    )
  if (as !== 'example' && as !== 'schema')
    throw new TypeError(`A schema stands in the prompt as example or as schema, not as ${String(as)}.`)
  if (!Number.isInteger(reask) || reask < 0) throw new TypeError('reask must be 0 or more.')
  if (given === undefined) return { schema: undefined, strict: schemaStrict ?? false }
  if (!isObject(given) || Object.keys(given).length === 0)
    throw new TypeError('The schema must be an object that is not empty.')
  const { schema, strict = false } = unwrapped(given)
  return { schema, strict: schemaStrict ?? strict }
}
