// Where triples are stored: a stream (standard output) or files. A batch is durable when `write` resolves.
import { access, constants, mkdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { GraphmillError } from '../errors.ts'
import { systemCall } from '../system-calls.ts'
import { type DurableFile, openDurableFile } from './durable-file.ts'
import { type FileLock, lockFile } from './file-lock.ts'
import type { TripleSupport } from './support.ts'
import type { Triple } from './term.ts'
import { wholeLength } from './torn-file.ts'
import { createEncoder, type EncoderOptions, type TripleFormat } from './write.ts'

export interface TripleStore {
  /** The destination, for people: a host, a file, a folder. Default `the store`. */
  readonly destination?: string
  /** Rejects with `store_failed` when it is not writable. */
  ready?(): Promise<void>
  /** Undefined when it cannot withdraw what a document no longer states. */
  readonly support?: TripleSupport
  /**
   * Resolves when the triples are durable. Throws `store_failed`, and `message_invalid` for triples that RDF cannot express. `signal` ends
   * the wait for a remote store.
   */
  write(
    triples: readonly Triple[],
    scope: { readonly workspace: string; readonly flow: string },
    signal?: AbortSignal,
  ): Promise<void>
  close(): Promise<void>
}

export interface StoreOptions extends EncoderOptions {
  readonly format: TripleFormat
}

const failed = (what: string) => (cause: unknown) => {
  throw new GraphmillError('store_failed', `${what}: ${(cause as Error).message}.`, { cause })
}

/** Writes to a stream that stays open, such as standard output. A batch is durable when the stream has accepted it. */
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
 * Replaces the content of one file. The old content is removed with the first batch, even an empty one: a run without any batch leaves
 * the file unchanged.
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

/** The extension of the files of a format. */
export const formatExtensions: { readonly [F in TripleFormat]: string } = {
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
 * Appends to one file per workspace and flow in a folder, `<workspace>.<flow>.<host>.nq`. Each process has its own files: when another
 * process of this host uses that name, `<host>-2` and so on. A batch that a crash cut is removed, and the file is continued. A file that
 * is removed or renamed while it is open is created again, and the batch that was written meanwhile goes to it.
 */
export function openFolderStore(folder: string, options: FolderStoreOptions): TripleStore {
  const encoder = createEncoder(options.format, options)
  const files = new Map<string, Promise<OwnFile>>()

  const write: TripleStore['write'] = async (triples, scope) => {
    const name = `${scope.workspace}.${scope.flow}`
    const opening =
      files.get(name) ??
      systemCall(`open a file in ${folder}`, openOwnFile(folder, name, options)).catch(failed(folder))
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

/** The first file of the name that no other process has. */
async function openOwnFile(folder: string, name: string, options: FolderStoreOptions): Promise<OwnFile> {
  await mkdir(folder, { recursive: true })
  for (let replica = 1; ; replica++) {
    const suffix = replica > 1 ? `-${replica}` : ''
    const path = join(folder, `${name}.${hostname()}${suffix}.${formatExtensions[options.format]}`)
    const lock = await lockFile(`${path}.lock`, options.lockPatienceMs)
    if (!lock) continue
    try {
      return { file: await openWhole(path, options), lock }
    } catch (error) {
      await lock.release()
      throw error
    }
  }
}

/** The file, up to its last whole batch, or with a new head. */
async function openWhole(path: string, options: StoreOptions): Promise<DurableFile> {
  const head = createEncoder(options.format, options).begin()
  const file = await openDurableFile(path, 'a+')
  try {
    const { size } = await file.handle.stat()
    const whole = await wholeLength(file.handle, options.format)
    const kept = whole < Buffer.byteLength(head) ? 0 : whole // a cut head is useless
    if (kept < size) await file.truncate(kept)
    if (kept === 0) await file.append(head)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

async function close({ file, lock }: OwnFile): Promise<void> {
  await file.close({ isOwn: await lock.isHeld() })
  await lock.release()
}
