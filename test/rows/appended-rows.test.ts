// The files of rows to which a running flow appends.
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openRowFolder, type StoredRow } from '../../src/rows/appended-rows.ts'
import type { RowTable } from '../../src/rows/row-schema.ts'
import { type RowFormat, rowFormats, rowLine, rowsHead } from '../../src/rows/row-text.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-rows-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const scope = { workspace: 'w', flow: 'f' }
const tableOf = (name: string, ...fields: string[]) =>
  ({ name, description: '', fields: fields.map((field) => ({ name: field })) }) as unknown as RowTable
const mill = tableOf('mill', 'name')
const row = (name: unknown, more: Partial<StoredRow> = {}): StoredRow => ({
  ...{ collection: 'c', table: 'mill', documentId: 'd', chunkId: 'd/0/0', values: { name } },
  ...more,
})
const read = (name: string) => readFileSync(join(folder, name), 'utf8')
const linesOf = (rows: readonly StoredRow[], format: RowFormat, table = mill) =>
  rowsHead(table, format) + rows.map((each) => rowLine(table, each, format)).join('')

describe.each(rowFormats)('%s', (format) => {
  const file = `w.f.c.mill.${format}`

  test('appends each row once, also in other processes, at any cut of what they wrote', async () => {
    const rows = ['a', 'two\r\nlines, "quoted"', '=1', 'd'].map((name) => row(name))
    const whole = linesOf(rows, format)
    await openRowFolder(folder, format).write(rows, [mill], scope)
    expect(read(file)).toBe(whole)
    for (let length = Buffer.byteLength(whole); length >= 0; length -= 7) {
      truncateSync(join(folder, file), length)
      await openRowFolder(folder, format).write([...rows, rows[0]!], [mill], scope)
      expect(read(file), `cut at ${length}`).toBe(whole)
    }
  })

  test('processes that take turns see what the others wrote', async () => {
    const [one, other] = [openRowFolder(folder, format), openRowFolder(folder, format)]
    const names = Array.from({ length: 40 }, (_, index) => `row ${index}`)
    const writes = names.flatMap((name) =>
      [one, other].map((store) => store.write([row(name)], [mill], scope)),
    )
    await Promise.all(writes)
    const lines = read(file)
      .split(/\r?\n/)
      .filter((line) => line.includes('row '))
    expect(lines).toHaveLength(names.length)
    await Promise.all([one.close(), other.close()])
    expect(readdirSync(folder)).toEqual([file])
  })

  test('what looks like an id in a value or a document hides no row', async () => {
    const hidden = row('hidden')
    const id = /[0-9a-f]{32}/.exec(rowLine(mill, hidden, format))![0]
    const texts = [`x,${id},d,c`, `x","${id}","d","c`, `","_id":"${id}","_document":"`, `\n${id},${id},${id}`]
    const hostile = texts.flatMap((text) => [
      row(text),
      row('y', { documentId: text, chunkId: text }),
      row({ _id: id, a: [{ _id: id }] }),
    ])
    await openRowFolder(folder, format).write(hostile, [mill], scope)
    await openRowFolder(folder, format).write([hidden], [mill], scope)
    expect(read(file).endsWith(rowLine(mill, hidden, format))).toBe(true)
    const { size } = statSync(join(folder, file))
    await openRowFolder(folder, format).write([...hostile, hidden], [mill], scope)
    expect(statSync(join(folder, file)).size).toBe(size)
  })

  test('names of tables and collections lead nowhere else, and make different files', async () => {
    const names = ['../../up', 'a/b', 'a\\b', '', '.', 'con', 'Mill', 'mill', 'x'.repeat(300), 'a\0b', 'a.b']
    const tables = names.map((name) => tableOf(name, 'name', 'constructor'))
    const rows = names.flatMap((name) => names.map((collection) => row('n', { table: name, collection })))
    const deep = { workspace: 'w'.repeat(90), flow: 'f'.repeat(90) }
    for (const place of [scope, deep]) await openRowFolder(folder, format).write(rows, tables, place)
    const found = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    expect(found).toHaveLength(2 * names.length ** 2)
    for (const name of found) expect(name).toMatch(/^[a-z0-9._-]{1,200}$/)
  })

  test('a long file is read from a line that is whole', async () => {
    const store = openRowFolder(folder, format)
    const rows = Array.from({ length: 100 }, (_, index) => row(`${index} ${'",\n'.repeat(33_000)}`))
    await store.write(rows, [mill], scope)
    const { size } = statSync(join(folder, file))
    expect(size).toBeGreaterThan(9e6)
    await openRowFolder(folder, format).write(rows.slice(-20), [mill], scope)
    expect(statSync(join(folder, file)).size).toBe(size)
  })

  test('a file that was removed or cut is written again', async () => {
    const store = openRowFolder(folder, format)
    await store.write([row('a')], [mill], scope)
    rmSync(join(folder, file))
    await store.write([row('a')], [mill], scope)
    expect(read(file)).toBe(linesOf([row('a')], format))
    truncateSync(join(folder, file), 0)
    await store.write([row('a'), row('b')], [mill], scope)
    expect(read(file)).toBe(linesOf([row('a'), row('b')], format))
  })
})

test('columns that have changed get a file of their own, and an unknown file stays as it is', async () => {
  const store = openRowFolder(folder, 'csv')
  await store.write([row('a')], [mill], scope)
  const wider = tableOf('mill', 'name', 'opened')
  await store.write([row('b')], [wider], scope)
  await store.write([row('b'), row('c')], [wider], scope)
  expect(read('w.f.c.mill.csv')).toBe(linesOf([row('a')], 'csv'))
  const other = readdirSync(folder).find((name) => name !== 'w.f.c.mill.csv')!
  expect(read(other)).toBe(linesOf([row('b'), row('c')], 'csv', wider))
  appendFileSync(join(folder, 'w.f.x.mill.csv'), 'mine')
  await store.write([row('a', { collection: 'x' })], [mill], scope)
  expect(read('w.f.x.mill.csv')).toBe('mine')
})

test('CSV needs the schema, JSON Lines does not', async () => {
  const refused = openRowFolder(folder, 'csv').write([row('a')], [], scope)
  await expect(refused).rejects.toMatchObject({ code: 'row_schema_unknown' })
  expect(readdirSync(folder)).toEqual([])
  await openRowFolder(folder, 'jsonl').write([row('a')], [], scope)
  expect(JSON.parse(read('w.f.c.mill.jsonl'))).toMatchObject({ name: 'a', _document: 'd', _chunk: 'd/0/0' })
})

test('a folder that cannot be written is store_failed', async () => {
  appendFileSync(join(folder, 'file'), '')
  const store = openRowFolder(join(folder, 'file'), 'csv')
  await expect(store.ready!()).rejects.toMatchObject({ code: 'store_failed' })
  await expect(store.write([row('a')], [mill], scope)).rejects.toMatchObject({ code: 'store_failed' })
})
