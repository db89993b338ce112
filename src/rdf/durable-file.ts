// A file to which batches are appended as a whole: the remains of a failed batch are cut off before the next one.
import { type FileHandle, open, stat } from 'node:fs/promises'
import { systemCall } from '../system-calls.ts'

export interface DurableFile {
  readonly path: string
  readonly handle: FileHandle
  /** Resolves when the text is on the disk. Concurrent texts are appended one after the other. */
  append(text: string): Promise<void>
  /** Cuts the file to `length` bytes. */
  truncate(length: number): Promise<void>
  /** Whether its path still leads to it: text in a removed file is lost. */
  isThere(): Promise<boolean>
  /** Cuts off the remains of a failed batch, unless the file belongs to another process by now. */
  close(options?: { readonly isOwn: boolean }): Promise<void>
}

/** Opens an existing file with its content, or a new one; `a+` to read it, too. */
export async function openDurableFile(path: string, flags: 'a' | 'a+'): Promise<DurableFile> {
  const handle = await systemCall(`open ${path}`, open(path, flags))
  const opened = await systemCall(`stat ${path}`, handle.stat())
  /** Pipes and devices can neither be cut nor synced. */
  const isFile = opened.isFile()
  let length = isFile ? opened.size : 0
  let isTorn = false
  let last: Promise<unknown> = Promise.resolve()

  async function put(text: string): Promise<void> {
    if (text === '') return
    if (isTorn) await cut(length)
    const bytes = Buffer.from(text)
    isTorn = isFile
    await systemCall(`write ${path}`, handle.appendFile(bytes))
    if (isFile) await systemCall(`sync ${path}`, handle.datasync())
    isTorn = false
    length += bytes.byteLength
  }

  async function cut(to: number): Promise<void> {
    if (isFile) await systemCall(`truncate ${path}`, handle.truncate(to))
    length = to
    isTorn = false
  }

  return {
    path,
    handle,
    append(text) {
      const appended = last.then(() => put(text))
      last = appended.catch(() => undefined)
      return appended
    },
    truncate: cut,
    async isThere() {
      if (!isFile) return true
      const there = await systemCall(`stat ${path}`, stat(path)).catch(() => undefined)
      return there?.ino === opened.ino && there.dev === opened.dev
    },
    async close({ isOwn } = { isOwn: true }) {
      await last
      if (isTorn && isOwn) await cut(length).catch(() => undefined)
      await systemCall(`close ${path}`, handle.close())
    },
  }
}
