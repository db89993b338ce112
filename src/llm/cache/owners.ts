// Which documents the runs in the cache were made for: a file a document, which lists the keys of its runs. Erasing a document removes
// these runs; what this process still gets of it is not kept.
import { hash } from 'node:crypto'
import { appendFile, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** The document that a request is about. */
export interface RunOwner {
  readonly workspace: string
  readonly documentId: string
  /** 0 for a document without versions. */
  readonly versionTime: number
}

/** Which document is erased, and up to which version. */
export type ErasedOwner = RunOwner

/** Keys that this process has listed lately, so that each is listed about once. */
const maxListed = 10_000

export function createOwners(dir: string) {
  const folder = join(dir, 'documents')
  const listed = new Set<string>()
  /** The newest version that is erased, by the name of its file. */
  const erased = new Map<string, number>()

  return {
    isErased: (owner: RunOwner) => owner.versionTime <= (erased.get(nameOf(owner)) ?? -1),

    /** Lists the key: before its run is stored, so that no run is without its document. */
    async list(owner: RunOwner, key: string): Promise<void> {
      const name = nameOf(owner)
      const entry = `${name} ${key}`
      if (listed.has(entry)) return
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await appendFile(join(folder, name), `${key}\n`, { mode: 0o600 })
      if (listed.size >= maxListed) listed.clear()
      listed.add(entry)
    },

    /** Calls `remove` for each key of the document, then forgets that there were any. */
    async forget(owner: ErasedOwner, remove: (key: string) => Promise<void>): Promise<void> {
      const name = nameOf(owner)
      erased.set(name, Math.max(owner.versionTime, erased.get(name) ?? 0))
      const path = join(folder, name)
      const keys = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error
      })
      if (keys === undefined) return
      for (const key of new Set(keys.split('\n'))) if (key !== '') await remove(key)
      await rm(path, { force: true })
      listed.clear()
    },
  }
}

/** Removes the lists that are older than every run in them. */
export async function tidyOwners(dir: string, before: number): Promise<void> {
  const folder = join(dir, 'documents')
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name)
    const found = await stat(path).catch(() => undefined)
    if (found && found.mtimeMs < before) await rm(path, { force: true })
  }
}

const nameOf = ({ workspace, documentId }: RunOwner) =>
  hash('sha256', `${workspace}\n${documentId}`).slice(0, 32)
