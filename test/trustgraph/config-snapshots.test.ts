// The configuration service as a stand-in on the memory broker; `config-service.test.ts` has the messages that TrustGraph wrote.
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Broker } from '../../src/broker/broker.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import type { GraphmillError } from '../../src/errors.ts'
import { openConfigService } from '../../src/trustgraph/config-service.ts'
import { type ConfigSnapshot, configSnapshots } from '../../src/trustgraph/config-snapshots.ts'
import { type ConfigStandIn, startConfigStandIn } from '../support/trustgraph-config.ts'

const topics = { request: 'tg.request.config', response: 'tg.response.config', notify: 'tg.notify.config' }
const log = pino({ level: 'silent' })

let broker: Broker
let service: ConfigStandIn
let stop: AbortController
let failures: GraphmillError[]
beforeEach(async () => {
  broker = createMemoryCluster().connect()
  service = await startConfigStandIn(broker, topics)
  stop = new AbortController()
  failures = []
})
afterEach(async () => {
  stop.abort()
  await service[Symbol.asyncDispose]()
  await broker.close()
})

function follow(types: readonly string[], more: { pollMs?: number; timeoutMs?: number } = {}) {
  const { timeoutMs = 2000, ...rest } = more
  return configSnapshots(
    {
      open: (onPush) => openConfigService({ broker, topics, log, onPush, timeoutMs }, stop.signal),
      types,
      onAttempt: (error) => error && failures.push(error),
      random: () => 0,
      ...rest,
    },
    stop.signal,
  )
}

async function next(snapshots: AsyncGenerator<ConfigSnapshot, void>): Promise<ConfigSnapshot> {
  const { value } = await snapshots.next()
  if (!value) throw new Error('There is no further snapshot.')
  return value
}
const valuesOf = (snapshot: ConfigSnapshot, workspace: string, type: string) =>
  Object.fromEntries(snapshot.values(workspace, type))
const requests = () =>
  service.asked.map(({ operation, type, workspace }) => [operation, type, workspace].join(' '))

/** Waits until the follower has taken note of a version: a notice that follows it brings the next snapshot. */
async function marker(snapshots: AsyncGenerator<ConfigSnapshot, void>): Promise<ConfigSnapshot> {
  await service.put('marker', 'prompt', { at: String(service.version) })
  return next(snapshots)
}

describe('at the start', () => {
  test('all values of the types of interest are fetched, and none of reserved workspaces or other types', async () => {
    await service.put('a', 'prompt', { system: 'x', 'template.p': '{}' })
    await service.put('b', 'prompt', { system: 'y' })
    await service.put('b', 'schema', { s: '{}' })
    await service.put('b', 'tool', { t: '{}' })
    await service.put('__template__', 'prompt', { system: 'z' })
    await service.put('__workspaces__', 'workspace', { a: '{}', b: '{}', c: '{}' })
    const snapshot = await next(follow(['prompt', 'schema']))
    expect(snapshot.version).toBe(service.version)
    expect(snapshot.workspaces).toEqual(['a', 'b', 'c'])
    expect(valuesOf(snapshot, 'a', 'prompt')).toEqual({ system: 'x', 'template.p': '{}' })
    expect(valuesOf(snapshot, 'b', 'prompt')).toEqual({ system: 'y' })
    expect(valuesOf(snapshot, 'b', 'schema')).toEqual({ s: '{}' })
    expect(valuesOf(snapshot, 'a', 'schema')).toEqual({})
    expect(requests().sort()).toEqual([
      'getkeys-all-ws prompt ',
      'getkeys-all-ws schema ',
      'getkeys-all-ws workspace ',
      'getvalues prompt a',
      'getvalues prompt b',
      'getvalues schema b',
      'getvalues workspace __workspaces__',
    ])
  })

  test('a service that is not there yet is waited for', async () => {
    service.refuse('Cassandra is not there')
    const snapshots = follow(['prompt'])
    const first = next(snapshots)
    await vi.waitUntil(() => failures.length > 1)
    expect(failures[0]).toMatchObject({
      code: 'configuration_unavailable',
      message: expect.stringContaining('Cassandra is not there'),
    })
    service.refuse(undefined)
    expect((await first).workspaces).toEqual([])
  })

  test('a request that is not answered is asked again', async () => {
    const { publish } = broker
    let dropped = 0
    broker.publish = async (message) => {
      if (message.topic === topics.response && dropped++ < 1) return
      await publish(message)
    }
    await next(follow(['prompt'], { timeoutMs: 50 }))
    expect(failures[0]?.message).toContain('did not answer within 0.05 s')
  })
})

describe('a notice', () => {
  test('fetches the pairs that it names, and the snapshot before it does not change', async () => {
    await service.put('a', 'prompt', { system: '1' })
    await service.put('b', 'prompt', { system: '1' })
    const snapshots = follow(['prompt', 'schema'])
    const before = await next(snapshots)
    service.asked.length = 0
    await service.put('a', 'prompt', { system: '2' })
    const after = await next(snapshots)
    expect(valuesOf(after, 'a', 'prompt')).toEqual({ system: '2' })
    expect(valuesOf(after, 'b', 'prompt')).toEqual({ system: '1' })
    expect(valuesOf(before, 'a', 'prompt')).toEqual({ system: '1' })
    expect(after.version).toBe(service.version)
    expect(requests()).toEqual(['getvalues prompt a'])
  })

  test('of the version that is held or an older one is ignored', async () => {
    await service.put('a', 'prompt', { system: '1' })
    const snapshots = follow(['prompt'])
    const { version } = await next(snapshots)
    service.asked.length = 0
    for (const old of [version, version - 1, 0])
      await service.push({ version: old, changes: { prompt: ['a'] }, workspace_changes: null })
    await marker(snapshots)
    expect(requests()).toEqual(['getvalues prompt marker'])
  })

  test('of other types fetches nothing, and its version counts', async () => {
    const snapshots = follow(['prompt'])
    await next(snapshots)
    service.asked.length = 0
    await service.put('a', 'tool', { t: '1' })
    await service.put('__template__', 'prompt', { system: '1' }, 'lost')
    await service.push({ version: service.version, changes: { other: ['a'] }, workspace_changes: null })
    const { version } = await marker(snapshots)
    expect(version).toBe(service.version)
    expect(requests()).toEqual(['getvalues prompt marker'])
  })

  test('is kept until its fetch succeeds, while the last snapshot stays', async () => {
    await service.put('a', 'prompt', { system: '1' })
    const snapshots = follow(['prompt'])
    await next(snapshots)
    service.refuse('not now')
    await service.put('a', 'prompt', { system: '2' })
    const after = next(snapshots)
    await vi.waitUntil(() => failures.length > 1)
    await service.put('b', 'prompt', { system: '3' })
    service.refuse(undefined)
    let found = await after
    if (found.workspaces.length < 2) found = await next(snapshots)
    expect(valuesOf(found, 'a', 'prompt')).toEqual({ system: '2' })
    expect(valuesOf(found, 'b', 'prompt')).toEqual({ system: '3' })
  })

  test('of a value that was deleted takes it away', async () => {
    await service.put('a', 'processor:prompt', { f: '{}', g: '{}' })
    const snapshots = follow(['processor:prompt'])
    await next(snapshots)
    await service.delete('a', 'processor:prompt', ['f'])
    expect(valuesOf(await next(snapshots), 'a', 'processor:prompt')).toEqual({ g: '{}' })
  })

  test.each([
    'no JSON',
    '[1]',
    '{"version": "x", "changes": {}}',
    '{"version": 9, "changes": {"prompt": 1}}',
  ])('that cannot be read is passed over: %s', async (body) => {
    const snapshots = follow(['prompt'])
    await next(snapshots)
    await broker.publish({ topic: topics.notify, key: '', value: Buffer.from(body), headers: {} })
    expect(valuesOf(await marker(snapshots), 'marker', 'prompt')).toMatchObject({ at: expect.any(String) })
  })
})

describe('what was missed', () => {
  test('is fetched when the version of a notice has a gap: two changes at a time share the version of the second', async () => {
    const snapshots = follow(['prompt'])
    await next(snapshots)
    await service.put('a', 'prompt', { system: '1' }, 'lost')
    await service.put('b', 'prompt', { system: '1' })
    await service.push({ version: service.version, changes: { prompt: ['a'] }, workspace_changes: null })
    const after = await next(snapshots)
    expect(valuesOf(after, 'a', 'prompt')).toEqual({ system: '1' })
    expect(valuesOf(after, 'b', 'prompt')).toEqual({ system: '1' })
  })

  test('is fetched when the service starts again, and when the version differs, also when its store was lost', async () => {
    const snapshots = follow(['prompt'], { pollMs: 20 })
    await next(snapshots)
    await service.put('a', 'prompt', { system: '1' }, 'lost')
    expect(valuesOf(await next(snapshots), 'a', 'prompt')).toEqual({ system: '1' })
    await service.push({ version: 1000, changes: {}, workspace_changes: null })
    await service.put('a', 'prompt', { system: '2' }, 'lost')
    expect(valuesOf(await next(snapshots), 'a', 'prompt')).toEqual({ system: '2' })
  })
})

describe('a workspace', () => {
  test('that is created is fetched, and one that is deleted is gone', async () => {
    await service.put('__workspaces__', 'workspace', { a: '{}' })
    await service.put('a', 'prompt', { system: '1' })
    const snapshots = follow(['prompt'])
    expect((await next(snapshots)).workspaces).toEqual(['a'])
    await service.put('b', 'prompt', { system: '1' }, 'lost')
    await service.put('__workspaces__', 'workspace', { b: '{}' })
    const created = await next(snapshots)
    expect(created.workspaces).toEqual(['a', 'b'])
    expect(valuesOf(created, 'b', 'prompt')).toEqual({ system: '1' })
    await service.delete('__workspaces__', 'workspace', ['a'])
    expect((await next(snapshots)).workspaces).toEqual(['b'])
  })
})

test('a second client sees only the answers to its own requests', async () => {
  await service.put('a', 'prompt', { system: '1' })
  const [one, two] = await Promise.all([next(follow(['prompt'])), next(follow(['schema']))])
  expect([valuesOf(one, 'a', 'prompt'), valuesOf(two, 'a', 'prompt')]).toEqual([{ system: '1' }, {}])
})

test('the end of the process ends it, also while an answer is waited for', async () => {
  const snapshots = follow(['prompt'])
  service.refuse('never')
  const first = snapshots.next()
  await vi.waitUntil(() => failures.length > 0)
  stop.abort()
  expect(await first).toEqual({ done: true, value: undefined })
})
