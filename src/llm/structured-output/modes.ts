// The ways to make a model answer as JSON: the six of tidyprompt's answer_as_json by their names, each with its parameters on
// the wire and its words in the prompt, and OpenArmature's two. `strict` never stands inside Ollama's `format`.
import { isObject } from '../../is-object.ts'
import { wireSchema } from '../cache/canonical.ts'
import type { JsonSchema, Llm, TextMessage } from '../llm.ts'
import { exampleOf } from './json-example.ts'
import { checkedSchema, responseFormat, withDirective } from './response-format.ts'

/** `native` and `fallback` are OpenArmature's: constrained by the server, or asked for in the system message. */
export const answerModes = [
  'auto',
  'text-based',
  'openai',
  'ollama',
  'openai_oo',
  'ollama_oo',
  'native',
  'fallback',
] as const

export type AnswerMode = (typeof answerModes)[number]

/** A mode that was chosen; `plain` asks for nothing. */
export type ResolvedMode = Exclude<AnswerMode, 'auto'> | 'plain'

export interface AnswerPlan {
  readonly mode: ResolvedMode
  readonly messages: readonly TextMessage[]
  /** Fields for the root of the request's body. */
  readonly extras: Readonly<Record<string, unknown>>
  /** What the prompt says of the schema, for feedback to say again. */
  readonly schemaBlock: string | undefined
}

export interface PlanOptions {
  readonly mode: ResolvedMode
  readonly llm: Llm
  readonly messages: readonly TextMessage[]
  readonly schema: JsonSchema | undefined
  /** How the schema stands in the prompt. */
  readonly as: 'example' | 'schema'
  /** `strict` on OpenAI's wire. */
  readonly strict: boolean
}

export const instruction = 'You must format your response as a JSON object.'

/** What is sent. Throws `schema_invalid` where the mode can only give objects and the schema asks for something else. */
export function planAnswer(options: PlanOptions): AnswerPlan {
  const { mode, llm, messages, schema } = options
  const plan = { mode, messages, extras: {}, schemaBlock: undefined }
  if (schema && objectsOnly(mode, llm)) checkedSchema(schema, 'object')
  switch (mode) {
    case 'plain':
      return plan
    case 'text-based':
      return { ...plan, ...instructed(options) }
    case 'openai':
      if (!schema) return { ...plan, ...instructed(options), extras: jsonObject }
      return { ...plan, extras: openAiFormat(schema, options.strict) }
    case 'openai_oo':
      return { ...plan, ...instructed(options), extras: jsonObject }
    case 'ollama':
      if (!schema) return { ...plan, ...instructed(options), extras: { format: 'json' } }
      return { ...plan, extras: { format: wireSchema(schema) } }
    case 'ollama_oo':
      return { ...plan, ...instructed(options), extras: { format: 'json' } }
    case 'native':
      if (!schema) return { ...plan, mode: 'plain' }
      if (llm.provider === 'ollama') return { ...plan, extras: { format: wireSchema(schema) } }
      return { ...plan, extras: { response_format: responseFormat(schema) } }
    case 'fallback':
      if (!schema) return { ...plan, mode: 'plain' }
      return { ...plan, messages: withDirective(messages, schema, false) as TextMessage[] }
    default:
      return mode satisfies never
  }
}

/** Whether the server can then give nothing but objects. */
export function objectsOnly(mode: ResolvedMode, llm: Llm): boolean {
  if (mode === 'native') return llm.provider !== 'ollama'
  return mode === 'openai' || mode === 'openai_oo' || mode === 'ollama_oo'
}

const jsonObject = { response_format: { type: 'json_object' } }

function openAiFormat(schema: JsonSchema, strict: boolean) {
  const json_schema = { name: 'schema', schema: wireSchema(schema), strict }
  return { response_format: { type: 'json_schema', json_schema } }
}

/** The instruction, and the schema where there is one, at the end of the last user message. */
function instructed({ messages, schema, as }: PlanOptions): Pick<AnswerPlan, 'messages' | 'schemaBlock'> {
  const schemaBlock = schema && blockOf(schema, as)
  const words = ['', instruction, ...(schemaBlock === undefined ? [] : [schemaBlock])].join('\n\n')
  const last = messages.findLastIndex(({ role }) => role === 'user')
  return {
    schemaBlock,
    messages: messages.map((message, index) =>
      index === last ? { ...message, content: message.content + words } : message,
    ),
  }
}

function blockOf(schema: JsonSchema, as: PlanOptions['as']): string {
  const ordered = wireSchema(schema) as JsonSchema
  const [what, shown] =
    as === 'example' ? ['example JSON object', exampleOf(ordered)] : ['JSON schema', ordered]
  return `Your JSON object should match this ${what}:\n${JSON.stringify(shown, null, 2)}`
}

/** What `auto` means for a model: its own `jsonType` where that is a mode, else by the kind of its server. */
export function autoMode(llm: Llm): ResolvedMode {
  const own = answerModes.find((mode) => mode === llm.jsonType)
  if (own && own !== 'auto') return own
  return llm.provider === 'openai' || llm.provider === 'ollama' ? llm.provider : 'text-based'
}

export interface Unwrapped {
  readonly schema: JsonSchema
  /** What a wrapper said of `strict`. */
  readonly strict: boolean | undefined
}

/** The schema in one of OpenAI's three wrappers: `response_format`, `json_schema`, or a name beside a `schema`. */
export function unwrapped(given: JsonSchema): Unwrapped {
  const strict = typeof given['strict'] === 'boolean' ? given['strict'] : undefined
  const inner = innerOf(given)
  if (!inner) return { schema: given, strict: undefined }
  const below = unwrapped(inner)
  return { schema: below.schema, strict: below.strict ?? strict }
}

function innerOf(given: JsonSchema): JsonSchema | undefined {
  const { response_format: format, json_schema: named, schema, type } = given
  if (isObject(format) && isObject(format['json_schema'])) return format['json_schema']
  if (isObject(named)) return named
  // A schema of its own may have a keyword of this name; it then says what it describes.
  const isWrapper = (type === undefined || type === 'json_schema') && !('properties' in given)
  return isObject(schema) && isWrapper ? schema : undefined
}
