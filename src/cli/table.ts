// Tables for people, and the same rows as JSON lines for programs.

/** A row; only JSON shows a value that is no text or number as it is. */
type Row = Readonly<Record<string, unknown>>

export function printTable(rows: readonly Row[], json: boolean): void {
  if (json) {
    for (const row of rows) process.stdout.write(`${JSON.stringify(row)}\n`)
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
    process.stdout.write(
      `${line
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd()}\n`,
    )
}
