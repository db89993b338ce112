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
