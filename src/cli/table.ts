// Tables for people, and the same rows as JSON lines for programs.
import { redact } from '../redact.ts'

/** A row; only JSON shows a value that is no text or number as it is. */
type Row = Readonly<Record<string, unknown>>

/** Characters of a text that somebody wrote freely, at most: one long title would make every row as wide. */
const mostOfText = 40

/** A text for a cell, cut where it is long. What is a name for other commands must not be cut. */
export function cutText(text: string): string {
  const characters = [...text]
  return characters.length > mostOfText ? `${characters.slice(0, mostOfText - 1).join('')}…` : text
}

/** Writes a line to standard output, without secrets; triples and other content have ways of their own. */
export function printLine(line: string): void {
  process.stdout.write(`${redact(line)}\n`)
}

export function printTable(rows: readonly Row[], json: boolean): void {
  if (json) {
    for (const row of rows) printLine(JSON.stringify(row))
    return
  }
  if (rows.length === 0) return
  const names = Object.keys(rows[0]!)
  const lines = [
    names.map((name) => name.toUpperCase()),
    ...rows.map((row) => names.map((name) => String(row[name]))),
  ]
  const widths = names.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)))
  for (const line of lines)
    printLine(
      line
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
}
