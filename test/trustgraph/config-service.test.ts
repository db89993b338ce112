// The messages of TrustGraph's configuration service as TrustGraph 2.11.1 wrote them, and what a client writes.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { openConfigService } from '../../src/trustgraph/config-service.ts'
import { readRecord, type TrustGraphType, writeRecord } from '../../src/trustgraph/records.ts'
import { type ConfigRequestJson, startConfigStandIn } from '../support/trustgraph-config.ts'

const folder = '../shared/cases/trustgraph'
const captured = (file: string) =>
  JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')) as { readonly value: Record<string, unknown> }

const topics = { request: 'tg.request.config', response: 'tg.response.config', notify: 'tg.notify.config' }
const request = (fields: Partial<ConfigRequestJson>) => ({
  ...{ operation: '', workspace: '', keys: [], type: '', values: [] },
  ...fields,
})

test('a request has all fields, and one header, its id', async () => {
  const broker = createMemoryCluster().connect()
  const stop = new AbortController()
  await using service = await startConfigStandIn(broker, topics)
  await service.put('default', 'prompt', { system: 'x' })
  const log = pino({ level: 'silent' })
  const client = openConfigService({ broker, topics, log, onPush: () => undefined }, stop.signal)
  const { version, values } = await client.ask({ operation: 'getkeys-all-ws', type: 'prompt' })
  expect(version).toBe(service.version)
  expect(values).toEqual([{ type: 'prompt', key: 'system', value: '', workspace: 'default' }])
  await client.ask({ operation: 'getvalues', type: 'prompt', workspace: 'default' })
  expect(service.asked).toEqual([
    request({ operation: 'getkeys-all-ws', type: 'prompt' }),
    request({ operation: 'getvalues', type: 'prompt', workspace: 'default' }),
  ])
  for await (const { headers, key } of broker.read(
    { topic: topics.request, from: 'earliest', until: 'end' },
    stop.signal,
  ))
    expect([Object.keys(headers), key]).toEqual([['id'], ''])
  stop.abort()
})

describe.skipIf(!existsSync(folder))('what TrustGraph 2.11.1 wrote', () => {
  const files = existsSync(folder) ? readdirSync(folder).filter((file) => file.startsWith('Config')) : []
  test.each(files)('%s is read and written again', (file) => {
    const { value } = captured(file)
    const type = file.split('.')[0] as TrustGraphType
    const record = readRecord(type, Buffer.from(JSON.stringify(value)))
    expect(JSON.parse(writeRecord(type, record).toString())).toEqual(value)
  })

  test('its requests are ours', () => {
    expect(captured('ConfigRequest.getkeys-all-ws.json').value).toEqual(
      request({ operation: 'getkeys-all-ws', type: 'prompt' }),
    )
    expect(captured('ConfigRequest.getvalues.json').value).toEqual(
      request({ operation: 'getvalues', type: 'prompt', workspace: 'default' }),
    )
  })
})
