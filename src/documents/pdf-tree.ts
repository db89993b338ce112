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
  const streams = [...file.matchAll(/\/ObjStm(?![a-zA-Z])/g)]
  if (streams.length === 0) return ''
  const plain = new Map<string, number>()
  for (const { 1: number, index } of file.matchAll(/(\d+)\s+\d+\s+obj\b/g)) plain.set(number!, index)
  const opened: string[] = []
  for (const { index } of streams) {
    for (const [number, text] of objectsAt(index, bytes, file)) {
      const isNode = /\/Kids\b|\/Type\s*\/Page(?![a-zA-Z])/.test(text)
      // What stands further back in the file is newer.
      if (isNode && (plain.get(number) ?? 0) < index) opened.push(`${number} 0 obj\n${text}\nendobj\n`)
    }
  }
  return opened.join('')
}

/** The objects of the stream whose dictionary is at `index`, by number. None where it can't be read. */
function* objectsAt(index: number, bytes: Uint8Array, file: string): Generator<[string, string]> {
  const keyword = file.indexOf('stream', index)
  const dictionary = file.slice(file.lastIndexOf('obj', index - 4), keyword)
  const first = Number(/\/First\s+(\d+)/.exec(dictionary)?.[1])
  const begin = keyword + (file[keyword + 6] === '\r' ? 8 : 7)
  const content = /\/Filter\b/.test(dictionary)
    ? inflate(bytes.subarray(begin))
    : file.slice(begin, file.indexOf('endstream', begin))
  // It begins with the numbers of its objects, and with where each begins.
  const header = content.slice(0, first).match(/\d+/g) ?? []
  for (let at = 0; at + 1 < header.length; at += 2) {
    const end = header[at + 3]
    yield [
      header[at]!,
      content.slice(first + Number(header[at + 1]), end === undefined ? undefined : first + Number(end)),
    ]
  }
}

function inflate(bytes: Uint8Array): string {
  try {
    return inflateSync(bytes, { maxOutputLength: maxStreamBytes }).toString('latin1')
  } catch {
    return ''
  }
}
