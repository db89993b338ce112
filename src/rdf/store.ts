// Where triples are stored: a stream (standard output) or files. A batch is durable when `write` resolves.
import { access, constants, mkdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { GraphmillError } from '../errors.ts'
import { systemCall } from '../system-calls.ts'
import { type DurableFile, openDurableFile } from './durable-file.ts'
import { type FileLock, lockFile } from './file-lock.ts'
import type { Triple } from './term.ts'
import { wholeLength } from './torn-file.ts'
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

export interface FolderStoreOptions extends StoreOptions {
  /** How long a lock of an unknown owner is watched before it is taken over, in milliseconds. Default 10,000. */
  readonly lockPatienceMs?: number
}

/**
 * Appends to a file per workspace and flow in a folder, `<workspace>.<flow>.<host>.nq`. Each process has files of its own:
 * where another living process of this host has that name, `<host>-2` and so on. What a crash tore is cut off, and the file goes
 * on. A file that is removed or renamed while it is open is made again, and has the batch that was written meanwhile.
 */
export function openFolderStore(
  folder: string,
  { format, lockPatienceMs, ...options }: FolderStoreOptions,
): TripleStore {
  const encoder = createEncoder(format, options)
  const files = new Map<string, Promise<OwnFile>>()

  async function openFile(name: string): Promise<OwnFile> {
    await mkdir(folder, { recursive: true })
    for (let replica = 1; ; replica++) {
      const path = join(
        folder,
        `${name}.${hostname()}${replica > 1 ? `-${replica}` : ''}.${extensions[format]}`,
      )
      const lock = await lockFile(`${path}.lock`, lockPatienceMs)
      if (!lock) continue
      try {
        return { file: await openWhole(path), lock }
      } catch (error) {
        await lock.release()
        throw error
      }
    }
  }

  async function openWhole(path: string): Promise<DurableFile> {
    const file = await openDurableFile(path, 'a+')
    try {
      const { size } = await file.handle.stat()
      const whole = await wholeLength(file.handle, format)
      // A part of the head is none.
      const kept = whole < Buffer.byteLength(encoder.begin()) ? 0 : whole
      if (kept < size) await file.truncate(kept)
      if (kept === 0) await file.append(encoder.begin())
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  const write: TripleStore['write'] = async (triples, scope) => {
    const name = `${scope.workspace}.${scope.flow}`
    const opening =
      files.get(name) ?? systemCall(`open a file in ${folder}`, openFile(name)).catch(failed(folder))
    files.set(name, opening as Promise<OwnFile>)
    opening.catch(() => files.delete(name))
    const own = (await opening) as OwnFile
    if (await systemCall(`look at the lock of ${own.file.path}`, own.lock.isHeld())) {
      await own.file.append(encoder.encode(triples)).catch(failed(own.file.path))
      if (await own.file.isThere()) return
    }
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
        .then(() => systemCall(`access ${folder}`, access(folder, constants.W_OK)))
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
  readonly lock: FileLock
}

async function close({ file, lock }: OwnFile): Promise<void> {
  await file.close({ isOwn: await lock.isHeld() })
  await lock.release()
}
