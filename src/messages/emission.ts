// Emissions: a chunk as one version of its document sent it to the extractors. What a document consists of is a set of emissions, of
// which each is named by 6 bytes. Two of a document have one name by chance in one of 10^10 documents of 100 chunks.
import { hash } from 'node:crypto'
import type { Header } from './envelope.ts'

/** The bytes of a key. */
export const keyLength = 6

/** The key of what a message is made from: its chunk, or its document when it has no chunk. One character for each byte. */
export function emissionKey({
  documentId,
  chunkId,
  versionTime,
}: Pick<Header, 'documentId' | 'chunkId'> & Partial<Pick<Header, 'versionTime'>>): string {
  const name = chunkId || documentId
  const digest = hash('sha256', versionTime ? `${name}@${versionTime}` : name, 'buffer')
  return digest.toString('latin1', 0, keyLength)
}

/** The keys as they stand in messages: sorted, one behind the other. */
export function joinKeys(keys: Iterable<string>): Buffer {
  return Buffer.from([...keys].sort().join(''), 'latin1')
}

/** The keys of a message. A rest that is shorter than a key is ignored. */
export function splitKeys(bytes: Uint8Array): string[] {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
  return Array.from({ length: Math.floor(text.length / keyLength) }, (_, at) =>
    text.slice(at * keyLength, (at + 1) * keyLength),
  )
}

/** Negative when `one` is the older version of their document. */
export function compareVersions(
  one: Pick<Header, 'version' | 'versionTime'>,
  other: Pick<Header, 'version' | 'versionTime'>,
): number {
  return (
    one.versionTime - other.versionTime ||
    (one.version < other.version ? -1 : Number(one.version > other.version))
  )
}

/** Keys of emissions; a `Set` of strings is one. */
export interface KeySet extends Iterable<string> {
  readonly size: number
  has(key: string): boolean
}

/** The set of keys that are sorted, one behind the other, with one character for each byte. */
export function keySet(keys: string): KeySet {
  const at = (index: number) => keys.slice(index * keyLength, (index + 1) * keyLength)
  const size = Math.floor(keys.length / keyLength)
  return {
    size,
    has(key) {
      let low = 0
      let high = size
      while (low < high) {
        const middle = (low + high) >> 1
        const found = at(middle)
        if (found === key) return true
        if (found < key) low = middle + 1
        else high = middle
      }
      return false
    },
    *[Symbol.iterator]() {
      for (let index = 0; index < size; index++) yield at(index)
    },
  }
}
