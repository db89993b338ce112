// Rows as text of a file: CSV for spreadsheets (RFC 4180), or JSON Lines. Each row has an id made of its content and its chunk, and the
// document and the chunk in which it was found.
import { hash } from 'node:crypto'
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import type { Rows } from '../messages/generated.ts'
import type { RowTable } from './row-schema.ts'

export const rowFormats = ['csv', 'jsonl'] as const
export type RowFormat = (typeof rowFormats)[number]

export interface FoundRow {
  readonly documentId: string
  readonly chunkId: string
  /** With the types of the schema; further fields are only in JSON Lines. */
  readonly values: Readonly<Record<string, unknown>>
}

/** The rows of a message. One without a typed form, of another writer, has its texts. Throws `message_invalid`. */
export function rowValues({ values, typed }: Pick<Rows, 'values' | 'typed'>): FoundRow['values'][] {
  return values.map((texts, at) => {
    try {
      const row: unknown = JSON.parse(typed[at] ?? 'null')
      return isObject(row) ? row : texts
    } catch (cause) {
      throw new GraphmillError('message_invalid', `/typed/${at}: is not JSON`, { cause })
    }
  })
}

/** The same row of the same chunk has the same id, also when the model is asked again. */
export function rowId(table: string, { chunkId, values }: FoundRow): string {
  return hash('sha256', JSON.stringify([table, chunkId, values])).slice(0, 32)
}

/** The first line of a file; empty for JSON Lines. */
export function rowsHead({ fields }: Pick<RowTable, 'fields'>, format: RowFormat): string {
  if (format === 'jsonl') return ''
  return csvLine([...fields.map(({ name }) => name), '_id', '_document', '_chunk'])
}

/** A row as one line. No line end stands within it, so what a crash cut can be told by its missing end. */
export function rowLine(table: Pick<RowTable, 'name' | 'fields'>, row: FoundRow, format: RowFormat): string {
  const place = { _id: rowId(table.name, row), _document: row.documentId, _chunk: row.chunkId }
  if (format === 'jsonl') return `${JSON.stringify({ ...row.values, ...place })}\n`
  const values = table.fields.map(({ name }) => (Object.hasOwn(row.values, name) ? row.values[name] : null))
  return csvLine([...values, ...Object.values(place)])
}

function csvLine(cells: readonly unknown[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  const text = (typeof value === 'string' ? value : JSON.stringify(value)).toWellFormed()
  // A spreadsheet takes a text that begins so for a formula.
  const isFormula = /^\s*[=+\-@\t\r|%]/.test(text) && !/^[+-]?\d+(\.\d+)?$/.test(text)
  const safe = `${isFormula ? "'" : ''}${text}`.replace(/\r\n?/g, '\n')
  return /[",\n\r]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** The name of a table as a part of a file's name, safe on every system: others than plain ones are told apart by a hash. */
export function tableFileName(table: string): string {
  const reserved = /^(con|prn|aux|nul|com\d|lpt\d)$/
  if (/^[a-z0-9][a-z0-9_-]{0,79}$/.test(table) && !reserved.test(table)) return table
  const plain = table
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .slice(0, 60)
    .replace(/^-+|-+$/g, '')
  return `${plain || 'table'}-${hash('sha256', table).slice(0, 8)}`
}
