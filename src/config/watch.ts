// Watches files and folders by looking at them every few seconds: that sees every kind of change, the swapped links of a
// Kubernetes ConfigMap too, which notifications of the file system miss. A file is read again only where its inode, size or
// times say that it may be another one.
import { createHash } from 'node:crypto'
import { type BigIntStats, createReadStream } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { systemCall } from '../system-calls.ts'
import { pause } from '../wait.ts'

/** Names the content of files and folders; what is not there counts as such. */
export async function contentOf(paths: readonly string[]): Promise<string> {
  return (await look(paths, new Map())).content
}

interface KnownFile {
  /** Of the file that a link leads to. */
  readonly identity: string
  readonly content: string
}

/** What was seen: a name for all of it, and the files by their path. */
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
    // Written again within the resolution of its times, a young file would look the same.
    if (settled) files.set(path, { identity, content })
    return content
  }

  for (const path of paths) await add(path)
  return { content: digest.digest('hex'), files }
}

/** Times of files are no coarser than this anywhere, in milliseconds. */
const settledMs = 3000

async function hashFile(path: string): Promise<string> {
  const digest = createHash('sha256')
  for await (const part of createReadStream(path, { highWaterMark: 1024 * 1024 })) digest.update(part)
  return digest.digest('hex')
}

export interface Watching {
  /** Files and folders; asked for again at every look. */
  readonly paths: () => readonly string[]
  /** What `contentOf` named before the content was used. */
  readonly since: string
  readonly everyMs: number
}

/** Yields whenever the content has changed, until `signal` aborts. */
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
