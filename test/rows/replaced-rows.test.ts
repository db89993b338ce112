// The files of rows that `extract` writes.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { replaceRows } from '../../src/rows/replaced-rows.ts'
import type { RowTable } from '../../src/rows/row-schema.ts'
import { rowLine, rowsHead, tableFileName } from '../../src/rows/row-text.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-rows-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const table = (name: string, ...fields: string[]) =>
  ({ name, description: '', fields: fields.map((field) => ({ name: field })) }) as unknown as RowTable
const row = (values: Record<string, unknown>, chunkId = 'c') => ({ documentId: 'd', chunkId, values })
const read = (name: string) => readFileSync(join(folder, name), 'utf8')

describe('a cell of CSV', () => {
  const cell = (value: unknown) =>
    /^(.*),[0-9a-f]{32},d,c\r\n$/s.exec(rowLine(table('t', 'a'), row({ a: value }), 'csv'))![1]

  test.each([
    ['plain', 'plain'],
    ['a,b', '"a,b"'],
    ['say "hi"', '"say ""hi"""'],
    ['two\r\nlines\rmore', '"two\nlines\nmore"'],
    [' space ', '" space "'],
    [-5, '-5'],
    [1.5e30, '1.5e+30'],
    [true, 'true'],
    [null, ''],
    [undefined, ''],
    [['a', 1], '"[""a"",1]"'],
    ['-5', '-5'],
    ['+44 20', "'+44 20"],
    ['=1+1', "'=1+1"],
    ['@SUM(A1)', "'@SUM(A1)"],
    ['-cmd|x', "'-cmd|x"],
    ['\t=1', "'\t=1"],
    ['\n=1', '"\'\n=1"'],
    ['a\ud800', 'a\ufffd'],
  ])('%j is %j', (value, expected) => expect(cell(value)).toBe(expected))
})

test('names of tables are safe names of files, and differ', () => {
  expect(tableFileName('mills_2')).toBe('mills_2')
  const hostile = [
    '../../etc/passwd',
    'a/b',
    'a\\b',
    '.',
    '',
    'con',
    'Mills',
    'mills ',
    'x'.repeat(300),
    '🏭',
    'a\u0000b',
    '-rf',
  ]
  const names = hostile.map(tableFileName)
  for (const name of names) expect(name).toMatch(/^[a-z0-9_][a-z0-9_-]{0,79}$/)
  expect(new Set([...names, 'mills']).size).toBe(hostile.length + 1)
})

describe('the files', () => {
  const tables = [table('mills', 'name', 'year'), table('Empty', 'x')]

  test('hold each row once, and replace older ones only at the end', async () => {
    writeFileSync(join(folder, 'mills.csv'), 'old')
    const rows = await replaceRows(folder, tables, 'csv')
    await rows.add('mills', row({ name: 'Outwood', year: 1665 }))
    await rows.add('mills', row({ name: 'Outwood', year: 1665 }))
    await rows.add('mills', row({ name: 'Outwood', year: 1665 }, 'other chunk'))
    expect(read('mills.csv')).toBe('old')
    expect(await rows.finish()).toEqual({ mills: 2, Empty: 0 })
    expect(read('mills.csv')).toMatch(
      /^name,year,_id,_document,_chunk\r\nOutwood,1665,[0-9a-f]{32},d,c\r\nOutwood,1665,[0-9a-f]{32},d,other chunk\r\n$/,
    )
    expect(read(`${tableFileName('Empty')}.csv`)).toBe(rowsHead(tables[1]!, 'csv'))
    expect(readdirSync(folder)).toHaveLength(2)
    expect(rows.paths).toHaveLength(2)
  })

  test('are not touched when the extraction breaks', async () => {
    writeFileSync(join(folder, 'mills.csv'), 'old')
    const rows = await replaceRows(folder, tables, 'csv')
    await rows.add('mills', row({ name: 'Outwood' }))
    await rows.discard()
    expect(readdirSync(folder)).toEqual(['mills.csv'])
    expect(read('mills.csv')).toBe('old')
  })

  test('hold many rows in JSON Lines, with all of their fields', async () => {
    const rows = await replaceRows(folder, tables, 'jsonl')
    for (let n = 0; n < 5000; n++) await rows.add('mills', row({ name: 'x'.repeat(100), year: n, more: [n] }))
    await rows.finish()
    const lines = read('mills.jsonl').trimEnd().split('\n')
    expect(lines.map((line) => (JSON.parse(line) as { year: number }).year)).toEqual(
      Array.from({ length: 5000 }, (_, n) => n),
    )
    expect(JSON.parse(lines[7]!)).toMatchObject({ more: [7], _document: 'd', _chunk: 'c' })
  })

  test('that cannot be written are an error', async () => {
    writeFileSync(join(folder, 'file'), '')
    await expect(replaceRows(join(folder, 'file'), tables, 'csv')).rejects.toMatchObject({
      code: 'store_failed',
    })
  })
})
