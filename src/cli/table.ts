// Tables for people, and the same rows as JSON lines for programs.
import { redact } from '../redact.ts'

/** A row. Values other than texts and numbers are converted to text, unless the row is printed as JSON. */
type Row = Readonly<Record<string, unknown>>

/** The most characters of a free text, since one long title would make every row as wide. */
const mostOfText = 40

/** A text for a cell, shortened if it is long. Do not shorten names that other commands need. */
export function cutText(text: string): string {
  const characters = [...text]
  return characters.length > mostOfText ? `${characters.slice(0, mostOfText - 1).join('')}…` : text
}

/** Writes a line to standard output, without secrets. Triples and other content are written elsewhere. */
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
