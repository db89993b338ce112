// Where triples end: a stream (standard output) or files. A batch is durable when `write` resolves.
import { type FileHandle, mkdir, open, readFile, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { GraphmillError } from '../errors.ts'
import type { Triple } from './term.ts'
import { createEncoder, type EncoderOptions, type Format } from './write.ts'

export interface TripleStore {
  /** Where the triples go, as people read it: a host, a file, a folder. Default `the store`. */
  readonly destination?: string
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

/** Writes one file anew. */
export async function openFileStore(
  path: string,
  { format, ...options }: StoreOptions,
): Promise<TripleStore> {
  const encoder = createEncoder(format, options)
  await mkdir(dirname(path), { recursive: true }).catch(failed(path))
  const file = (await open(path, 'w').catch(failed(path))) as FileHandle
  await file.write(encoder.begin()).catch(failed(path))
  return {
    destination: path,
    write: (triples) => append(file, encoder.encode(triples), path),
    async close() {
      await append(file, encoder.end(), path)
      await file.close()
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
 * where another living process of this host has that name, `<host>-2` and so on. A line that a crash tore is cut off.
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
      const file = await open(path, 'a+')
      const whole = await wholeLines(file)
      await file.truncate(whole)
      if (whole === 0) await file.write(encoder.begin())
      return { path, file, release }
    }
  }

  return {
    destination: folder,
    async write(triples, scope) {
      const name = `${scope.workspace}.${scope.flow}`
      const opening = files.get(name) ?? openFile(name).catch(failed(folder))
      files.set(name, opening as Promise<OwnFile>)
      opening.catch(() => files.delete(name))
      const { file, path } = (await opening) as OwnFile
      await append(file, encoder.encode(triples), path)
    },
    async close() {
      for (const opening of files.values()) {
        const { file, release } = await opening
        await file.close()
        await release()
      }
      files.clear()
    },
  }
}

interface OwnFile {
  readonly path: string
  readonly file: FileHandle
  readonly release: () => Promise<void>
}

async function append(file: FileHandle, text: string, path: string): Promise<void> {
  if (text === '') return
  try {
    await file.appendFile(text)
    await file.datasync()
  } catch (cause) {
    failed(path)(cause)
  }
}

/** The length of a file up to its last line end. */
async function wholeLines(file: FileHandle): Promise<number> {
  const { size } = await file.stat()
  const block = Buffer.alloc(64 * 1024)
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - block.length)
    const { bytesRead } = await file.read(block, 0, end - start, start)
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
      await file.write(String(process.pid))
      await file.close()
      return () => rm(path, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      const owner = Number(await readFile(path, 'utf8').catch(() => ''))
      if (owner !== process.pid && alive(owner)) return undefined
      if (owner === process.pid) return undefined
      await rm(path, { force: true })
    }
  }
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
