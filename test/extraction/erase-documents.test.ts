// The library erases documents of a flow on a broker, as the command does.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { eraseDocuments } from '../../src/index.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { startErasing } from '../support/erasing.ts'

test('a program erases a document', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-removal-'))
  const broker = createMemoryCluster().connect()
  const erasing = await startErasing(broker, folder)
  const { flow } = erasing
  for (const id of ['hr/42', 'hr/43', 'mill'] as const) await erasing.load(id, 1)
  await erasing.settled()
  await expect(eraseDocuments(['mil'], { broker, by: 'me' })).rejects.toMatchObject({
    code: 'document_unknown',
  })
  await expect(eraseDocuments(['hr/42'], { broker, by: 'me' })).rejects.toMatchObject({
    code: 'erasure_refused',
  })
  const counted = await eraseDocuments(['hr/42'], { broker, by: 'me', dryRun: true })
  expect(counted.topics[flow.topic('chunk')]).toEqual({ own: 1, others: 2 })
  const erasure = await eraseDocuments(['hr/42'], { broker, by: 'me', withOthers: true })
  expect(erasure).toMatchObject({ complete: true, waiting: [] })
  await erasing.settled()
  await expect.poll(() => erasing.found()).toEqual([])
  const [record] = ((await flow.all(flow.topic('progress'))) as Message<'Progress'>[]).filter(
    ({ payload }) => payload.kind === 'erased',
  )
  expect(record!.payload.reason).toMatch(/^erased by me: /)
  // Its status says that it was there: erasing it again is no error.
  expect(await eraseDocuments(['hr/42'], { broker, by: 'me' })).toMatchObject({ complete: true })
  await erasing.stop()
  await rm(folder, { recursive: true, force: true })
})
