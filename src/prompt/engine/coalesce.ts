// Joins what comes while the reader is busy: the first piece leaves with what came in the same turn of the event loop, and what arrives
// while it is on its way forms the next batch. The source is read ahead by a bounded amount, so that a slow reader slows the model and not the memory.
import { setImmediate as turn } from 'node:timers/promises'
import { batchLength } from '../../batches.ts'

/** Characters that may wait for the reader. */
const maxAhead = 1024 * 1024

/**
 * Batches of the pieces that `source` gives, some at a time; never empty. `size` says how many characters a piece counts for.
 * A batch holds at most `maxBatch` of them unless one piece alone is larger. What `source` throws is thrown after what came
 * before it was read.
 */
export async function* coalesce<T>(
  source: AsyncIterable<readonly T[]>,
  size: (piece: T) => number,
  maxBatch: number,
): AsyncGenerator<T[], void> {
  const iterator = source[Symbol.asyncIterator]()
  const waiting: T[] = []
  let ahead = 0
  let end: { readonly thrown?: unknown } | undefined
  let arrived = () => {}
  let freed = () => {}
  void readAhead()

  async function readAhead(): Promise<void> {
    try {
      for (let next = await iterator.next(); !next.done; next = await iterator.next()) {
        for (const piece of next.value) {
          waiting.push(piece)
          ahead += size(piece)
        }
        arrived()
        if (ahead > maxAhead) await new Promise<void>((resolve) => (freed = resolve))
      }
      end = {}
    } catch (thrown) {
      end = { thrown }
    }
    arrived()
  }

  try {
    for (;;) {
      if (waiting.length === 0 && !end) await new Promise<void>((resolve) => (arrived = resolve))
      // The end of a reply comes in the same read of the network as its last items, and then needs no batch of its own.
      if (!end) await turn()
      if (waiting.length > 0) {
        const batch = waiting.splice(0, batchLength(waiting, { maxSize: maxBatch, sizeOf: size }))
        for (const piece of batch) ahead -= size(piece)
        if (ahead <= maxAhead) freed()
        yield batch
      } else if (end) {
        if ('thrown' in end) throw end.thrown
        return
      }
    }
  } finally {
    freed()
    // A generator's return waits for the read that is under way; the caller's signal cuts that short.
    void Promise.resolve(iterator.return?.()).catch(() => undefined)
  }
}

/** Batches of the pieces that `source` gives, as few as `maxBatch` allows, however fast they come. */
export async function* collect<T>(
  source: AsyncIterable<readonly T[]>,
  size: (piece: T) => number,
  maxBatch: number,
): AsyncGenerator<T[], void> {
  let batch: T[] = []
  let length = 0
  for await (const pieces of source)
    for (const piece of pieces) {
      if (batch.length > 0 && length + size(piece) > maxBatch) {
        yield batch
        batch = []
        length = 0
      }
      batch.push(piece)
      length += size(piece)
    }
  if (batch.length > 0) yield batch
}
