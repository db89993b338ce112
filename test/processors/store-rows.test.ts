// Rows of a running flow end in files, each once, whatever stops in between.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { storeRows } from '../../processors/store-rows.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { openRowFolder, type RowStore } from '../../src/rows/appended-rows.ts'
import { readTable } from '../../src/rows/definition.ts'
import { rowSchema } from '../../src/rows/row-schema.ts'
import { pause } from '../../src/wait.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-rows-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const table = readTable('mill', { fields: [{ name: 'name' }] }, { at: [], report: () => {} })!
const flows = [{ ...scope, settings: { ...settings, rowSchemas: [rowSchema(table)] } }]
const payload = (...names: string[]) => ({
  run: { id: 'r', startedAt: 1 },
  ...{ model: null, schemaName: 'mill', confidence: 0.8, groundings: [] },
  values: names.map((name) => ({ name })),
  typed: names.map((name) => JSON.stringify({ name })),
  sourceSpan: { offset: 0, length: 1, text: '' },
})
const group = `gm.store-rows.rows.default.default`
const signal = AbortSignal.timeout(60_000)
async function settled({ broker, topic }: TestFlow): Promise<void> {
  while ((await broker.lag(group, topic('rows'))).total > 0) await pause(2, signal)
}

test('a process that stops between the disk and the ack leaves each row once', async () => {
  const cluster = createMemoryCluster()
  const store = openRowFolder(folder, 'csv')
  const written = Promise.withResolvers<void>()
  // Its rows are on the disk, and no message of theirs is ever settled.
  const dying: RowStore = {
    ...store,
    async write(...batch) {
      await store.write(...batch)
      written.resolve()
      await new Promise<void>((_, reject) =>
        batch[3]!.addEventListener('abort', () => reject(batch[3]!.reason)),
      )
    },
  }
  const first = await startFlow([storeRows], { cluster, flows, rowStore: dying })
  const names = Array.from({ length: 50 }, (_, index) => `Mill ${index}`)
  for (const name of names) await first.send('rows', payload(name, 'Albion'), { chunkId: name })
  await written.promise
  await first.stop()
  const rest = await startFlow([storeRows], { cluster, flows, rowStore: openRowFolder(folder, 'csv') })
  await settled(rest)
  await rest.send('rows', payload('Mill 3', 'Albion'), { chunkId: 'Mill 3' })
  await settled(rest)
  await rest.stop()
  expect(readdirSync(folder)).toEqual(['default.default.default.mill.csv'])
  const lines = readFileSync(join(folder, 'default.default.default.mill.csv'), 'utf8')
    .split('\r\n')
    .slice(1, -1)
  expect(lines.map((line) => line.split(',')[0]).toSorted()).toEqual(
    names.flatMap((name) => [name, 'Albion']).toSorted(),
  )
})

test('rows that cannot be read or have no table are dead letters, and hold up no others', async () => {
  const flow = await startFlow([storeRows], { flows, rowStore: openRowFolder(folder, 'csv') })
  await flow.send('rows', { ...payload('a'), typed: ['{'] })
  await flow.send('rows', { ...payload('b'), schemaName: 'gone' })
  await flow.send('rows', payload('c'))
  const letters = await flow.letters('rows', 2)
  expect(letters.map(({ headers }) => headers['dead-code']).sort()).toEqual([
    'message_invalid',
    'row_schema_unknown',
  ])
  await settled(flow)
  await flow.stop()
  expect(readFileSync(join(folder, 'default.default.default.mill.csv'), 'utf8')).toMatch(
    /^name,_id,_document,_chunk\r\nc,[0-9a-f]{32},urn:d,urn:d\/0\/0\r\n$/,
  )
})

test('does not run where no rows are stored', async () => {
  const flow = await startFlow([storeRows], { flows })
  expect((await flow.broker.listTopics('gm.flow.rows')).length).toBe(0)
  await flow.stop()
})
