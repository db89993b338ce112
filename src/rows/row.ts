// Turns an item into a row: checked against its row schema, each value also as text by TrustGraph's rules, which are Python's: null is "",
// booleans are True and False, numbers are as `str` writes them, lists and objects as `json.dumps` does.
import { isObject } from '../is-object.ts'
import { readRecord } from '../items/record.ts'
import { defaultMaxDepth } from '../items/tolerant.ts'
import { WrittenNumbers } from '../items/value.ts'
import type { RowSchema } from './row-schema.ts'

/** A row: every value as text, and the row with typed values as JSON text. */
export interface Row {
  readonly values: Readonly<Record<string, string>>
  readonly typed: string
}

type RowItem = Readonly<Record<string, unknown>>

/** The length of a row as JSON, at most. */
const maxRow = 100_000

/**
 * The row of an item, or why there is none: `empty` (no field of the table has a value), `too_long` (over 100,000 characters), `schema`.
 * Numbers and booleans given as texts, or the reverse, get the type of their field in place. 1 and 0 are booleans in a boolean field.
 * Integers that a double cannot hold stay texts of digits. Unknown fields are kept. An object in the form of a text is refused in any
 * field.
 */
export function readRow(
  item: RowItem,
  schema: RowSchema,
): { readonly row: Row } | { readonly refused: string; readonly message: string } {
  if (
    schema.fields.every(({ name }) => !Object.hasOwn(item, name) || item[name] === null || item[name] === '')
  )
    return { refused: 'empty', message: `The row has no value for any field of ${schema.name}.` }
  const nested = Object.keys(item).find((name) => isObjectText(item[name]))
  if (nested !== undefined)
    return { refused: 'schema', message: `/${nested}: is an object written as a text` }
  const digits = bigIntegers(item, schema)
  // Without a prototype, so that a column may be called `constructor`.
  const row = Object.assign(Object.create(null) as Record<string, unknown>, item)
  for (const [name, text] of digits) row[name] = Number(text)
  for (const { name, kind } of schema.fields) {
    const value = row[name]
    if (kind === 'boolean' && [1, 0, '1', '0'].some((bit) => bit === value)) row[name] = Number(value) === 1
    else if (kind === 'text' && (typeof value === 'number' || typeof value === 'boolean'))
      row[name] = pythonText(value)
  }
  const { error } = schema.items.adjust(row, { numbers: new WrittenNumbers([]) })
  if (error !== undefined) return { refused: 'schema', message: error }
  for (const [name, text] of digits) row[name] = text
  const typed = JSON.stringify(row)
  if (typed.length > maxRow) return { refused: 'too_long', message: `The row has over ${maxRow} characters.` }
  const values = Object.fromEntries(Object.entries(row).map(([name, value]) => [name, pythonText(value)]))
  return { row: { values, typed } }
}

/** Whether a value is the text of an object, or of a list that holds one, as JSON or nearly so. */
function isObjectText(value: unknown): boolean {
  if (typeof value !== 'string' || !/^\s*[{[]/.test(value)) return false
  const reading = readRecord(value, { maxDepth: defaultMaxDepth })
  if (!reading.ok) return reading.reason !== 'invalid_json'
  return isObject(reading.value) || (Array.isArray(reading.value) && reading.value.some(isObject))
}

/** Integers of more than 53 bits, which the items engine passes on as texts. */
function bigIntegers(item: RowItem, { fields }: RowSchema): [string, string][] {
  return fields.flatMap(({ name, kind }) => {
    const value = kind === 'integer' ? item[name] : undefined
    const isBig =
      typeof value === 'string' && /^-?[1-9]\d{15,99}$/.test(value) && !Number.isSafeInteger(Number(value))
    return isBig ? [[name, value] as [string, string]] : []
  })
}

/** A value as Python's `str` writes it, null as "". JSON does not tell 1.0 from 1: both are "1". */
export function pythonText(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value === true) return 'True'
  if (value === false) return 'False'
  if (typeof value === 'number') return pythonNumber(value)
  return typeof value === 'string' ? value : pythonJson(value)
}

// Python writes floats with an exponent below 1e-4 and from 1e16 on, JavaScript below 1e-6 and from 1e21 on.
function pythonNumber(value: number): string {
  if (Number.isSafeInteger(value)) return Object.is(value, -0) ? '0' : String(value)
  const size = Math.abs(value)
  if (size >= 1e-4 && size < 1e16) return String(value)
  const [digits = '', exponent = ''] = value.toExponential().split('e')
  return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`
}

/** JSON as Python's `json.dumps` writes it: a space after comma and colon, ASCII only. */
function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`
  if (typeof value === 'object' && value !== null)
    return `{${Object.entries(value)
      .map(([key, each]) => `${pythonJson(key)}: ${pythonJson(each)}`)
      .join(', ')}}`
  if (typeof value === 'number') return pythonNumber(value)
  return JSON.stringify(value).replace(
    /[\x7f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
