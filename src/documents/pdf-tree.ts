// Makes the page tree of a PDF readable. pdf.js counts the pages of a tree that claims too many, but trusts one that claims too
// few. So every node is changed to claim too many, and pdf.js counts. Since PDF 1.5, nodes may be in compressed object streams; those
// of encrypted files stay unread.
import { inflateSync } from 'node:zlib'

/** The largest content of one object stream, in bytes. */
const maxStreamBytes = 64 * 1024 * 1024

export interface PageTree {
  /** How many objects are pages. Pages that were removed from the tree are still objects. */
  readonly pageObjects: number
  /** The same file, but every node claims too many pages. */
  claimingTooMany(): Uint8Array
}

export function openTree(bytes: Uint8Array): PageTree {
  const file = Buffer.from(bytes).toString('latin1')
  const opened = openNodes(bytes, file)
  return {
    pageObjects: countPages(file) + countPages(opened),
    claimingTooMany() {
      const nodes = `${file}\n${opened}`.replace(/\/Count\s+-?\d+/g, '/Count 999999999')
      // Without its object table pdf.js searches for the objects itself. When two have the same number the later one counts.
      return Uint8Array.from(Buffer.from(`${nodes}startxref\n${nodes.length}\n%%EOF\n`, 'latin1'))
    },
  }
}

const countPages = (text: string) => text.match(/\/Type\s*\/Page(?![a-zA-Z])/g)?.length ?? 0

/** The nodes and pages of compressed streams, as separate objects of the file. */
function openNodes(bytes: Uint8Array, file: string): string {
  const { plain, streams } = scan(file)
  const opened: string[] = []
  for (const { dictionary, begin, end } of streams) {
    for (const [number, text] of objectsOf(dictionary, bytes.subarray(begin, end))) {
      const isNode = /\/Kids\b|\/Type\s*\/Page(?![a-zA-Z])/.test(text)
      // Later in the file means newer.
      if (isNode && (plain.get(number) ?? 0) < begin) opened.push(`${number} 0 obj\n${text}\nendobj\n`)
    }
  }
  return opened.join('')
}

interface ObjectStream {
  readonly dictionary: string
  /** Where its bytes are in the file. `end` is the end of the file when nothing else marks it. */
  readonly begin: number
  readonly end: number
}

/** Finds the objects of a file, by number, and its object streams, in one scan, since there may be many of both. */
function scan(file: string): { plain: ReadonlyMap<string, number>; streams: readonly ObjectStream[] } {
  const plain = new Map<string, number>()
  const streams: ObjectStream[] = []
  let object = 0
  let open: Omit<ObjectStream, 'end'> | undefined
  for (const { 0: word, 1: number, index } of file.matchAll(
    /(\d{1,10})\s{1,9}\d{1,9}\s{1,9}obj\b|endstream|stream\r?\n?/g,
  )) {
    if (number !== undefined) {
      plain.set(number, index)
      object = index
    } else if (word !== 'endstream') {
      if (open) continue
      const dictionary = file.slice(object, index)
      if (/\/ObjStm(?![a-zA-Z])/.test(dictionary)) open = { dictionary, begin: index + word.length }
      object = index
    } else if (open) {
      streams.push({ ...open, end: index })
      open = undefined
    }
  }
  if (open) streams.push({ ...open, end: file.length })
  return { plain, streams }
}

/** The objects of a stream, by number; empty when the stream cannot be read. */
function* objectsOf(dictionary: string, bytes: Uint8Array): Generator<[string, string]> {
  const first = Number(/\/First\s+(\d+)/.exec(dictionary)?.[1])
  const content = /\/Filter\b/.test(dictionary) ? inflate(bytes) : Buffer.from(bytes).toString('latin1')
  // A stream begins with the numbers and the positions of its objects.
  const header = content.slice(0, first).match(/\d+/g) ?? []
  for (let at = 0, last = -1; at + 1 < header.length; at += 2) {
    const start = Number(header[at + 1])
    // Positions must rise: others would be read again and again.
    if (start <= last) return
    last = start
    const end = header[at + 3]
    yield [header[at]!, content.slice(first + start, end === undefined ? undefined : first + Number(end))]
  }
}

function inflate(bytes: Uint8Array): string {
  try {
    return inflateSync(bytes, { maxOutputLength: maxStreamBytes }).toString('latin1')
  } catch {
    return ''
  }
}
