// Watches files and folders by looking at them every few seconds: that sees every kind of change, the swapped links of a
// Kubernetes ConfigMap too, which notifications of the file system miss.
import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'

/** Names the content of files and folders; what is not there counts as such. */
export async function contentOf(paths: readonly string[]): Promise<string> {
  const digest = createHash('sha256')
  for (const path of paths) await addPath(path, digest)
  return digest.digest('hex')
}

async function addPath(path: string, digest: ReturnType<typeof createHash>): Promise<void> {
  digest.update(`${path}\n`)
  try {
    if ((await stat(path)).isDirectory())
      for (const name of (await readdir(path)).sort()) await addPath(join(path, name), digest)
    else digest.update(await readFile(path))
  } catch (error) {
    digest.update(String((error as NodeJS.ErrnoException).code))
  }
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
  while (!signal.aborted) {
    await wait(everyMs, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    const now = await contentOf(paths())
    if (now === before) continue
    before = now
    yield
  }
}
