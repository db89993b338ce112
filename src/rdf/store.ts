// Where triples end: a stream (standard output) or files. A batch is durable when `write` resolves.
import { access, constants, mkdir, open, readFile, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { GraphmillError } from '../errors.ts'
import { type DurableFile, openDurableFile } from './durable-file.ts'
import type { Triple } from './term.ts'
import { createEncoder, type EncoderOptions, type Format } from './write.ts'

export interface TripleStore {
  /** Where the triples go, as people read it: a host, a file, a folder. Default `the store`. */
  readonly destination?: string
  /** Rejects with `store_failed` where it can't be written to. */
  ready?(): Promise<void>
  /**
   * Resolves when the triples are durable. Throws `store_failed`, and `message_invalid` for what RDF can't say.
   * `signal` ends the wait for a store that is elsewhere.
   */
  write(
    triples: readonly Triple[],
    scope: { readonly workspace: string; readonly flow: string },
    signal?: AbortSignal,
  ): Promise<void>
  close(): Promise<void>
}

export interface StoreOptions extends EncoderOptions {
  readonly format: Format
}

const failed = (what: string) => (cause: unknown) => {
  throw new GraphmillError('store_failed', `${what}: ${(cause as Error).message}.`, { cause })
}

/** Writes to a stream that stays open, such as standard output; a batch is done when the stream has taken it. */
export function openStreamStore(stream: Writable, { format, ...options }: StoreOptions): TripleStore {
  const encoder = createEncoder(format, options)
  let begun = false
  const put = (text: string) =>
    new Promise<void>((resolve, reject) =>
      stream.write(text, (error) => (error ? reject(error) : resolve())),
    ).catch(failed('standard output'))
  return {
    destination: 'standard output',
    async write(triples) {
      const head = begun ? '' : encoder.begin()
      begun = true
      await put(head + encoder.encode(triples))
    },
    close: () => put((begun ? '' : encoder.begin()) + encoder.end()),
  }
}

/**
 * Writes one file anew. What it holds goes with the first batch, even an empty one: a run that comes to nothing leaves it as it is.
 */
export async function openFileStore(
  path: string,
  { format, ...options }: StoreOptions,
): Promise<TripleStore> {
  const encoder = createEncoder(format, options)
  await mkdir(dirname(path), { recursive: true }).catch(failed(path))
  const file = (await openDurableFile(path, 'a').catch(failed(path))) as DurableFile
  let begun = false
  return {
    destination: path,
    async write(triples) {
      if (!begun) {
        await file.truncate(0).catch(failed(path))
        await file.append(encoder.begin()).catch(failed(path))
        begun = true
      }
      await file.append(encoder.encode(triples)).catch(failed(path))
    },
    async close() {
      if (begun) await file.append(encoder.end()).catch(failed(path))
      const isThere = await file.isThere()
      await file.close()
      if (!isThere) throw new GraphmillError('store_failed', `${path} was removed while it was written.`)
    },
  }
}

const extensions: { readonly [F in Format]: string } = {
  nquads: 'nq',
  trig: 'trig',
  turtle: 'ttl',
  jsonl: 'jsonl',
}

/**
 * Appends to a file per workspace and flow in a folder, `<workspace>.<flow>.<host>.nq`. Each process has files of its own:
 * where another living process of this host has that name, `<host>-2` and so on. A line that a crash tore is cut off. A file
 * that is removed or renamed while it is open is made anew, and has the batch that was written meanwhile.
 */
export function openFolderStore(folder: string, { format, ...options }: StoreOptions): TripleStore {
  const encoder = createEncoder(format, options)
  const files = new Map<string, Promise<OwnFile>>()

  async function openFile(name: string): Promise<OwnFile> {
    await mkdir(folder, { recursive: true })
    for (let replica = 1; ; replica++) {
      const path = join(
        folder,
        `${name}.${hostname()}${replica > 1 ? `-${replica}` : ''}.${extensions[format]}`,
      )
      const release = await lock(`${path}.lock`)
      if (!release) continue
      try {
        return { file: await openWhole(path), release }
      } catch (error) {
        await release()
        throw error
      }
    }
  }

  async function openWhole(path: string): Promise<DurableFile> {
    const file = await openDurableFile(path, 'a+')
    try {
      const whole = await wholeLines(file)
      await file.truncate(whole)
      if (whole === 0) await file.append(encoder.begin())
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  const write: TripleStore['write'] = async (triples, scope) => {
    const name = `${scope.workspace}.${scope.flow}`
    const opening = files.get(name) ?? openFile(name).catch(failed(folder))
    files.set(name, opening as Promise<OwnFile>)
    opening.catch(() => files.delete(name))
    const own = (await opening) as OwnFile
    await own.file.append(encoder.encode(triples)).catch(failed(own.file.path))
    if (await own.file.isThere()) return
    if (files.get(name) === opening) {
      files.delete(name)
      await close(own)
    }
    await write(triples, scope)
  }

  return {
    destination: folder,
    write,
    async ready() {
      await mkdir(folder, { recursive: true })
        .then(() => access(folder, constants.W_OK))
        .catch(failed(folder))
    },
    async close() {
      for (const opening of files.values()) await close(await opening)
      files.clear()
    },
  }
}

interface OwnFile {
  readonly file: DurableFile
  readonly release: () => Promise<void>
}

async function close({ file, release }: OwnFile): Promise<void> {
  await file.close()
  await release()
}

/** The length of a file up to its last line end. */
async function wholeLines({ handle }: DurableFile): Promise<number> {
  const { size } = await handle.stat()
  const block = Buffer.alloc(64 * 1024)
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - block.length)
    const { bytesRead } = await handle.read(block, 0, end - start, start)
    const newline = block.subarray(0, bytesRead).lastIndexOf(10)
    if (newline >= 0) return start + newline + 1
    end = start
  }
  return 0
}

/** Makes a lock file that names this process, or takes over that of one that is gone; undefined when its owner lives. */
async function lock(path: string): Promise<(() => Promise<void>) | undefined> {
  for (;;) {
    try {
      const file = await open(path, 'wx')
      const release = () => rm(path, { force: true })
      try {
        await file.write(String(process.pid))
      } catch (error) {
        await release()
        throw error
      } finally {
        await file.close()
      }
      return release
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      const owner = Number(await readFile(path, 'utf8').catch(() => ''))
      if (owner > 0 ? owner === process.pid || alive(owner) : await isYoung(path)) return undefined
      await rm(path, { force: true })
    }
  }
}

/** Whoever makes a lock names himself in it at once, unless he dies, or the disk is full. */
const namedWithinMs = 10_000

async function isYoung(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined)
  return found !== undefined && Date.now() - found.mtimeMs < namedWithinMs
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
