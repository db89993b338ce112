// The cleanup of the cache's folder: entries that are too old or too many, oldest first, and files without an entry. It runs once
// a day for all processes together, and after one has written much. Other processes may read and write meanwhile.
import { readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import cacache from 'cacache'
import { tidyOwners } from './owners.ts'

export interface Folder {
  readonly dir: string
  readonly maxBytes: number
  readonly maxAgeMs: number
  readonly now: () => number
}

/** About the size of an entry besides its content. */
export const indexBytes = 512

const hour = 3600 * 1000
export const day = 24 * hour

/** Whether the last cleanup was more than a day ago. */
export async function isTidyDue({ dir, now }: Folder): Promise<boolean> {
  const marked = await stat(join(dir, marker)).catch(() => undefined)
  if (marked === undefined) await mark(dir, now())
  return marked !== undefined && marked.mtimeMs < now() - day
}

/** Runs a cleanup. Throws errors of the disk. */
export async function tidyUp({ dir, maxBytes, maxAgeMs, now }: Folder): Promise<void> {
  await mark(dir, now())
  const entries = Object.values(await cacache.ls(dir)).sort((a, b) => b.time - a.time)
  const named = new Set<string>()
  let bytes = 0
  for (const { key, integrity, path, size, time } of entries) {
    named.add(path)
    bytes += size + indexBytes
    if (bytes <= maxBytes && now() - time <= maxAgeMs) continue
    await removeEntry(dir, key, { removeFully: true })
    await cacache.rm.content(dir, String(integrity))
  }
  await sweep(dir, named, now())
  await tidyOwners(dir, now() - maxAgeMs)
}

/**
 * Removes files without an entry: those of processes that wrote the same key at once, or died while writing. Young files may still
 * get their entry. Each day has its sixteenth of the contents, so that a large folder is never read as a whole.
 */
async function sweep(dir: string, named: ReadonlySet<string>, now: number): Promise<void> {
  const part = (Math.floor(now / day) % 16).toString(16)
  const contents = join(dir, 'content-v2', 'sha512')
  const due = (await namesIn(contents)).filter((name) => name.startsWith(part))
  for (const folder of [...due.map((name) => join(contents, name)), join(dir, 'tmp')])
    for (const name of await namesIn(folder, true)) {
      const path = join(folder, name)
      if (named.has(path)) continue
      const found = await stat(path).catch(() => undefined)
      if (found?.isFile() && found.mtimeMs < now - hour) await rm(path, { force: true })
    }
}

function namesIn(folder: string, recursive = false): Promise<string[]> {
  return readdir(folder, { recursive }).catch(() => [])
}

/** The file whose time is that of the last cleanup. */
const marker = 'tidied'

async function mark(dir: string, now: number): Promise<void> {
  const path = join(dir, marker)
  await writeFile(path, '', { flag: 'a' })
  await utimes(path, now / 1000, now / 1000)
}

/** The types of cacache omit the options. */
export const removeEntry = cacache.rm.entry as (
  dir: string,
  key: string,
  options: { readonly removeFully: boolean },
) => Promise<unknown>
