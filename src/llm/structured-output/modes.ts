// The ways to make a model answer as JSON: the six of tidyprompt's answer_as_json by their names, each with its parameters on
// the wire and its words in the prompt, and OpenArmature's two.
import { type AnswerMode, answerModes, type ResolvedMode } from '../../config/models.ts'
import { isSameJson, wireSchema } from '../cache/canonical.ts'
import type { JsonFormat, JsonSchema, Llm, TextMessage } from '../llm.ts'
import { invalid } from '../provider-error.ts'
import { providers } from '../providers.ts'
import { checkedSchema } from './checked-schema.ts'
import { directiveFor, withSystemText } from './directive.ts'
import { exampleOf } from './json-example.ts'

export interface AnswerPlan {
  readonly mode: ResolvedMode
  readonly messages: readonly TextMessage[]
  /** Fields for the root of the request's body. */
  readonly extras: Readonly<Record<string, unknown>>
  /** What the prompt says about the schema; a reask repeats it. */
  readonly schemaBlock: string | undefined
}

export interface PlanOptions {
  readonly mode: ResolvedMode
  readonly llm: Llm
  readonly messages: readonly TextMessage[]
  readonly schema: JsonSchema | undefined
  /** How the prompt shows the schema. */
  readonly as: 'example' | 'schema'
  /** `strict` on OpenAI's wire. */
  readonly strict: boolean
  /** The mode `native` without `strict`. Default false. */
  readonly loose?: boolean
}

const instruction = 'You must format your response as a JSON object.'

/** What is sent. Throws `schema_invalid` when the mode can give only objects and the schema describes something else. */
export function planAnswer(options: PlanOptions): AnswerPlan {
  const { mode, llm, messages, schema } = options
  const plan = { mode, messages, extras: {}, schemaBlock: undefined }
  if (schema && objectsOnly(mode, llm)) checkedSchema(schema, 'object')
  switch (mode) {
    case 'plain':
      return plan
    case 'text-based':
      return { ...plan, ...instructed(options) }
    case 'native':
      if (!schema) return { ...plan, mode: 'plain' }
      return { ...plan, extras: nativeFields(llm, schema, options.loose) ?? {} }
    case 'fallback':
      if (!schema) return { ...plan, mode: 'plain' }
      return { ...plan, messages: withSystemText(messages, directiveFor(schema, false)) }
    default: {
      const format = formatNamed(mode)!
      if (!schema || mode === format.objectMode)
        return { ...plan, ...instructed(options), extras: format.object ?? {} }
      return { ...plan, extras: format.schema(schema, { name: 'schema', strict: options.strict }) }
    }
  }
}

/** How a model is asked for JSON; undefined when it can be asked only in words. */
export function jsonFormatOf({ provider, jsonFormat }: Llm): JsonFormat | undefined {
  return (jsonFormat ?? providers[provider].jsonFormat) || undefined
}

/** The fields that ask a server for a schema; undefined when it can be asked only in words. */
export function nativeFields(llm: Llm, schema: JsonSchema, loose = false) {
  const format = jsonFormatOf(llm)
  return (loose ? format?.loose?.(schema) : undefined) ?? format?.schema(schema)
}

/** The format that a mode is named after; undefined for all other modes. */
export function formatNamed(mode: AnswerMode | 'plain'): JsonFormat | undefined {
  const formats = Object.values(providers).map(({ jsonFormat }) => jsonFormat || undefined)
  return formats.find(
    (format) => format && [format.schemaMode, format.objectMode].includes(mode as ResolvedMode),
  )
}

/** Whether the server can give only objects in this mode. */
export function objectsOnly(mode: ResolvedMode, llm: Llm): boolean {
  if (mode === 'native') return jsonFormatOf(llm)?.objectsOnly ?? true
  const format = formatNamed(mode)
  return format !== undefined && (format.objectsOnly || mode === format.objectMode)
}

/** The instruction, and the schema if there is one, at the end of the last user message. */
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

/** What `auto` means for a model: its own `jsonType` when that is a mode, else the mode of its JSON format. */
export function autoMode(llm: Llm): ResolvedMode {
  const own = answerModes.find((mode) => mode === llm.jsonType)
  if (own && own !== 'auto') return own
  const format = jsonFormatOf(llm)
  return format ? (format.schemaMode ?? 'native') : 'text-based'
}

/** The caller's extra fields and the request's own. Throws `provider_invalid_request` when a field has two values. */
export function joinedExtras(
  given: Readonly<Record<string, unknown>> = {},
  own: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> {
  const conflict = Object.keys(own).find(
    (name) => given[name] !== undefined && !isSameJson(given[name], own[name]),
  )
  if (conflict) throw invalid(`The extra field ${conflict} contradicts the request's own.`)
  return { ...given, ...own }
}
