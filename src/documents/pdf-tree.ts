// The tree of pages of a PDF, brought into the open. pdf.js counts a tree anew that claims too many pages, and believes one
// that claims too few: so that it counts, every node is made to claim too many. Since PDF 1.5 nodes may stand in compressed
// streams of objects; those of encrypted files stay closed.
import { inflateSync } from 'node:zlib'

/** The most that one stream of objects may hold, in bytes. */
const maxStreamBytes = 64 * 1024 * 1024

export interface PageTree {
  /** How many objects are pages. Those that were taken out of the tree are objects still. */
  readonly pageObjects: number
  /** The same file, with nodes that all claim too many pages. */
  claimingTooMany(): Uint8Array
}

export function openTree(bytes: Uint8Array): PageTree {
  const file = Buffer.from(bytes).toString('latin1')
  const opened = openNodes(bytes, file)
  return {
    pageObjects: countPages(file) + countPages(opened),
    claimingTooMany() {
      const nodes = `${file}\n${opened}`.replace(/\/Count\s+-?\d+/g, '/Count 999999999')
      // Without its table of objects pdf.js looks for them itself; of two with one number the later counts.
      return Uint8Array.from(Buffer.from(`${nodes}startxref\n${nodes.length}\n%%EOF\n`, 'latin1'))
    },
  }
}

const countPages = (text: string) => text.match(/\/Type\s*\/Page(?![a-zA-Z])/g)?.length ?? 0

/** The nodes and pages of compressed streams, as objects that stand in the file by themselves. */
function openNodes(bytes: Uint8Array, file: string): string {
  const { plain, streams } = scan(file)
  const opened: string[] = []
  for (const { dictionary, begin, end } of streams) {
    for (const [number, text] of objectsOf(dictionary, bytes.subarray(begin, end))) {
      const isNode = /\/Kids\b|\/Type\s*\/Page(?![a-zA-Z])/.test(text)
      // What stands further back in the file is newer.
      if (isNode && (plain.get(number) ?? 0) < begin) opened.push(`${number} 0 obj\n${text}\nendobj\n`)
    }
  }
  return opened.join('')
}

interface ObjectStream {
  readonly dictionary: string
  /** Where its bytes stand in the file; `end` is that of the file where nothing says that they end. */
  readonly begin: number
  readonly end: number
}

/** Where the objects of a file begin, by number, and its streams of objects: one scan, since both may be many. */
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

/** The objects of a stream, by number. None where it can't be read. */
function* objectsOf(dictionary: string, bytes: Uint8Array): Generator<[string, string]> {
  const first = Number(/\/First\s+(\d+)/.exec(dictionary)?.[1])
  const content = /\/Filter\b/.test(dictionary) ? inflate(bytes) : Buffer.from(bytes).toString('latin1')
  // It begins with the numbers of its objects, and with where each begins.
  const header = content.slice(0, first).match(/\d+/g) ?? []
  for (let at = 0, last = -1; at + 1 < header.length; at += 2) {
    const start = Number(header[at + 1])
    // They rise: others would be read again and again.
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
