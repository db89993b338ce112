// The cache of model replies, on disk: one entry a run, found by the run's first request. Processes of one machine share it.
// It only ever saves calls: whatever is wrong with the disk makes it forget, and nothing fails by it.
import { mkdir, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import cacache from 'cacache'
import { parseEntry, type RunEntry } from './cache-entry.ts'
import { createTurns, type Turns } from './cache-turns.ts'

export interface CacheOptions {
  /** The folder; made with the first entry, for its owner only. */
  readonly dir: string
  /** Default 1 GiB. Over it the oldest entries go. */
  readonly maxBytes?: number
  /** Default 30 days. */
  readonly maxAgeMs?: number
  /** Milliseconds since 1970 UTC. Default: the system's clock. */
  readonly now?: () => number
  /** Told of the first failure of the disk. Default: nobody is. */
  readonly onFailure?: (error: unknown) => void
}

export interface CacheStats {
  readonly entries: number
  readonly bytes: number
  /** Milliseconds since 1970 UTC; undefined where there is no entry. */
  readonly oldest: number | undefined
}

/** Nothing of it throws, but `turn` when its signal aborts, and `stats` and `clear` what the disk says. */
export interface ReplyCache extends Turns {
  get(key: string): Promise<RunEntry | undefined>
  put(key: string, entry: RunEntry): Promise<void>
  stats(): Promise<CacheStats>
  clear(): Promise<void>
  /** Waits for what is being tidied up. */
  close(): Promise<void>
}

const gibibyte = 1024 ** 3
const day = 24 * 3600 * 1000

export function openCache(options: CacheOptions): ReplyCache {
  const { dir, maxBytes = gibibyte, maxAgeMs = 30 * day, now = Date.now } = options
  let failed = false
  let opened: Promise<unknown> | undefined
  let written = 0
  let tidying: Promise<void> | undefined

  /** Whatever the disk does, the work goes on. */
  async function tolerant<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      if (!failed && !isMissing(error)) options.onFailure?.(error)
      failed ||= !isMissing(error)
      return undefined
    }
  }

  async function read(key: string): Promise<RunEntry | undefined> {
    const info = await cacache.get.info(dir, key)
    if (!info || now() - info.time > maxAgeMs) return undefined
    const content = await cacache.get.byDigest(dir, info.integrity)
    return parseEntry(content.toString('utf8'))
  }

  async function write(key: string, text: string): Promise<void> {
    opened ??= mkdir(dir, { recursive: true, mode: 0o700 })
    await opened
    const before = await cacache.get.info(dir, key)
    const integrity = String(await cacache.put(dir, key, text))
    if (before && String(before.integrity) !== integrity)
      await cacache.rm.content(dir, String(before.integrity))
    written += text.length
    if (tidying === undefined && (await isTidyDue()))
      tidying = tolerant(tidy).then(() => {
        tidying = undefined
      })
  }

  /** After much was written here, and once a day for all processes together. */
  async function isTidyDue(): Promise<boolean> {
    if (written > maxBytes / 16) return true
    if (written > 0 && lastLook > now() - day) return false
    lastLook = now()
    const marked = await stat(join(dir, marker)).catch(() => undefined)
    if (marked === undefined) await mark()
    return marked !== undefined && marked.mtimeMs < now() - day
  }
  let lastLook = 0

  async function mark(): Promise<void> {
    const path = join(dir, marker)
    await writeFile(path, '', { flag: 'a' })
    await utimes(path, now() / 1000, now() / 1000)
  }

  async function tidy(): Promise<void> {
    written = 0
    await mark()
    const entries = Object.values(await cacache.ls(dir)).sort((a, b) => b.time - a.time)
    let bytes = 0
    for (const { key, integrity, size, time } of entries) {
      bytes += size + indexBytes
      if (bytes <= maxBytes && now() - time <= maxAgeMs) continue
      await removeEntry(dir, key, { removeFully: true })
      await cacache.rm.content(dir, String(integrity))
    }
  }

  return {
    ...createTurns(),
    get: (key) => tolerant(() => read(key)),
    async put(key, entry) {
      await tolerant(() => write(key, JSON.stringify(entry)))
    },
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
      opened = undefined
    },
    async close() {
      await tidying
    },
  }
}

/** Its time says when the cache was last tidied up. */
const marker = 'tidied'

/** Its types leave the options out. */
const removeEntry = cacache.rm.entry as (
  dir: string,
  key: string,
  options: { readonly removeFully: boolean },
) => Promise<unknown>

/** What an entry takes besides its content, about. */
const indexBytes = 512

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === 'ENOENT'
}
