// Vectors on disk, so that each text is embedded once: those of an ontology's elements in a few files, those of chunks in one file each.
// A vector belongs to a model and a text. The texts of a broken or missing file are embedded again.
import { createHash } from 'node:crypto'
import cacache from 'cacache'
import { batches } from '../batches.ts'
import { batchSize, type Embed } from './embeddings.ts'

export interface VectorCache {
  /** The vectors of many texts, from disk where possible. */
  all(texts: readonly string[]): Promise<Float32Array[]>
  /** The vector of one text. */
  one(text: string): Promise<Float32Array>
}

export interface VectorCacheOptions {
  readonly folder: string
  /** Keeps the vectors of different models apart: server and model name. */
  readonly space: string
  readonly embed: Embed
}

/** Files for the vectors of elements. The hash of a text chooses its file. */
const buckets = 16
/** Vectors of other ontologies that a file keeps, at most. */
const maxOthers = 4000

export function createVectorCache({ folder, space, embed }: VectorCacheOptions): VectorCache {
  const hash = (text: string) => createHash('sha256').update(space).update('\0').update(text).digest('hex')
  const keyOf = (bucket: number) => `vectors:${hash('')}:${bucket}`

  async function all(texts: readonly string[]): Promise<Float32Array[]> {
    const ids = texts.map(hash)
    const wanted = new Map(ids.map((id, place) => [id, texts[place]!]))
    const found = new Map<string, Float32Array>()
    for (let bucket = 0; bucket < buckets; bucket++)
      for (const [id, vector] of await readBucket(folder, keyOf(bucket)))
        if (wanted.has(id)) found.set(id, vector)
    // File by file, so that paid vectors are written soon.
    const missing = [...wanted.keys()]
      .filter((id) => !found.has(id))
      .sort((a, b) => bucketOf(a) - bucketOf(b) || (a < b ? -1 : 1))
    let done = 0
    for (const batch of batches(missing, { maxItems: batchSize })) {
      done += batch.length
      const vectors = await embed(batch.map((id) => wanted.get(id)!))
      for (const [place, id] of batch.entries()) found.set(id, vectors[place]!)
      const next = missing[done]
      for (const bucket of new Set(batch.map(bucketOf)))
        if (next === undefined || bucket !== bucketOf(next)) await writeBucket(bucket, found)
    }
    return ids.map((id) => found.get(id)!)
  }

  async function writeBucket(bucket: number, found: ReadonlyMap<string, Float32Array>): Promise<void> {
    const own = [...found].filter(([id]) => bucketOf(id) === bucket)
    const size = own[0]![1].length
    const others = [...(await readBucket(folder, keyOf(bucket)))].filter(
      ([id, vector]) => !found.has(id) && vector.length === size,
    )
    await cacache.put(folder, keyOf(bucket), encodeBucket([...others.slice(-maxOthers), ...own]))
  }

  async function one(text: string): Promise<Float32Array> {
    const key = `vector:${hash(text)}`
    const bytes = await readBytes(folder, key)
    if (bytes && bytes.length > 0 && bytes.length % 4 === 0) return floats(bytes)
    const [vector] = await embed([text])
    await cacache.put(folder, key, Buffer.from(vector!.buffer, vector!.byteOffset, vector!.byteLength))
    return vector!
  }

  return { all, one }
}

const bucketOf = (id: string) => Number.parseInt(id.slice(0, 2), 16) % buckets

async function readBytes(folder: string, key: string): Promise<Buffer | undefined> {
  try {
    return (await cacache.get(folder, key)).data
  } catch {
    return undefined // missing or broken: it is made again
  }
}

async function readBucket(folder: string, key: string): Promise<Map<string, Float32Array>> {
  const bytes = await readBytes(folder, key)
  return bytes ? decodeBucket(bytes) : new Map()
}

/** Format: records of 32 bytes of hash and the vector's floats. All have the same length, which comes first in four bytes. */
function encodeBucket(vectors: readonly (readonly [id: string, vector: Float32Array])[]): Buffer {
  const size = vectors[0]?.[1].byteLength ?? 0
  const head = Buffer.alloc(4)
  head.writeUInt32LE(size)
  return Buffer.concat([
    head,
    ...vectors.flatMap(([id, vector]) => [
      Buffer.from(id, 'hex'),
      Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength),
    ]),
  ])
}

function decodeBucket(bytes: Buffer): Map<string, Float32Array> {
  const vectors = new Map<string, Float32Array>()
  const size = bytes.length >= 4 ? bytes.readUInt32LE(0) : 0
  if (size === 0 || size % 4 !== 0 || (bytes.length - 4) % (32 + size) !== 0) return vectors
  for (let at = 4; at < bytes.length; at += 32 + size)
    vectors.set(bytes.toString('hex', at, at + 32), floats(bytes.subarray(at + 32, at + 32 + size)))
  return vectors
}

/** A copy, since floats must be aligned to four bytes. */
function floats(bytes: Buffer): Float32Array {
  return new Float32Array(new Uint8Array(bytes).buffer)
}
