// One file for each table, written beside the older one and put in its place at the end: a reader sees the whole old or the whole new file.
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import type { RowTable } from './row-schema.ts'
import { type FoundRow, type RowFormat, rowId, rowLine, rowsHead, tableFileName } from './row-text.ts'

export interface ReplacedRows {
  add(table: string, row: FoundRow): Promise<void>
  /** Puts the files of all tables in place, those without rows too. Resolves to the number of rows by table. */
  finish(): Promise<Readonly<Record<string, number>>>
  /** Removes what was written; the older files stay. */
  discard(): Promise<void>
  /** The paths of the files. */
  readonly paths: readonly string[]
}

/** Characters that wait in memory, for all tables together. */
const maxWaiting = 256 * 1024

/** Throws `store_failed`. */
export async function replaceRows(
  folder: string,
  tables: readonly RowTable[],
  format: RowFormat,
): Promise<ReplacedRows> {
  const failed = (path: string) => (cause: unknown) => {
    throw new GraphmillError('store_failed', `${path}: ${toGraphmillError(cause).message}`, { cause })
  }
  await mkdir(folder, { recursive: true }).catch(failed(folder))
  const files = tables.map((table) => {
    const path = join(folder, `${tableFileName(table.name)}.${format}`)
    return {
      table,
      path,
      beside: `${path}.${process.pid}.tmp`,
      text: rowsHead(table, format),
      ids: new Set<string>(),
    }
  })
  let waiting = 0

  /** One file is open at a time. */
  async function flush(flag: 'a' | 'w', durable = false): Promise<void> {
    for (const file of files) {
      const handle = await open(file.beside, flag).catch(failed(file.beside))
      try {
        await handle!.appendFile(file.text)
        if (durable) await handle!.sync()
      } catch (cause) {
        failed(file.beside)(cause)
      } finally {
        await handle!.close()
      }
      file.text = ''
    }
    waiting = 0
  }

  await flush('w')
  return {
    paths: files.map(({ path }) => path),
    async add(name, row) {
      const file = files.find(({ table }) => table.name === name)
      const id = rowId(name, row)
      if (!file || file.ids.has(id)) return
      file.ids.add(id)
      const line = rowLine(file.table, row, format)
      file.text += line
      waiting += line.length
      if (waiting > maxWaiting) await flush('a')
    },
    async finish() {
      await flush('a', true)
      for (const { beside, path } of files) await rename(beside, path).catch(failed(path))
      return Object.fromEntries(files.map(({ table, ids }) => [table.name, ids.size]))
    },
    async discard() {
      for (const { beside } of files) await rm(beside, { force: true })
    },
  }
}
