// Watches files and folders by polling them every few seconds. That sees every kind of change, also the swapped links of a
// Kubernetes ConfigMap, which file system notifications miss. A file is read again only when its inode, size or times have changed.
import { createHash } from 'node:crypto'
import { type BigIntStats, createReadStream } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { systemCall } from '../system-calls.ts'
import { pause } from '../wait.ts'

/** A hash of the content of files and folders. A missing file is part of the content. */
export async function contentOf(paths: readonly string[]): Promise<string> {
  return (await look(paths, new Map())).content
}

interface KnownFile {
  /** Device, inode, size and times; for a link, those of its target. */
  readonly identity: string
  readonly content: string
}

/** What one poll found: a hash of everything, and the files by path. */
interface Look {
  readonly content: string
  readonly files: ReadonlyMap<string, KnownFile>
}

async function look(paths: readonly string[], known: Look['files']): Promise<Look> {
  const digest = createHash('sha256')
  const files = new Map<string, KnownFile>()

  async function add(path: string): Promise<void> {
    digest.update(`${path}\n`)
    try {
      const stats = await systemCall(`stat ${path}`, stat(path, { bigint: true }))
      if (stats.isDirectory())
        for (const name of (await systemCall(`read ${path}`, readdir(path))).sort())
          await add(join(path, name))
      else digest.update(await contentOfFile(path, stats))
    } catch (error) {
      digest.update(String((error as NodeJS.ErrnoException).code))
    }
  }

  async function contentOfFile(path: string, stats: BigIntStats): Promise<string> {
    const identity = [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join()
    const before = known.get(path)
    const touched = Math.max(Number(stats.mtimeMs), Number(stats.ctimeMs))
    const settled = Date.now() - touched > settledMs
    const content =
      before?.identity === identity ? before.content : await systemCall(`read ${path}`, hashFile(path))
    // A young file may be written again within the resolution of its times and look the same.
    if (settled) files.set(path, { identity, content })
    return content
  }

  for (const path of paths) await add(path)
  return { content: digest.digest('hex'), files }
}

/** No file system has coarser times than this, in milliseconds. */
const settledMs = 3000

async function hashFile(path: string): Promise<string> {
  const digest = createHash('sha256')
  for await (const part of createReadStream(path, { highWaterMark: 1024 * 1024 })) digest.update(part)
  return digest.digest('hex')
}

export interface Watching {
  /** Files and folders; called at every poll. */
  readonly paths: () => readonly string[]
  /** The result of `contentOf` before the content was used. */
  readonly since: string
  readonly everyMs: number
}

/** Yields at each change of the content, until `signal` aborts. */
export async function* changes(
  { paths, since, everyMs }: Watching,
  signal: AbortSignal,
): AsyncGenerator<void, void> {
  let before = since
  let known: Look['files'] = new Map()
  while (!signal.aborted) {
    await pause(everyMs, signal)
    if (signal.aborted) return
    const { content, files } = await look(paths(), known)
    known = files
    if (content === before) continue
    before = content
    yield
  }
}
