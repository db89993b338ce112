// Keeps standard input so that it can be read any number of times: in memory, or in a nameless file when it is long.
import { createReadStream, openSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { GraphmillError } from '../errors.ts'
import type { ExtractedType } from './extract.ts'

export interface Spooled {
  /** The first bytes, at most 8 KiB. */
  readonly head: Uint8Array
  readonly length: number
  bytes(): AsyncIterable<Uint8Array>
}

const maxHeld = 16 * 1024 * 1024
/** Bytes of a head, at most. */
export const headLength = 8 * 1024

/** Reads to the end. More than `maxHeldBytes` goes to a file in the folder for temporary files. */
export async function spool(stream: AsyncIterable<Uint8Array>, maxHeldBytes = maxHeld): Promise<Spooled> {
  const held: Uint8Array[] = []
  let length = 0
  let file: number | undefined
  for await (const piece of stream) {
    held.push(piece)
    length += piece.length
    if (length <= maxHeldBytes && file === undefined) continue
    file ??= namelessFile()
    for (const each of held.splice(0)) writeWhole(file, each)
  }
  if (file === undefined) {
    const whole = Buffer.concat(held)
    return {
      head: whole.subarray(0, headLength),
      length,
      async *bytes() {
        if (whole.length > 0) yield whole
      },
    }
  }
  const fd = file
  const read = (end?: number): AsyncIterable<Buffer> =>
    createReadStream('', { fd, autoClose: false, start: 0, ...(end !== undefined && { end }) })
  return { head: await buffer(read(headLength - 1)), length, bytes: () => read() }
}

/** A file that disappears with this process. */
function namelessFile(): number {
  const path = join(tmpdir(), `graphmill-${process.pid}-${Date.now()}`)
  const fd = openSync(path, 'wx+', 0o600)
  unlinkSync(path)
  return fd
}

function writeWhole(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
}

/** The type of a document whose extension does not tell it. Throws `document_unsupported` when it is not text. */
export function sniff(head: Uint8Array, name: string): 'text/plain' | ExtractedType {
  const text = Buffer.from(head).toString('latin1')
  if (text.startsWith('%PDF-')) return 'application/pdf'
  if (/^(\xef\xbb\xbf)?\s*</.test(text) && /<(!doctype html|html)[\s>]/i.test(text.slice(0, 1024)))
    return 'text/html'
  const utf16 = text.startsWith('\xff\xfe') || text.startsWith('\xfe\xff')
  if (text.includes('\0') && !utf16)
    throw new GraphmillError('document_unsupported', `${name}: it is neither text, Markdown, HTML nor PDF.`)
  return 'text/plain'
}
