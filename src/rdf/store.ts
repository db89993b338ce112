// Where triples are stored: a stream (standard output) or a file; folders are in folder-store.ts. A batch is durable when `write` resolves.
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Writable } from 'node:stream'
import { GraphmillError } from '../errors.ts'
import { type DurableFile, openDurableFile } from './durable-file.ts'
import type { TripleSupport } from './support.ts'
import type { Triple } from './term.ts'
import { createEncoder, type EncoderOptions, type TripleFormat } from './write.ts'

/** Where triples go. A program may implement it itself. */
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

/** How triples are written to a stream, file or folder. */
export interface StoreOptions extends EncoderOptions {
  readonly format: TripleFormat
}

/** Throws `store_failed` for what the system says of a file. */
export const failed = (what: string) => (cause: unknown) => {
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
