// What the ledger remembers of documents: little, and enough to go on.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import type { Message } from '../../src/messages/envelope.ts'
import type { Status } from '../../src/messages/generated.ts'
import { unversioned } from '../../src/progress/flow-status.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import { createStatusCache, type StoredStatus } from '../../src/progress/status-cache.ts'

const units = ['extract-definitions', 'extract-relationships', 'extract-topics']
const idOf = (number: number) => `urn:graphmill:document:${String(number).padStart(32, '0')}`
const never = new AbortController().signal

/** The status of a document whose chunks are all done. */
function statusOf(number: number, chunks = 10): Status {
  const documentId = idOf(number)
  const aggregate = createProgressAggregate()
  const add = (payload: object, chunkId = '') =>
    aggregate.add({ documentId, chunkId, causationId: '', time: 1, payload } as Message<'Progress'>)
  add({ kind: 'document', parts: 1, title: `note-${number}.txt` })
  add({ kind: 'part', part: 0, chunks, units })
  const model = `model-${number % 7}`
  const tokens = { promptTokens: 812, completionTokens: 345 }
  const usage = { ...tokens, spent: [{ reason: 'first', model, calls: 1, ...tokens }] }
  const counted = { facts: { definitions: 2 }, rejected: { schema: 1 }, repaired: 0, duplicates: 0 }
  for (let chunk = 0; chunk < chunks; chunk++)
    for (const unit of units) {
      const run = { id: `${chunk}`, startedAt: 1 }
      add(
        { kind: 'reply', unit, run, seq: 0, last: true, usage, model, ...counted },
        `${documentId}/0/${chunk}`,
      )
    }
  const { state, title, units: ended, incomplete, totals } = aggregate.status(documentId)!
  const { models, facts, rejected, repaired, duplicates, ungrounded, calls } = structuredClone(totals)
  const counts = { facts, rejected, repaired, duplicates, ungrounded, calls, tokens: models, incomplete }
  const ledger = Buffer.from(aggregate.save(documentId)!)
  const own = {
    state,
    title,
    error: null,
    chunks,
    ...ended,
    truncated: 0,
    lost: [],
    waiting: [],
    ...unversioned,
  }
  return { epoch: Date.UTC(2026, 0, 1) + number, revision: 3, ...own, ...counts, ledger }
}

async function* entries(from: number, to: number): AsyncGenerator<StoredStatus> {
  for (let number = from; number < to; number++) {
    const message = {
      documentId: idOf(number),
      payload: statusOf(number),
      time: Date.UTC(2026, 0, 1) + number,
    }
    yield { message: message as Message<'Status'>, partition: 0, position: `${number}` }
  }
}

/** Bytes in use after a collection, those of buffers included. */
function liveBytes(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (let time = 0; time < 3; time++) collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

test('a document takes some 600 bytes, however much its status says', async () => {
  const cache = createStatusCache()
  const read = (from: number, to: number) =>
    cache.latest(idOf(from), { signal: never, read: () => entries(from, to) })
  await read(0, 500)
  const few = liveBytes()
  await read(500, 3000)
  const perDocument = (liveBytes() - few) / 2500
  expect(perDocument).toBeLessThan(1000)
  expect(cache.writtenAt(idOf(2999))).toBe(Date.UTC(2026, 0, 1) + 2999)
})

test('a saved state holds no more memory than its bytes', () => {
  const aggregate = createProgressAggregate()
  const payload = { kind: 'document', parts: 1, title: 'mills.txt' }
  aggregate.add({ documentId: 'd', time: 1, payload } as Message<'Progress'>)
  expect(aggregate.save('d')!.buffer.byteLength).toBe(aggregate.save('d')!.length)
})

test('the state of a document comes back as it was', async () => {
  const cache = createStatusCache()
  const status = statusOf(5)
  cache.put(idOf(5), status, 1)
  const known = await cache.latest(idOf(5), { signal: never, read: () => entries(0, 0) })
  expect(known).toEqual({ epoch: status.epoch, revision: 3, ledger: expect.any(Uint8Array) })
  expect(Buffer.from(known!.ledger)).toEqual(Buffer.from(status.ledger))
  const aggregate = createProgressAggregate()
  aggregate.restore(known!.ledger)
  expect(aggregate.status(idOf(5))).toMatchObject({ state: 'done', units: { done: 30 } })
})

test('the documents that have not ended are known', () => {
  const cache = createStatusCache()
  for (const [number, state] of ['queued', 'running', 'done', 'partial', 'failed'].entries())
    cache.put(idOf(number), { ...statusOf(number, 1), state }, 1)
  expect([...cache.running().keys()]).toEqual([idOf(0), idOf(1)])
})
