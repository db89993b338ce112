// Whether a small PDF unpacks to more than there is memory for: pdf.js unpacks what a page holds as a whole, outside of what the
// thread may take. Pictures are left out, since their pixels are not looked at; so are encrypted files, whose streams are closed.
import { inflateSync } from 'node:zlib'

/** The most that one stream may unpack to, in bytes. */
export const maxUnpackedBytes = 256 * 1024 * 1024

export function unpacksTooFar(bytes: Uint8Array): boolean {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
  for (const { 0: keyword, index } of file.matchAll(/\bstream\r?\n/g)) {
    const dictionary = file.slice(Math.max(0, file.lastIndexOf('obj', index)), index)
    if (!/\/Fl(?:ateDecode)?\b/.test(dictionary) || /\/Subtype\s*\/Image\b/.test(dictionary)) continue
    if (isOver(bytes.subarray(index + keyword.length))) return true
  }
  return false
}

/** What comes behind the stream is not read; a broken stream is as long as what can be read of it. */
function isOver(bytes: Uint8Array): boolean {
  try {
    inflateSync(bytes, { maxOutputLength: maxUnpackedBytes })
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'
  }
}
