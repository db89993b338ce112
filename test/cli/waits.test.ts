// What `status` says a document waits for, from what the ledger and the broker know.
import { expect, test } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { topicSpec } from '../../src/broker/topics.ts'
import { waitsOf } from '../../src/cli/waits.ts'
import { errorTable } from '../../src/errors.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { Status, Waiting } from '../../src/messages/generated.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'

const place = { space: 'gm', workspace: 'default', flow: 'default' }
const now = 1_700_000_000_000
const minute = 60_000

/** A document of one chunk whose unit runs. */
function running(): Pick<Status, 'state' | 'incomplete' | 'ledger'> {
  const aggregate = createProgressAggregate()
  const nothing = { units: [], facts: {}, rejected: {}, repaired: 0, duplicates: 0, seq: 0, error: null }
  for (const payload of [
    { ...nothing, kind: 'document', parts: 1 },
    { ...nothing, kind: 'part', part: 0, chunks: 1, units: ['extract-topics'] },
  ])
    aggregate.add({ documentId: 'urn:d', chunkId: '', time: now, payload } as unknown as Message<'Progress'>)
  return { state: 'running', incomplete: {}, ledger: Buffer.from(aggregate.save('urn:d')!) }
}

const wait = (type: string, minutesAgo: number, untilMinutes?: number): Waiting => ({
  processor: 'prompt',
  topic: 'gm.request.prompt.default.default',
  error: { type, message: 'no' },
  time: now - minutesAgo * minute,
  until: untilMinutes === undefined ? null : now + untilMinutes * minute,
})

const said = async (status: Partial<Status>, waiting: readonly Waiting[]) => {
  const broker = createMemoryCluster().connect()
  const statuses = new Map([['urn:d', status as Status]])
  const waits = await waitsOf(statuses, { lost: [], waiting }, { broker, place, now })
  return waits.get('urn:d') ?? []
}

test('a wait is listed while it is reported, and one with an end time until then', async () => {
  const waiting = [
    wait('llm_authentication', 1),
    wait('llm_unavailable', 3),
    wait('llm_rate_limited', 50, 10),
    wait('llm_model_loading', 50, -10),
  ]
  const found = (await said(running(), waiting)).filter((sentence) => sentence.includes('prompt waits'))
  expect(found).toEqual([
    `prompt waits: no [llm_authentication], last reported 2023-11-14T22:12:20.000Z. ${errorTable.llm_authentication.remedy}`,
    expect.stringMatching(
      /^prompt waits: no \[llm_rate_limited\], last reported 2023-11-14T21:23:20.000Z, tried again 2023-11-14T22:23:20.000Z\. \w/,
    ),
  ])
})

test('a document that was replaced waits for its store while withdrawals are queued', async () => {
  const broker = createMemoryCluster().connect()
  const topic = 'gm.notify.retractions.default.default'
  await broker.ensureTopics([topicSpec(topic)])
  await broker.publish({ topic, key: 'urn:d', value: Buffer.from('x'), headers: {} })
  const versions = [2, 1].map((versionTime) => ({ version: '', versionTime, state: '' }))
  const status = { state: 'done', currentTime: 2, incomplete: {}, versions }
  const statuses = new Map([
    ['urn:d', status as unknown as Status],
    ['urn:first', { ...status, versions: versions.slice(1) } as unknown as Status],
  ])
  const waits = await waitsOf(statuses, { lost: [], waiting: [] }, { broker, place, now })
  expect([...waits]).toEqual([['urn:d', [`no process runs store-triples: 1 messages wait in ${topic}`]]])
})

test('a processor that was never run is listed', async () => {
  expect(await said(running(), [])).toContain(
    'no process runs prompt: 0 messages wait in gm.request.prompt.default.default',
  )
})

test('for a finished document only expired units are listed', async () => {
  const waiting = [wait('llm_authentication', 1)]
  expect(await said({ state: 'done', incomplete: {} }, waiting)).toEqual([])
  expect(await said({ state: 'failed', incomplete: { expired: 3 } }, waiting)).toEqual([
    expect.stringMatching(/^3 units may have been among records that expired: .* load the document again$/),
  ])
})
