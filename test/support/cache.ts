// What tests download, kept in `.cache/`, which git ignores. Safe under concurrent callers: one fills a folder, under a lock
// file, at a name of its own; a rename makes it visible whole or not at all.
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

const cache = resolve(import.meta.dirname, '../../.cache')

/** The longest time that a download may take, in milliseconds. */
export const patience = 10 * 60 * 1000

/** The folder of this name in the cache, filled by `fill` where it is not there yet. Say the version in the name. */
export async function cached(name: string, fill: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(cache, name)
  const partial = `${folder}.partial-${process.pid}`
  if (await exists(folder)) return folder
  await mkdir(cache, { recursive: true })
  const release = await lock(join(cache, `${name}.lock`))
  try {
    if (await exists(folder)) return folder
    await rm(partial, { recursive: true, force: true })
    await mkdir(partial)
    await fill(partial)
    await rename(partial, folder)
    return folder
  } finally {
    await rm(partial, { recursive: true, force: true })
    await release()
  }
}

/** Waits for the lock file; one whose process is gone is taken over. */
async function lock(path: string): Promise<() => Promise<void>> {
  const end = Date.now() + patience
  for (;;) {
    try {
      const file = await open(path, 'wx')
      await file.writeFile(String(process.pid))
      await file.close()
      return () => rm(path, { force: true })
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    }
    const holder = Number(await readFile(path, 'utf8').catch(() => ''))
    if (holder > 0 && !isAlive(holder)) await rm(path, { force: true })
    else if (Date.now() > end)
      throw new Error(`${path} is held by process ${holder}: delete it if that is wrong`)
    else await delay(250)
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )
