// A folder with one file for each table, to which rows are appended while a flow runs. Processes share it: a file is changed under its
// lock. What a crash cut is removed before the next row, and a row that is known to stand in its file is not written again.
import { hash } from 'node:crypto'
import { access, constants, type FileHandle, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { openDurableFile } from '../rdf/durable-file.ts'
import { createExclusiveFiles, syncFolder } from '../rdf/exclusive-files.ts'
import type { FileLock } from '../rdf/file-lock.ts'
import { failed } from '../rdf/store.ts'
import { systemCall } from '../system-calls.ts'
import type { RowTable } from './row-schema.ts'
import { type FoundRow, type RowFormat, rowId, rowLine, rowsHead, tableFileName } from './row-text.ts'

/** A row to be stored. */
export interface StoredRow extends FoundRow {
  readonly collection: string
  readonly table: string
}

type Scope = { readonly workspace: string; readonly flow: string }

/** Where rows go. A program may implement it itself. */
export interface RowStore {
  /** The destination, for people. Default `the store of rows`. */
  readonly destination?: string
  /** Rejects with `store_failed` when it is not writable. */
  ready?(): Promise<void>
  /** Resolves when the rows are durable. `tables` are those that the flow knows. Throws `store_failed` and `row_schema_unknown`. */
  write(
    rows: readonly StoredRow[],
    tables: readonly Pick<RowTable, 'name' | 'fields'>[],
    scope: Scope,
    signal?: AbortSignal,
  ): Promise<void>
  close(): Promise<void>
}

/** The ids of the last rows that are kept in memory, for all files together. */
const maxIds = 100_000
/** The files of which it is known how far their ids were read. */
const maxFiles = 1000
/** The bytes at the end of a file whose ids are read when this process does not know it. */
const reach = 8 * 1024 * 1024
/** Longer names get a hash: the file of a lock has some 50 characters more, and 255 are possible. */
const longestName = 180

/** A file as far as this process has read or written it. */
interface KnownFile {
  readonly ino: number
  readonly length: number
  /** Of a file: tells its ids from those of others. */
  readonly number: number
}

interface Line {
  readonly id: string
  readonly text: string
}

export function openRowFolder(folder: string, format: RowFormat, lockPatienceMs?: number): RowStore {
  const files = createExclusiveFiles(folder, lockPatienceMs)
  const known = new Map<string, KnownFile>()
  const ids = new Set<string>()
  let count = 0

  /** Appends the lines that the file does not have. False when the lock or the file was lost, so that they may be. */
  async function append(
    path: string,
    head: Buffer,
    lines: readonly Line[],
    lock: FileLock,
  ): Promise<boolean> {
    const file = await openDurableFile(path, 'a+')
    try {
      const { size, ino } = await file.handle.stat()
      const before = known.get(path)
      const isKnown = before?.ino === ino && before.length <= size
      const from = Math.max(isKnown ? before.length : 0, size - reach)
      const tail = await read(file.handle, from, size)
      const end = tail.lastIndexOf(lineEnds[format])
      const length = end < 0 ? (isKnown ? from : 0) : from + end + lineEnds[format].length
      if (end < 0 && from > 0 && !isKnown)
        throw new GraphmillError('store_failed', 'it has no line end, so it is no file of rows')
      if (length < size) await file.truncate(length)
      const number = isKnown ? before.number : ++count
      // The first line may begin before what was read: then it is no line.
      const first = from === 0 || from === before?.length ? 0 : tail.indexOf(lineEnds[format])
      const learned = idsOf(tail.subarray(first, Math.max(first, length - from)), format)
      for (const id of learned) remember(`${number} ${id}`)
      // A process that was killed may not have synced what it wrote.
      if (length > from) await systemCall(`sync ${path}`, file.handle.datasync())
      const added = new Map(lines.map(({ id, text }) => [`${number} ${id}`, text]))
      for (const id of added.keys()) if (ids.has(id)) added.delete(id)
      const text = (length === 0 ? head.toString() : '') + [...added.values()].join('')
      await file.append(text)
      if (!isKnown) await syncFolder(folder)
      if (!(await lock.isHeld()) || !(await file.isThere())) return false
      for (const id of added.keys()) remember(id)
      known.delete(path)
      known.set(path, { ino, length: length + Buffer.byteLength(text), number })
      if (known.size > maxFiles) known.delete(known.keys().next().value!)
      return true
    } catch (thrown) {
      known.delete(path)
      throw thrown
    } finally {
      await file.close({ isOwn: await lock.isHeld() })
    }
  }

  function remember(id: string): void {
    ids.delete(id)
    ids.add(id)
    if (ids.size > maxIds) ids.delete(ids.values().next().value!)
  }

  /** Columns that have changed get another file. */
  async function put(
    name: string,
    head: Buffer,
    lines: readonly Line[],
    signal?: AbortSignal,
  ): Promise<void> {
    const paths = [`${name}.${format}`, `${name}.${hash('sha256', head).slice(0, 8)}.${format}`].map((each) =>
      join(folder, each),
    )
    for (const path of paths) {
      let isOwn = false
      const work = async (lock: FileLock) => {
        isOwn = await hasHead(path, head)
        return isOwn ? append(path, head, lines, lock) : true
      }
      await files.change(path, work, signal)
      if (isOwn) return
    }
    throw new GraphmillError('store_failed', `${paths.at(-1)} is no file of rows.`)
  }

  return {
    destination: folder,
    async write(rows, tables, scope, signal) {
      const batches = new Map<string, { readonly head: Buffer; readonly lines: Line[] }>()
      for (const row of rows) {
        const table = tables.find(({ name }) => name === row.table)
        if (!table && format === 'csv')
          throw new GraphmillError('row_schema_unknown', `There is no row schema ${row.table} any more.`)
        const columns = table ?? { name: row.table, fields: [] }
        const name = fileName(row, scope)
        const batch = batches.get(name) ?? { head: Buffer.from(rowsHead(columns, format)), lines: [] }
        batches.set(name, batch)
        batch.lines.push({ id: rowId(row.table, row), text: rowLine(columns, row, format) })
      }
      for (const [name, { head, lines }] of batches) await put(name, head, lines, signal)
    },
    async ready() {
      await mkdir(folder, { recursive: true })
        .then(() => systemCall(`access ${folder}`, access(folder, constants.W_OK)))
        .catch(failed(folder))
    },
    close: files.settled,
  }
}

/** Values contain no CR. */
const lineEnds = { csv: Buffer.from('\r\n'), jsonl: Buffer.from('\n') }

function fileName({ collection, table }: StoredRow, { workspace, flow }: Scope): string {
  const name = [workspace, flow, tableFileName(collection), tableFileName(table)].join('.')
  return name.length <= longestName ? name : `${name.slice(0, 140)}-${hash('sha256', name).slice(0, 16)}`
}

/** Whether the file begins with the head, or is as much of it as a crash left. */
async function hasHead(path: string, head: Buffer): Promise<boolean> {
  const file = await openDurableFile(path, 'a+')
  try {
    const start = await read(file.handle, 0, Math.min(head.length, (await file.handle.stat()).size))
    return start.equals(head.subarray(0, start.length))
  } finally {
    await file.close()
  }
}

async function read(handle: FileHandle, from: number, to: number): Promise<Buffer> {
  const buffer = Buffer.alloc(to - from)
  let length = 0
  while (length < buffer.length) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length, from + length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return buffer.subarray(0, length)
}

function idsOf(tail: Buffer, format: RowFormat): string[] {
  const lineEnd = lineEnds[format]
  const found: string[] = []
  let begin = 0
  for (let end = tail.indexOf(lineEnd); end >= 0; end = tail.indexOf(lineEnd, begin)) {
    const line = tail.toString('utf8', begin, end)
    const id = format === 'csv' ? idOfCsv(line) : idOfJson(line)
    if (id !== undefined) found.push(id)
    begin = end + lineEnd.length
  }
  return found
}

/** The third cell from the end. */
function idOfCsv(line: string): string | undefined {
  const commas = [-1]
  let isQuoted = false
  for (let at = 0; at < line.length; at++) {
    if (line[at] === '"') isQuoted = !isQuoted
    else if (line[at] === ',' && !isQuoted) commas.push(at)
  }
  const [before, after] = commas.slice(-3)
  return commas.length < 3 ? undefined : line.slice(before! + 1, after)
}

function idOfJson(line: string): string | undefined {
  try {
    const row: unknown = JSON.parse(line)
    return isObject(row) && typeof row['_id'] === 'string' ? row['_id'] : undefined
  } catch {
    return undefined
  }
}
