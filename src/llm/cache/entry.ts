// What the cache keeps of a run: the raw texts of its calls in order and, after its end, where its parts were cut. Items are not
// stored: every replay reads them from the texts again.
import { type ErrorCode, errorTable } from '../../errors.ts'
import { isObject } from '../../is-object.ts'
import { jsonValue } from '../../json-value.ts'
import type { FinishReason, Usage } from '../llm.ts'
import { type Aid, aids } from '../structured-output/schema-refusal.ts'

/** Why the model was called. `longer`: again with a doubled output limit. `cached`: it was not called, the cache had the reply. */
export type CallReason = 'first' | 'continuation' | 'longer' | 'reask' | 'split' | 'cached'

export interface RecordedCall {
  /** That of the request, by `requestDigest`. */
  readonly digest: string
  /** What the model wrote, without its thoughts. */
  readonly text: string
  readonly finishReason: FinishReason
  readonly usage: Usage
  readonly model: string
  /** The model sent thoughts too. */
  readonly reasoned: boolean
  /** A failure after `text` that a retry would meet again. Its finish reason and its tokens are then unknown. */
  readonly failure: Failure | null
}

/** An error code, and its message. */
export interface Failure {
  readonly code: ErrorCode
  readonly message: string
}

export interface RunEntry {
  readonly run: { readonly id: string; readonly startedAt: number }
  readonly calls: readonly RecordedCall[]
  /** Who is responsible for the schema in the first call, if that may change. The run's key is always that of the first way. */
  readonly aid?: Aid
  /** How the reply was read, once the run has ended. A reply that is read in another way is another run. */
  readonly form?: string
  /** The sizes of its parts in items or characters, and whether it was streamed, once the run has ended. */
  readonly cut?: { readonly streaming: boolean; readonly cuts: readonly number[] }
}

/** The entry in a text; undefined for anything else. */
export function parseEntry(text: string): RunEntry | undefined {
  const value = jsonValue(text)
  return isEntry(value) ? value : undefined
}

// The folder may hold entries of another version, or foreign files: each field is checked before it is used.
type Check = (value: unknown) => boolean

const isText: Check = (value) => typeof value === 'string'
const isFlag: Check = (value) => typeof value === 'boolean'
const isNumber: Check = (value) => typeof value === 'number'
const isCount: Check = (value) => typeof value === 'number' && value >= 0
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check)
const nullOr =
  (check: Check): Check =>
  (value) =>
    value === null || check(value)
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value)
const fields =
  (checks: Readonly<Record<string, Check>>): Check =>
  (value) =>
    isObject(value) && Object.entries(checks).every(([name, check]) => check(value[name]))

const finishReasons: readonly unknown[] = [
  'stop',
  'length',
  'tool_calls',
  'content_filter',
  'error',
] satisfies FinishReason[]

const isReported = nullOr(isCount)

const isEntry = fields({
  run: fields({ id: isText, startedAt: isNumber }),
  calls: listOf(
    fields({
      digest: isText,
      text: isText,
      model: isText,
      reasoned: isFlag,
      finishReason: (value) => finishReasons.includes(value),
      usage: fields({ promptTokens: isReported, completionTokens: isReported, totalTokens: isReported }),
      failure: nullOr(
        fields({
          code: (code) => isText(code) && Object.hasOwn(errorTable, code as string),
          message: isText,
        }),
      ),
    }),
  ),
  aid: optional((value) => aids.includes(value as Aid)),
  form: optional(isText),
  cut: optional(fields({ streaming: isFlag, cuts: listOf(isCount) })),
}) as (value: unknown) => value is RunEntry
