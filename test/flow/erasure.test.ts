// Erasing a document: afterwards a word that only stood in it is nowhere, and nothing of others is lost.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Broker } from '../../src/broker/broker.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { deadTopic } from '../../src/broker/topics.ts'
import { replayGroup } from '../../src/flow/unsettled-letters.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { type Erasing, marker, startErasing } from '../support/erasing.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-erasing-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const titles = ['hr/42', 'hr/43', 'mill'] as const

/** The places in which the word stands before it is erased. */
const everywhere = [
  'gm.flow.chunk.default.default',
  'gm.flow.chunk.default.default.dead',
  'gm.flow.definitions.default.default',
  'gm.flow.document.default.default',
  'gm.flow.entity-contexts.default.default',
  'gm.flow.progress.default.default',
  'gm.flow.rejected.default.default',
  'gm.flow.triples.default.default',
  'gm.notify.status.default.default',
  'gm.request.prompt.default.default',
  'gm.response.prompt.extract-definitions.default.default',
  'cache',
]

async function loaded(broker: Broker): Promise<Erasing> {
  const erasing = await startErasing(broker, join(folder, 'replies'))
  for (const id of titles) await erasing.load(id, 1)
  await erasing.settled()
  expect(await erasing.found()).toEqual(everywhere)
  return erasing
}

const statusOf = async ({ flow }: Erasing, documentId: string) =>
  ((await flow.all(flow.topic('status'))) as Message<'Status'>[]).findLast(
    (message) => message.documentId === documentId,
  )!.payload

test('an erased document is nowhere afterwards, and the letters of others still wait', async () => {
  const erasing = await loaded(createMemoryCluster().connect())
  const { flow } = erasing
  const letters = deadTopic(flow.topic('chunk'))
  const erasure = await erasing.erase()
  expect(erasure).toMatchObject({ complete: true, waiting: [], readers: [] })
  expect(Object.keys(erasure.topics)).toEqual(
    expect.arrayContaining(everywhere.filter((place) => /^gm\.(?!notify)/.test(place))),
  )
  await erasing.settled()
  await expect.poll(() => erasing.found()).toEqual([])
  expect(await statusOf(erasing, 'hr/42')).toMatchObject({ state: 'removed', title: '', error: null })
  expect(await statusOf(erasing, 'hr/43')).toMatchObject({ title: 'Curriculum of Ada' })
  const waiting = await flow.broker.lag(replayGroup(letters, 'gm'), letters)
  expect(waiting.total).toBe(1)
  const [letter] = await flow.letters('chunk', 1)
  expect(letter!.headers).toMatchObject({ documentId: 'hr/43', 'dead-code': 'message_invalid' })
  // Who, when and what stay, without the content.
  const records = ((await flow.all(flow.topic('progress'))) as Message<'Progress'>[]).filter(
    ({ payload }) => payload.kind === 'erased',
  )
  expect(records).toHaveLength(1)
  expect(records[0]).toMatchObject({ documentId: 'hr/42' })
  expect(records[0]!.payload.reason).toMatch(/^erased by the test: \d+ messages of \d+ topics$/)
  expect(erasing.log()).toMatch(/"documentId":"hr\/42","reason":"erased","msg":"a document is removed"/)
  // Again changes nothing, and the record of the first one stays.
  expect(await erasing.erase()).toMatchObject({ complete: true })
  await erasing.settled()
  expect(await erasing.found()).toEqual([])
  expect((await flow.broker.lag(replayGroup(letters, 'gm'), letters)).total).toBe(1)
  await erasing.stop()
})

test('without consent, and in a dry run, nothing is removed or deleted', async () => {
  const erasing = await loaded(createMemoryCluster().connect())
  await expect(erasing.erase({ withOthers: false })).rejects.toMatchObject({ code: 'erasure_refused' })
  const { topics } = await erasing.erase({ dryRun: true })
  expect(topics['gm.flow.chunk.default.default']).toEqual({ own: 1, others: 2 })
  expect(topics['gm.flow.chunk.default.default.dead']).toEqual({ own: 1, others: 0 })
  await erasing.settled()
  expect(await erasing.found()).toEqual(everywhere)
  expect((await statusOf(erasing, 'hr/42')).title).toContain(marker)
  await erasing.stop()
})

test('a consumer that does not move is named, and nothing that it has not read is deleted', async () => {
  const broker = createMemoryCluster().connect()
  const erasing = await loaded(broker)
  const topic = erasing.flow.topic('rejected')
  const reading = new AbortController()
  const subscription = { group: 'audit', topic, maxInFlight: 10, from: 'earliest', ordering: 'none' } as const
  const held = broker.consume(subscription, reading.signal)[Symbol.asyncIterator]()
  const first = await held.next()
  const looks: string[] = []
  const onWaiting = (at: string, behind: readonly { readonly group: string }[]) =>
    void looks.push(...behind.map(({ group }) => `${group} on ${at}`))
  const stuck = await erasing.erase({ timeoutMs: 3000, onWaiting })
  expect(stuck).toMatchObject({ complete: false, waiting: [{ group: 'audit', topic, members: 1 }] })
  expect(looks).toContain(`audit on ${topic}`)
  expect(await erasing.found()).toContain(topic)
  const over = (async () => {
    for (let next = first; !next.done; next = await held.next()) await next.value.ack()
  })()
  expect(await erasing.erase()).toMatchObject({ complete: true, readers: ['audit'] })
  await erasing.settled()
  await expect.poll(() => erasing.found()).toEqual([])
  reading.abort()
  await over
  await erasing.stop()
})

test('a broker that does not delete in time ends the erasure, which is not complete', async () => {
  const connected = createMemoryCluster().connect()
  const keeping: Broker = {
    ...connected,
    deleteSettled: async (deletion) => {
      const looked = await connected.deleteSettled({ ...deletion, lookOnly: true })
      return deletion.lookOnly ? looked : { ...looked, behind: [], deleted: false }
    },
  }
  const erasing = await loaded(keeping)
  expect(await erasing.erase({ timeoutMs: 3000 })).toMatchObject({ complete: false })
  expect(await erasing.found()).not.toEqual([])
  await erasing.stop()
})

test('an erasure that ends at any of its steps is completed by the next one', async () => {
  for (let steps = 1, ended = false; !ended; steps += 7) {
    const broker = createMemoryCluster().connect()
    const erasing = await startErasing(broker, join(folder, `replies-${steps}`))
    for (const id of titles) await erasing.load(id, 1)
    await erasing.settled()
    const dying = dyingAfter(broker, steps)
    ended = await erasing.erase({ broker: dying }).then(
      () => true,
      (thrown: Error) => {
        expect(thrown.message).toBe('the process dies here')
        return false
      },
    )
    expect(await erasing.erase()).toMatchObject({ complete: true })
    await erasing.settled()
    await expect.poll(() => erasing.found()).toEqual([])
    const letters = deadTopic(erasing.flow.topic('chunk'))
    const kept = await erasing.flow.all(letters)
    expect(kept.map(({ documentId }) => documentId)).toEqual(['hr/43'])
    await erasing.stop()
  }
})

/** Publishes and deletes so many times, and then no more. */
function dyingAfter(broker: Broker, steps: number): Broker {
  let left = steps
  const step = <T>(act: () => Promise<T>): Promise<T> =>
    left-- > 0 ? act() : Promise.reject(new Error('the process dies here'))
  return {
    ...broker,
    publish: (message) => step(() => broker.publish(message)),
    deleteSettled: (deletion) =>
      deletion.lookOnly ? broker.deleteSettled(deletion) : step(() => broker.deleteSettled(deletion)),
  }
}
