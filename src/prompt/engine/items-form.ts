// The form in which a model writes items: one JSON object a line or, when the server constrains the reply to a schema, one
// object whose only key holds them all. In both forms items leave one by one, and survive a cut.
import type { ResolvedMode } from '../../config/models.ts'
import type { ItemsOptions } from '../../items/item.ts'
import type { ItemSchema } from '../../items/validate.ts'
import { wireSchema } from '../../llm/cache/canonical.ts'
import type { CompletionRequest, JsonFormat, JsonSchema, Llm } from '../../llm/llm.ts'
import { withSystemText } from '../../llm/structured-output/directive.ts'
import { formatNamed, jsonFormatOf } from '../../llm/structured-output/modes.ts'
import type { Way } from '../../llm/structured-output/schema-refusal.ts'
import { type StrictCopy, strictCopy } from '../../llm/structured-output/strict-schema.ts'
import type { Prompt } from '../catalogue/prompt.ts'

export interface ItemsForm {
  /** How the model is asked for items: lines are `text-based`. */
  readonly outputMode: ResolvedMode
  readonly parser: ItemsOptions
  /** What an item must be. */
  readonly schema: ItemSchema | undefined
  /** Items as the model would write them. */
  readonly write: (items: readonly string[]) => string
  /** What the model writes when there is no item; empty when it writes nothing. */
  readonly none: string
  /** Adds to a request what makes the model keep to this form. */
  readonly constrain: (request: CompletionRequest) => CompletionRequest
}

export interface ItemsForms {
  /** What to ask in, one after the other, when the server does not take or ignores a form. */
  readonly ways: readonly [Way<ItemsForm>, ...Way<ItemsForm>[]]
  /** Why it is not what was wanted, for the operator. */
  readonly note?: string
}

/**
 * The form for a prompt: that of its output mode, or of the model's. For `auto`, and by default, it is the server's own
 * constraint when the server is known to keep to a schema and supports this one, else lines.
 */
export async function chooseForm(prompt: Prompt, llm: Llm, signal: AbortSignal): Promise<ItemsForms> {
  const { outputMode: mode = llm.outputMode ?? 'auto', jsonSchema } = prompt
  const own = jsonFormatOf(llm)
  const inWords = mode === 'text-based' || mode === 'fallback'
  if (prompt.responseType !== 'jsonl' || inWords || !own) return only(linesForm(prompt))
  const format = formatNamed(mode) ?? own
  if (mode === format.objectMode) return only(wrappedForm(prompt, format.objectMode, format.object))
  const copy = jsonSchema ? copyOf(jsonSchema) : { problem: 'there is no schema' }
  if ('problem' in copy) {
    const note = `The schema of ${prompt.id} cannot be sent to the server: ${copy.problem}. Its model is asked for lines.`
    const isWanted = mode !== 'auto' || (jsonSchema && (await llm.constrains?.(signal)))
    return { ...only(linesForm(prompt)), ...(isWanted && { note }) }
  }
  if (mode === 'auto' && !(await llm.constrains?.(signal))) return only(linesForm(prompt))
  const native = (extras: CompletionRequest['extras']) =>
    wrappedForm(prompt, mode === 'auto' ? 'native' : mode, extras, copy)
  const loose = format.loose?.(listOf(copy.schema))
  return {
    ways: [
      { aid: 'server', mode: native(constraintIn(format)(copy.schema)) },
      ...(loose ? [{ aid: 'loose', mode: native(loose) } as const] : []),
      ...(mode === 'auto' ? [{ aid: 'prompt', mode: linesForm(prompt, jsonSchema) } as const] : []),
    ],
  }
}

function only(mode: ItemsForm): ItemsForms {
  return { ways: [{ aid: 'server', mode }] }
}

/** The same function, called once for each key: a prompt's schema goes to the server with every chunk. */
function onceFor<K extends object, T>(make: (key: K) => T): (key: K) => T {
  const made = new WeakMap<K, T>()
  return (key) => {
    const known = made.get(key) ?? make(key)
    made.set(key, known)
    return known
  }
}

const copyOf = onceFor(strictCopy)
const constraintIn = onceFor((format: JsonFormat) =>
  onceFor((item: JsonSchema) => format.schema(listOf(item))),
)

function listOf(item: JsonSchema): JsonSchema {
  return {
    type: 'object',
    properties: { items: { type: 'array', items: item } },
    required: ['items'],
    additionalProperties: false,
  }
}

/** `shown`: the schema that the system message shows. */
function linesForm({ schema }: Prompt, shown?: JsonSchema): ItemsForm {
  const words =
    shown && `Each line must be valid against this JSON Schema:\n${JSON.stringify(wireSchema(shown))}`
  return {
    outputMode: 'text-based',
    parser: {},
    schema,
    write: (items) => items.join('\n'),
    none: '',
    constrain: (request) =>
      words ? { ...request, messages: withSystemText(request.messages, words) } : request,
  }
}

const sentence =
  'Where one JSON object a line is asked for, put these objects into the list "items" of one JSON object: {"items": [...]}.'

function wrappedForm(
  prompt: Prompt,
  outputMode: ResolvedMode,
  extras: CompletionRequest['extras'],
  copy?: StrictCopy,
): ItemsForm {
  const asWritten = (item: string) => (copy ? JSON.stringify(copy.fill(JSON.parse(item))) : item)
  return {
    outputMode,
    parser: { root: '/items' },
    schema: prompt.schema && copy ? stripping(prompt.schema, copy) : prompt.schema,
    write: (items) => `{"items": [${items.map(asWritten).join(', ')}]}`,
    none: '{"items": []}',
    constrain: (request) => ({
      ...request,
      messages: withSystemText(request.messages, sentence),
      extras: { ...request.extras, ...extras },
    }),
  }
}

/** The schema, which first brings every value back from the server's strict copy: the value is changed in place. */
function stripping(schema: ItemSchema, { strip }: StrictCopy): ItemSchema {
  const afterStrip = <A extends unknown[], R>(check: (value: unknown, ...more: A) => R) => {
    return (value: unknown, ...more: A): R => {
      strip(value)
      return check(value, ...more)
    }
  }
  return {
    ...schema,
    test: afterStrip(schema.test),
    check: afterStrip(schema.check),
    adjust: afterStrip(schema.adjust),
  }
}
