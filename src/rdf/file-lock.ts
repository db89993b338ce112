// The lock of an output file: one process at a time writes to it. The lock names its owner by PID, start time, boot and PID namespace,
// since PIDs are reused (in a container of its own each process is PID 1). When these cannot tell, the time of the lock does: its owner renews it.
import { randomUUID } from 'node:crypto'
import { type FileHandle, open, readFile, readlink, rename, rm, stat } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'

export interface FileLock {
  /** Whether this process still has it: one that was stopped for too long may have lost it to another. */
  isHeld(): Promise<boolean>
  release(): Promise<void>
}

/** A process, as /proc names it; all fields but the PID are empty on systems without /proc. */
interface Owner {
  readonly pid: number
  /** In clock ticks since the boot. */
  readonly started: string
  readonly boot: string
  readonly namespace: string
}

/** How often the owner renews the time of its lock, in milliseconds. */
const renewEveryMs = 1000

/** How long the lock of an unknown owner may stay unrenewed before it counts as abandoned, in milliseconds. No clocks are compared. */
const abandonedAfterMs = 10_000

/**
 * Creates a lock file that names this process, or takes over the lock of a dead process; undefined when its owner is alive.
 *
 * For owners in the same PID namespace the system tells whether they are alive. For others (another container or machine with this name,
 * an earlier boot) the lock is watched: a living owner renews it.
 */
export async function lockFile(
  path: string,
  patienceMs: number = abandonedAfterMs,
): Promise<FileLock | undefined> {
  for (;;) {
    const made = await make(path)
    if (made) return hold(path, made)
    const seen = await look(path)
    if (seen === undefined) continue
    const state = await stateOf(seen.owner)
    const next = state === 'unknown' ? await watch(path, seen, patienceMs) : state
    if (next === 'alive') return undefined
    if (next === 'replaced') continue
    const taken = await takeOver(path, seen)
    if (taken) return hold(path, taken)
  }
}

/** A new lock file that names this process; undefined when there is one already. */
async function make(path: string): Promise<FileHandle | undefined> {
  let file: FileHandle
  try {
    file = await open(path, 'wx')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return undefined
    throw error
  }
  try {
    await file.writeFile(JSON.stringify(await self()))
    return file
  } catch (error) {
    await file.close()
    await rm(path, { force: true })
    throw error
  }
}

/** Replaces the lock that was seen by one of this process, if it is still there. */
async function takeOver(path: string, seen: Seen): Promise<FileHandle | undefined> {
  const own = `${path}.${randomUUID()}`
  const file = (await make(own)) as FileHandle
  if (isSame(await look(path), seen)) {
    await rename(own, path)
    return file
  }
  await file.close()
  await rm(own, { force: true })
  return undefined
}

async function hold(path: string, file: FileHandle): Promise<FileLock> {
  const { ino, dev } = await file.stat()
  const renewing = setInterval(() => {
    const now = new Date()
    file.utimes(now, now).catch(() => undefined)
  }, renewEveryMs)
  renewing.unref()
  const isHeld = async () => {
    const there = await stat(path).catch(() => undefined)
    return there?.ino === ino && there.dev === dev
  }
  return {
    isHeld,
    async release() {
      clearInterval(renewing)
      if (await isHeld()) await rm(path, { force: true })
      await file.close()
    },
  }
}

interface Seen {
  readonly ino: number
  readonly mtimeMs: number
  /** Undefined when it names nobody. */
  readonly owner: Owner | undefined
}

/** The current lock; undefined when there is none. */
async function look(path: string): Promise<Seen | undefined> {
  try {
    const { ino, mtimeMs } = await stat(path)
    return { ino, mtimeMs, owner: ownerOf(await readFile(path, 'utf8')) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

const isSame = (one: Seen | undefined, other: Seen) =>
  one !== undefined && one.ino === other.ino && one.mtimeMs === other.mtimeMs

/** The locks of earlier builds hold only a PID. */
function ownerOf(text: string): Owner | undefined {
  try {
    const value = JSON.parse(text) as Owner | number
    if (typeof value === 'number') return { pid: value, started: '', boot: '', namespace: '' }
    return typeof value?.pid === 'number' ? value : undefined
  } catch {
    return undefined
  }
}

/** Watches the lock of an unknown owner: `alive` when it is renewed, `replaced` when it has changed or disappeared, otherwise `gone`. */
async function watch(path: string, seen: Seen, patienceMs: number): Promise<'alive' | 'replaced' | 'gone'> {
  for (const until = performance.now() + patienceMs; performance.now() < until; ) {
    await wait(Math.min(renewEveryMs / 4, patienceMs))
    const now = await look(path)
    if (now?.ino !== seen.ino) return 'replaced'
    if (now.mtimeMs !== seen.mtimeMs) return 'alive'
  }
  return 'gone'
}

async function stateOf(owner: Owner | undefined): Promise<'alive' | 'gone' | 'unknown'> {
  if (owner === undefined) return 'unknown'
  const { pid, started, boot, namespace } = await self()
  const isNear = owner.boot === boot && owner.namespace === namespace
  if (started === '' || !isNear) {
    // Earlier builds do not renew their locks: those that are visibly alive keep them.
    const isOld = owner.started === '' && owner.pid !== pid
    return isOld && exists(owner.pid) ? 'alive' : 'unknown'
  }
  const ticks = await startOf(owner.pid)
  if (ticks !== undefined) return ticks === owner.started ? 'alive' : 'gone'
  // /proc may show only the processes of this user.
  return exists(owner.pid) ? 'unknown' : 'gone'
}

/** This process, once /proc could be read: it stays the same, and locks are made for every write. */
let known: Owner | undefined

async function self(): Promise<Owner> {
  if (known) return known
  const read = (file: string) => readFile(file, 'utf8').catch(() => '')
  const [started, boot, namespace] = await Promise.all([
    startOf(process.pid),
    read('/proc/sys/kernel/random/boot_id'),
    readlink('/proc/self/ns/pid').catch(() => ''),
  ])
  const owner = { pid: process.pid, started: started ?? '', boot: boot.trim(), namespace }
  if (owner.started !== '' && owner.boot !== '' && namespace !== '') known = owner
  return owner
}

/** When a process started; undefined when it does not exist, `dead` for a zombie. */
async function startOf(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The name of the program is second, in parentheses, and may contain anything.
  const [state, ...others] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return state === 'Z' || state === 'X' ? 'dead' : others[18]
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
