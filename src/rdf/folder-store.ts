// A folder with one file for each document. What an emission states follows its mark in the file, so that it can be withdrawn: then the
// file is written beside without it, synced, and renamed. One process at a time changes a file, by its lock.
import { randomUUID } from 'node:crypto'
import { access, constants, type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { emissionKey } from '../messages/emission.ts'
import { systemCall } from '../system-calls.ts'
import { openDurableFile } from './durable-file.ts'
import { createExclusiveFiles, syncFolder } from './exclusive-files.ts'
import type { FileLock } from './file-lock.ts'
import { failed, formatExtensions, type StoreOptions, type TripleStore } from './store.ts'
import {
  documentName,
  isKeyWithdrawn,
  type Statement,
  type TripleSupport,
  type Withdrawal,
} from './support.ts'
import { wholeLength } from './torn-file.ts'
import { createEncoder, type TripleFormat } from './write.ts'

export interface FolderStoreOptions extends StoreOptions {
  /** How long a lock of an unknown owner is watched before it is taken over, in milliseconds. Default 10,000. */
  readonly lockPatienceMs?: number
}

type Scope = Parameters<TripleStore['write']>[1]

/**
 * One file for each document in a folder, `<workspace>.<flow>.<hash of the document's id>.nq`, which processes on several machines may
 * share. Batches are appended; a batch that a crash cut is removed before the next one. A file whose document states nothing more is
 * removed. What no document states is in a file of its own.
 */
export function openFolderStore(folder: string, options: FolderStoreOptions): TripleStore {
  const { format } = options
  const encoder = createEncoder(format, options)
  const files = createExclusiveFiles(folder, options.lockPatienceMs)

  const pathOf = (documentId: string, scope: Scope) =>
    join(
      folder,
      `${scope.workspace}.${scope.flow}.${documentName(documentId, scope)}.${formatExtensions[format]}`,
    )

  const support: TripleSupport = {
    async state(statements, scope, signal) {
      const texts = Map.groupBy(statements, ({ emission }) => emission.documentId)
      const encoded = [...texts].map(([documentId, of]) => ({
        path: pathOf(documentId, scope),
        head: `${titleOf(documentId, format)}${encoder.begin()}`,
        text: of.map((each) => marked(each, encoder.encode(each.triples), format)).join(''),
      }))
      const written = encoded
        .filter(({ text }) => text !== '')
        .map(({ path, ...batch }) =>
          files.change(path, (lock) => append(path, batch, { format, lock }), signal),
        )
      await Promise.all(written)
    },
    withdraw(withdrawal, scope, signal) {
      const path = pathOf(withdrawal.documentId, scope)
      return files.change(path, (lock) => rewrite(path, withdrawal, lock), signal)
    },
  }

  return {
    destination: folder,
    support,
    write: (triples, scope, signal) =>
      support.state([{ emission: { documentId: '', chunkId: '', versionTime: 0 }, triples }], scope, signal),
    async ready() {
      await mkdir(folder, { recursive: true })
        .then(() => systemCall(`access ${folder}`, access(folder, constants.W_OK)))
        .then(() => removeRemains(folder))
        .catch(failed(folder))
    },
    async close() {
      await files.settled()
    },
  }
}

const remains = /^(.+)\.[0-9a-f-]{36}\.tmp$/

/** Files beside that a killed process has left: nobody has the lock of theirs. */
async function removeRemains(folder: string): Promise<void> {
  const names = new Set(await readdir(folder))
  for (const name of names) {
    const path = remains.exec(name)?.[1]
    if (path !== undefined && !names.has(`${path}.lock`)) await rm(join(folder, name), { force: true })
  }
}

const newline = 10

/** For people; JSON Lines has no comments. */
const titleOf = (documentId: string, format: TripleFormat) =>
  format === 'jsonl' || documentId === '' ? '' : `# document ${JSON.stringify(documentId)}\n`

/** The triples of a statement, marked with its emission: a comment before them, in JSON Lines a member of each line. */
function marked({ emission }: Statement, text: string, format: TripleFormat): string {
  if (text === '') return ''
  const mark = `${Buffer.from(emissionKey(emission), 'latin1').toString('hex')}@${emission.versionTime}`
  if (format !== 'jsonl') return `# emission ${mark}\n${text}`
  return text.replaceAll('}\n', `,"emission":"${mark}"}\n`)
}

const lineMark = /^# emission ([0-9a-f]{12})@(\d+)\n$|,"emission":"([0-9a-f]{12})@(\d+)"\}\n$/

/** Appends a batch. False when the file is another one by now, so that the batch may be lost. */
async function append(
  path: string,
  { head, text }: { readonly head: string; readonly text: string },
  { format, lock }: { readonly format: TripleFormat; readonly lock: FileLock },
): Promise<boolean> {
  const file = await openDurableFile(path, 'a+')
  try {
    const { size } = await file.handle.stat()
    const whole = await wholeLength(file.handle, format)
    const kept = whole < Buffer.byteLength(head) ? 0 : whole // a cut head is useless
    if (kept < size) await file.truncate(kept)
    await file.append(kept === 0 ? head + text : text)
    if (size === 0) await syncFolder(dirname(path))
    return (await lock.isHeld()) && (await file.isThere())
  } finally {
    await file.close({ isOwn: await lock.isHeld() })
  }
}

/** Replaces the file by one without what is withdrawn. False when the lock was lost, so that another process may have changed it. */
async function rewrite(path: string, withdrawal: Withdrawal, lock: FileLock): Promise<boolean> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (!file) return true
  const beside = `${path}.${randomUUID()}.tmp`
  try {
    const copy = await open(beside, 'wx')
    let copied: Copied
    try {
      copied = await systemCall(`rewrite ${path}`, copyKept(file, copy, withdrawal))
      await systemCall(`sync ${beside}`, copy.sync())
    } finally {
      await copy.close()
    }
    if (copied.withdrawn === 0) return true
    if (!(await lock.isHeld())) return false
    if (copied.kept > 0) await rename(beside, path)
    else await rm(path)
    await syncFolder(dirname(path))
    return true
  } finally {
    await file.close()
    await rm(beside, { force: true })
  }
}

/** Lines of triples. */
interface Copied {
  kept: number
  withdrawn: number
}

async function copyKept(from: FileHandle, to: FileHandle, withdrawal: Withdrawal): Promise<Copied> {
  const copied: Copied = { kept: 0, withdrawn: 0 }
  let waiting: Buffer[] = []
  let length = 0
  let isKept = true
  let isHead = true
  for await (const line of linesOf(from)) {
    const mark = lineMark.exec(line.toString('latin1', Math.max(0, line.length - maxMark)))
    if (mark) {
      const key = Buffer.from((mark[1] ?? mark[3])!, 'hex').toString('latin1')
      isKept = !isKeyWithdrawn({ key, versionTime: Number(mark[2] ?? mark[4]) }, withdrawal)
      isHead = false
    }
    if (!isHead) copied[isKept ? 'kept' : 'withdrawn']++
    if (!isKept) continue
    waiting.push(line)
    length += line.length
    if (length < span) continue
    await to.writeFile(Buffer.concat(waiting))
    waiting = []
    length = 0
  }
  await to.writeFile(Buffer.concat(waiting))
  return copied
}

/** Bytes that are read at once. */
const span = 256 * 1024
/** More than the bytes of a mark. */
const maxMark = 100

/** The whole lines of a file, each with its end. */
async function* linesOf(file: FileHandle): AsyncGenerator<Buffer> {
  let rest: Buffer[] = []
  for (;;) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(span), 0, span, null)
    if (bytesRead === 0) return
    let begin = 0
    for (
      let end = buffer.indexOf(newline);
      end >= 0 && end < bytesRead;
      end = buffer.indexOf(newline, begin)
    ) {
      yield Buffer.concat([...rest, buffer.subarray(begin, end + 1)])
      rest = []
      begin = end + 1
    }
    if (begin < bytesRead) rest.push(buffer.subarray(begin, bytesRead))
  }
}
