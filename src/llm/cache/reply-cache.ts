// The cache of model replies, on disk: one entry a run, with the first request as its key. Processes of one machine share it. It
// only saves calls: after a fault of the disk a reply is forgotten, and nothing fails.
import { mkdir } from 'node:fs/promises'
import cacache from 'cacache'
import { systemCall } from '../../system-calls.ts'
import { parseEntry, type RunEntry } from './entry.ts'
import { createOwners, type RunOwner } from './owners.ts'
import { day, indexBytes, isTidyDue, removeEntry, tidyUp } from './tidy.ts'
import { createTurns, type Turns } from './turns.ts'

/** Where replies of the model are remembered, and how long. */
export interface CacheOptions {
  /** The folder, made with the first entry and readable only for its owner. */
  readonly dir: string
  /** The oldest entries are removed beyond this size. Default 1 GiB. */
  readonly maxBytes?: number
  /** Default 30 days. */
  readonly maxAgeMs?: number
  /** Milliseconds since 1970 UTC. Default: the system's clock. */
  readonly now?: () => number
  /** Called for the first failure of the disk. */
  readonly onFailure?: (error: unknown) => void
}

export interface CacheStats {
  readonly entries: number
  readonly bytes: number
  /** Milliseconds since 1970 UTC; undefined without entries. */
  readonly oldest: number | undefined
}

/** Only `stats`, `clear` and `forget` throw errors of the disk, and `turn` when its signal aborts. */
export interface ReplyCache extends Turns {
  /** `owner`: for which document; the runs of a document are forgotten with it. */
  get(key: string, owner?: RunOwner): Promise<RunEntry | undefined>
  /** Stores nothing for a version that is erased. */
  put(key: string, entry: RunEntry, owner?: RunOwner): Promise<void>
  /** Removes the runs of a document up to a version. Throws errors of the disk. */
  forget(owner: RunOwner): Promise<void>
  stats(): Promise<CacheStats>
  clear(): Promise<void>
  /** Waits for a cleanup that is running. */
  close(): Promise<void>
}

const gibibyte = 1024 ** 3

/** A cache of replies in a folder, for `replies` of `extract` and `run`: a request that was answered before is not asked again. */
export function openCache(options: CacheOptions): ReplyCache {
  const { dir, maxBytes = gibibyte, maxAgeMs = 30 * day, now = Date.now } = options
  const folder = { dir, maxBytes, maxAgeMs, now }
  const owners = createOwners(dir)
  let failed = false
  let written = 0
  let lastLook = 0
  let tidying: Promise<void> | undefined

  /** Undefined after a failure of the disk. */
  async function tolerant<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await systemCall(`use the replies in ${dir}`, work())
    } catch (error) {
      if (!failed && !isMiss(error)) options.onFailure?.(error)
      failed ||= !isMiss(error)
      return undefined
    }
  }

  async function read(key: string, owner?: RunOwner): Promise<RunEntry | undefined> {
    const info = await cacache.get.info(dir, key)
    if (!info || now() - info.time > maxAgeMs) return undefined
    if (owner) await owners.list(owner, key)
    const content = await cacache.get.byDigest(dir, info.integrity)
    return parseEntry(content.toString('utf8'))
  }

  async function write(key: string, text: string, owner?: RunOwner): Promise<void> {
    if (owner && owners.isErased(owner)) return
    await mkdir(dir, { recursive: true, mode: 0o700 })
    if (owner) await owners.list(owner, key)
    const before = await cacache.get.info(dir, key)
    const integrity = String(await putEntry(dir, key, text, { time: now() }))
    if (before && String(before.integrity) !== integrity)
      await cacache.rm.content(dir, String(before.integrity))
    // It was erased while this was written.
    if (owner && owners.isErased(owner)) await remove(key)
    written += text.length
    if ((await isDue()) && tidying === undefined)
      tidying = tolerant(tidy).then(() => {
        tidying = undefined
      })
  }

  async function remove(key: string): Promise<void> {
    const info = await cacache.get.info(dir, key)
    await removeEntry(dir, key, { removeFully: true })
    if (info) await cacache.rm.content(dir, String(info.integrity))
  }

  /** A cleanup is due when this process has written much, else once a day. */
  async function isDue(): Promise<boolean> {
    if (written > maxBytes / 16) return true
    if (lastLook > now() - day) return false
    lastLook = now()
    return isTidyDue(folder)
  }

  async function tidy(): Promise<void> {
    written = 0
    await tidyUp(folder)
  }

  return {
    ...createTurns(),
    get: (key, owner) => tolerant(() => read(key, owner)),
    async put(key, entry, owner) {
      await tolerant(() => write(key, JSON.stringify(entry), owner))
    },
    forget: (owner) => owners.forget(owner, remove),
    async stats() {
      const entries = Object.values(await cacache.ls(dir))
      const bytes = entries.reduce((sum, { size }) => sum + size + indexBytes, 0)
      const oldest = entries.reduce<number | undefined>(
        (least, { time }) => Math.min(time, least ?? time),
        undefined,
      )
      return { entries: entries.length, bytes, oldest }
    },
    async clear() {
      await cacache.rm.all(dir)
    },
    async close() {
      await tidying
      // What was written during the cleanup counts too.
      if (written > maxBytes / 16) await tolerant(tidy)
    },
  }
}

/** The types of cacache omit the time. */
const putEntry = cacache.put as (
  dir: string,
  key: string,
  text: string,
  options: { readonly time: number },
) => Promise<unknown>

/** The disk is fine: there is no such entry, or another process has removed it, or its content is damaged. */
function isMiss(error: unknown): boolean {
  const { code = '' } = (error ?? {}) as NodeJS.ErrnoException
  return ['ENOENT', 'EINTEGRITY', 'EBADSIZE'].includes(code)
}
