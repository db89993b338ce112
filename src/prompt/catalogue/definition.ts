// A prompt as a file defines it, checked key by key. The keys are TrustGraph's (`prompt`, `response-type`, `schema`) and ours.
import { type AnswerMode, answerModes, modeHints } from '../../config/models.ts'
import { isObject } from '../../is-object.ts'
import type { JsonSchema, Sampling } from '../../llm/llm.ts'
import { type Dialect, dialects } from '../template/dialect.ts'
import { forbiddenNames } from '../template/tree.ts'
import { suggest } from './problem.ts'
import type { KeyPath, Report } from './source.ts'

const responseTypes = ['text', 'json', 'jsonl'] as const
export type ResponseType = (typeof responseTypes)[number]

/** The terms of a request, and a reply that the prompt asks for; a test renders and validates each. */
export interface PromptExample {
  readonly terms: Readonly<Record<string, unknown>>
  /** What a model would write. */
  readonly reply?: string
  /** For jsonl: the items of the reply. */
  readonly items?: readonly unknown[]
  /** For json: the value of the reply. */
  readonly value?: unknown
}

export interface PromptDefinition {
  readonly id: string
  /** The template. */
  readonly prompt: string
  readonly dialect: Dialect
  readonly responseType: ResponseType
  readonly schema?: JsonSchema
  /** Defaults of terms; a request's own override them. */
  readonly terms: Readonly<Record<string, unknown>>
  readonly examples: readonly PromptExample[]
  readonly description?: string
  readonly outputMode?: AnswerMode
  readonly sampling: Sampling
  /** How often a reply that stopped at the token limit is continued. */
  readonly maxContinuations?: number
  /** Other ids of the same prompt. */
  readonly aliases: readonly string[]
}

/** `prompts/system.yaml`: the template of the system message, and terms for every prompt. */
export interface SystemDefinition {
  readonly prompt?: string
  readonly dialect: Dialect
  readonly terms: Readonly<Record<string, unknown>>
}

interface FieldCheck {
  readonly accepts: (value: unknown) => boolean
  readonly what: string
  /** What is said about a wrong value, beginning with a space. */
  readonly hints?: Readonly<Record<string, string>>
}

const isText = (value: unknown): boolean => typeof value === 'string' && value.trim() !== ''
const isWhole = (least: number) => (value: unknown) =>
  Number.isSafeInteger(value) && (value as number) >= least
const oneOf = (names: readonly string[]): FieldCheck => ({
  accepts: (value) => names.includes(value as string),
  what: `one of ${names.join(', ')}`,
})
const text: FieldCheck = { accepts: isText, what: 'text' }
const object: FieldCheck = { accepts: isObject, what: 'an object' }

const promptChecks: Readonly<Record<string, FieldCheck>> = {
  prompt: text,
  dialect: oneOf(dialects),
  'response-type': oneOf(responseTypes),
  schema: object,
  'object-schema': object,
  terms: object,
  examples: { accepts: Array.isArray, what: 'a list' },
  description: text,
  'output-mode': { ...oneOf(answerModes), hints: modeHints },
  temperature: { accepts: (value) => typeof value === 'number' && value >= 0, what: 'a number from 0' },
  'max-tokens': { accepts: isWhole(1), what: 'a whole number from 1' },
  'max-continuations': { accepts: isWhole(0), what: 'a whole number from 0' },
  aliases: { accepts: (value) => Array.isArray(value) && value.every(isText), what: 'a list of ids' },
}

const systemChecks: Readonly<Record<string, FieldCheck>> = {
  prompt: text,
  dialect: oneOf(dialects),
  terms: object,
  description: text,
}

const exampleChecks: Readonly<Record<string, FieldCheck>> = {
  terms: object,
  reply: { accepts: (value) => typeof value === 'string', what: 'text' },
  items: { accepts: Array.isArray, what: 'a list' },
  value: { accepts: () => true, what: 'a value' },
}

export interface DefinitionOptions {
  readonly at: KeyPath
  readonly report: Report
  /** Ignore unknown keys unless they look like a typing error: TrustGraph reads three keys and ignores the rest. */
  readonly lenient?: boolean
  /** That of a definition which names none; by default graphmill's. */
  readonly dialect?: Dialect
}

/** The prompt, or undefined when a problem was reported. */
export function readPrompt(
  id: string,
  value: unknown,
  options: DefinitionOptions,
): PromptDefinition | undefined {
  const { at, report } = options
  const fields = readFields(value, promptChecks, options)
  if (fields === undefined) return undefined
  if (fields['prompt'] === undefined) {
    report(at, 'the key "prompt" is missing')
    return undefined
  }
  if (fields['schema'] !== undefined && fields['object-schema'] !== undefined) {
    report([...at, 'object-schema'], 'another name for "schema", which is there too')
    return undefined
  }
  const terms = readTerms(fields['terms'], options)
  const examples = readExamples(fields['examples'], options)
  if (terms === undefined || examples === undefined) return undefined
  return {
    id,
    prompt: fields['prompt'] as string,
    dialect: dialectOf(fields, options),
    responseType: (fields['response-type'] ?? 'text') as ResponseType,
    terms,
    examples,
    aliases: (fields['aliases'] ?? []) as string[],
    sampling: present<Sampling>({ temperature: fields['temperature'], maxTokens: fields['max-tokens'] }),
    ...present<Partial<PromptDefinition>>({
      schema: fields['schema'] ?? fields['object-schema'],
      description: fields['description'],
      outputMode: fields['output-mode'],
      maxContinuations: fields['max-continuations'],
    }),
  }
}

/** The system template and global terms, or undefined when a problem was reported. */
export function readSystem(value: unknown, options: DefinitionOptions): SystemDefinition | undefined {
  const fields = readFields(value, systemChecks, options)
  const terms = fields && readTerms(fields['terms'], options)
  return (
    terms && {
      terms,
      dialect: dialectOf(fields, options),
      ...present<Partial<SystemDefinition>>({ prompt: fields['prompt'] }),
    }
  )
}

function dialectOf(
  fields: Readonly<Record<string, unknown>>,
  { dialect = 'graphmill' }: DefinitionOptions,
): Dialect {
  return (fields['dialect'] as Dialect | undefined) ?? dialect
}

/** The values of the known keys; null counts as absent. */
function readFields(
  value: unknown,
  checks: Readonly<Record<string, FieldCheck>>,
  { at, report, lenient = false }: DefinitionOptions,
): Readonly<Record<string, unknown>> | undefined {
  if (!isObject(value)) {
    report(at, `must be an object with the keys ${Object.keys(checks).join(', ')}`)
    return undefined
  }
  let sound = true
  const fields: Record<string, unknown> = {}
  for (const [key, field] of Object.entries(value)) {
    const check = Object.hasOwn(checks, key) ? checks[key] : undefined
    const slip = check === undefined ? suggest(key, Object.keys(checks)) : ''
    if (check === undefined && lenient && slip === '') continue
    if (check === undefined) report([...at, key], `unknown key${slip}`)
    else if (field === null) continue
    else if (!check.accepts(field))
      report([...at, key], `must be ${check.what}${check.hints?.[String(field)] ?? ''}`)
    else {
      fields[key] = field
      continue
    }
    sound = false
  }
  return sound ? fields : undefined
}

/** Terms whose names a template can write. */
function readTerms(
  value: unknown,
  { at, report }: DefinitionOptions,
): Readonly<Record<string, unknown>> | undefined {
  const terms = (value ?? {}) as Readonly<Record<string, unknown>>
  const unwritable = Object.keys(terms).filter(
    (name) => !/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) || forbiddenNames.has(name),
  )
  for (const name of unwritable)
    report([...at, 'terms', name], 'a template cannot name this term: use letters, digits and _')
  return unwritable.length > 0 ? undefined : terms
}

function readExamples(value: unknown, options: DefinitionOptions): readonly PromptExample[] | undefined {
  const examples = ((value ?? []) as readonly unknown[]).map((example, index) => {
    const at = [...options.at, 'examples', index]
    const fields = readFields(example, exampleChecks, { ...options, at })
    return fields && ({ ...fields, terms: fields['terms'] ?? {} } as PromptExample)
  })
  return examples.every((example) => example !== undefined) ? examples : undefined
}

/** The entries that have a value. */
function present<T>(fields: Readonly<Record<string, unknown>>): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
}
