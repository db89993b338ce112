// Tables for people, and the same rows as JSON lines for programs.
import { redact } from '../redact.ts'

/** A row. Values other than texts and numbers are converted to text, unless the row is printed as JSON. */
type Row = Readonly<Record<string, unknown>>

/** The columns of a terminal that a table may need. */
export const tableWidth = 100

/** The most columns of a free text, since one long title would make every row as wide. */
const mostOfText = 40

/** A text for a cell, shortened if it is long. Do not shorten names that other commands need. */
export function cutText(text: string, most: number = mostOfText): string {
  const plain = text.replace(/\p{C}+/gu, ' ')
  if (widthOf(plain) <= most) return plain
  let cut = ''
  let width = 1
  for (const character of plain) {
    width += widthOf(character)
    if (width > most) break
    cut += character
  }
  return `${cut}…`
}

/** The columns of a terminal: two for a wide character such as 磨, none for a combining mark. */
function widthOf(text: string): number {
  let width = 0
  for (const character of text) width += /\p{M}/u.test(character) ? 0 : wide.test(character) ? 2 : 1
  return width
}

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u

/** The fewest columns that a text keeps. */
const fewestOfText = 12

/** The rows with the texts of one column shortened until the table is at most `tableWidth` columns wide. */
export function fitted<R extends Row>(rows: readonly R[], column: keyof R & string): R[] {
  const names = Object.keys(rows[0] ?? {})
  const others = names.filter((name) => name !== column)
  const width = (name: string) =>
    rows.reduce((most, row) => Math.max(most, widthOf(String(row[name]))), name.length)
  const left = tableWidth - others.reduce((sum, name) => sum + width(name), 2 * others.length)
  const most = Math.max(fewestOfText, left)
  return rows.map((row) => ({ ...row, [column]: cutText(String(row[column]), most) }))
}

/** A name and a text, which is wrapped at `tableWidth` columns; further lines begin below the text. */
export function hanging(name: string, text: string): string {
  const indent = 11
  const lines = ['']
  for (const word of text.replace(/\p{C}+/gu, ' ').split(' ')) {
    const longer = `${lines.at(-1)}${lines.at(-1) === '' ? '' : ' '}${word}`
    if (lines.at(-1) === '' || widthOf(longer) <= tableWidth - indent) lines[lines.length - 1] = longer
    else lines.push(word)
  }
  return `${name.padEnd(indent - 1)} ${lines.join(`\n${' '.repeat(indent)}`)}`
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
  const widths = names.map((_, column) =>
    lines.reduce((most, line) => Math.max(most, widthOf(line[column]!)), 0),
  )
  for (const line of lines)
    printLine(
      line
        .map((cell, column) => cell + ' '.repeat(widths[column]! - widthOf(cell)))
        .join('  ')
        .trimEnd(),
    )
}
