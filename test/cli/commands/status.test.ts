// `graphmill status` and `graphmill rejected` while a flow runs, on a real Kafka.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect } from '../../../src/broker/connect.ts'
import { topicSpec } from '../../../src/broker/topics.ts'
import { outputRoute } from '../../../src/flow/ports.ts'
import { createSchemasTopic } from '../../../src/flow/schemas-topic.ts'
import { createCodec } from '../../../src/messages/codec.ts'
import { loadSchemas } from '../../../src/messages/registry.ts'
import { createSchemaRegistry } from '../../../src/messages/schema-registry.ts'
import { brokerSource } from '../../support/brokers.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../../support/processes.ts'
import { startRecordingServer } from '../../support/recording-server.ts'
import { startRegistry } from '../../support/schema-registry.ts'

const source = await brokerSource('status on Kafka', ['jars'])

describe.skipIf(source === undefined)('on Kafka', () => {
  let kafka: KafkaServer
  let folder: string
  let broker: string
  const started: GraphmillProcess[] = []

  beforeAll(async () => {
    kafka = await startKafka()
    broker = `kafka://${kafka.bootstrap.join(',')}`
    folder = await mkdtemp(join(tmpdir(), 'graphmill-status-'))
  }, 120_000)
  afterAll(async () => {
    for (const child of started) await child.end('SIGKILL')
    await kafka?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const startRun = async () => {
    const places = ['--broker', broker, '--http', 'off', '--out', join(folder, 'triples')]
    const child = startGraphmill(['run', '--all', '--llm', 'offline', ...places])
    started.push(child)
    await child.says('running')
    return child
  }
  const load = async (name: string, text: string) => {
    await writeFile(join(folder, name), text)
    await graphmill('load', join(folder, name), '--broker', broker)
  }
  const statusOf = async (...args: string[]) =>
    (await graphmill('status', ...args, '--json', '--broker', broker))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)

  /** Follows a document to its end, even if the ledger does not know it yet. */
  const follow = async (title: string): Promise<Record<string, unknown>[]> =>
    (await graphmill('status', title, '--watch', '--json', '--broker', broker))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)

  test('documents are followed to their end, also over a restart, and unknown ones are reported', async () => {
    await expect(load('early.txt', '')).rejects.toThrow('document_empty')
    const none = startGraphmill(['status', '--broker', broker])
    expect((await none.ended).code).toBe(1)
    expect(none.stderr()).toMatch(/No ledger keeps .*\[document_unknown\]/)
    await load('mills.txt', 'A mill is a machine that grinds grain. The miller owns the mill.')
    const watching = startGraphmill(['status', 'mills.txt', '--watch', '--json', '--broker', broker])
    started.push(watching)
    await watching.says('waiting for the ledger to hear of mills.txt')
    const run = await startRun()
    expect((await watching.ended).code).toBe(0)
    const states = watching
      .stdout()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(states.at(-1)).toMatchObject({ title: 'mills.txt', state: 'done', chunks: 1, cost: null })
    expect(states.at(-1)).toMatchObject({ units: { expected: 3, done: 3, partial: 0, dead: 0 } })

    expect(await run.end('SIGTERM')).toMatchObject({ code: 0 })
    let text = 'A loom is a machine that weaves cloth. The weaver owns the loom.'
    await using server = await startRecordingServer([{ by: (response) => response.end(text) }])
    const url = `${server.origin}/looms.txt`
    await graphmill('load', url, '--broker', broker)
    await startRun()
    const later = await follow('looms.txt')
    expect(later.at(-1)).toMatchObject({ state: 'done', units: { done: 3 } })
    const all = Object.fromEntries((await statusOf()).map(({ title, state }) => [title, state]))
    expect(all).toEqual({ 'early.txt': 'failed', 'mills.txt': 'done', 'looms.txt': 'done' })

    const loadAgain = async () => JSON.parse(await graphmill('load', url, '--broker', broker)) as object
    expect(await loadAgain()).toMatchObject({
      documentId: url,
      title: 'looms.txt',
      parts: 0,
      unchanged: true,
    })
    text = 'A loom is a frame that weaves cloth.'
    expect(await loadAgain()).toMatchObject({ documentId: url, parts: 1 })
    const mills = ['remove', join(folder, 'mills.txt'), '--broker', broker, '--dry-run']
    expect(JSON.parse(await graphmill(...mills))).toMatchObject({ title: 'mills.txt', collection: 'default' })
    const removal = ['remove', `${url}#top`, '--broker', broker]
    const shown = await graphmill(...removal, '--dry-run')
    expect(JSON.parse(shown)).toMatchObject({ documentId: url, title: 'looms.txt', collection: 'default' })
    expect((await follow(url)).at(-1)).toMatchObject({ state: 'done' })
    expect(await graphmill(...removal)).toBe(shown)
    await expect.poll(() => statusOf('looms.txt'), { timeout: 60_000 }).toMatchObject([{ state: 'removed' }])
    expect(JSON.parse(await graphmill(...removal))).toMatchObject({ title: 'looms.txt', unchanged: true })
    const empty = startGraphmill(['remove', '--collection', 'none', '--broker', broker])
    expect((await empty.ended).code).toBe(0)
    expect(empty.stderr()).toBe('graphmill: The collection none has no documents.\n')

    const table = await graphmill('status', '--broker', broker)
    expect(table).toMatch(/^DOCUMENT +STATE .*\n(.*\n)*mills\.txt +done +1 +3\/3/)
    const unknown = startGraphmill(['status', 'urn:none', '--broker', broker])
    expect((await unknown.ended).code).toBe(1)
    expect(unknown.stderr()).toMatch(/knows no document urn:none. \[document_unknown\]/)
  }, 240_000)

  test('load lists the files of a folder that it skips', async () => {
    const only = join(folder, 'only')
    await mkdir(only)
    for (const name of ['a.txt', 'README', 'notes.rst']) await writeFile(join(only, name), 'A mill.')
    const child = startGraphmill(['load', only, '--workspace', 'passing', '--broker', broker])
    expect((await child.ended).code).toBe(0)
    expect(child.stdout().trim().split('\n')).toHaveLength(1)
    expect(child.stderr()).toBe(
      `graphmill: ${only}: 2 files skipped (.rst, no extension); name one to read it.\n`,
    )
  })

  test('an unknown flow is an error', async () => {
    await graphmill('topics', 'create', '--broker', broker)
    const commands = [
      'topics lag',
      'topics describe',
      'dead list',
      'dead replay',
      'rejected',
      'status',
      'prompt x',
    ]
    const asked = commands.map((command) =>
      startGraphmill([...command.split(' '), '--broker', broker, '--flow', 'defualt']),
    )
    for (const each of asked) {
      expect((await each.ended).code).toBe(1)
      expect(each.stdout()).toBe('')
      expect(each.stderr()).toMatch(
        /no topic of the flow default\/defualt .* Did you mean default\/default\? \[flow_unknown\]\n.*--flow/,
      )
    }
  }, 60_000)

  test('topics describe lists the space, or the named flow', async () => {
    await graphmill('topics', 'create', '--broker', broker)
    const of = async (...args: string[]) =>
      (await graphmill('topics', 'describe', '--json', '--broker', broker, ...args)).trim().split('\n')
    expect(await of()).toContainEqual(expect.stringContaining('gm.notify.schemas'))
    const named = await of('--flow', 'default')
    expect(named).toContainEqual(expect.stringContaining('gm.flow.document.default.default'))
    expect(named).not.toContainEqual(expect.stringContaining('gm.notify.schemas'))
  }, 60_000)

  test.each(['', 'with a schema registry'])(
    'rejected items are counted by prompt, model and reason, each message once %s',
    async (how) => {
      const registry = how ? await startRegistry() : undefined
      const address = `http://${registry?.address}`
      const space = how ? 'registered' : 'gm'
      const places = ['--broker', broker, '--space', space, ...(how ? ['--schema-registry', address] : [])]
      const client = await connect(broker)
      const codec = createCodec(loadSchemas())
      if (how)
        await createSchemasTopic(client, codec, space, createSchemaRegistry(address)).announce(
          new AbortController().signal,
        )
      const { topic } = outputRoute('rejected', { space, workspace: 'default', flow: 'default' })
      const header = { source: 'test', time: 1, workspace: 'default', flow: 'default', collection: '' }
      const ids = { documentId: 'd', chunkId: 'c', correlationId: '', causationId: '' }
      const rest = { replyTo: null, deadline: null, traceparent: null }
      const items = [{ reason: 'schema' }, { reason: 'schema' }, { reason: 'invalid_json' }]
      const payload = { promptId: 'extract-topics', model: 'm1', items }
      const message = codec.encode(
        { ...header, ...ids, ...rest },
        { type: 'Rejected', payload },
        { topic, salt: '', id: () => 'rejected-1' },
      )
      await client.ensureTopics([topicSpec(topic)])
      for (const copy of [message, message]) await client.publish(copy)
      await client.close()
      const rows = (await graphmill('rejected', '--json', ...places)).trim().split('\n')
      await registry?.close()
      expect(rows.map((row) => JSON.parse(row) as unknown)).toEqual([
        { prompt: 'extract-topics', model: 'm1', reason: 'schema', items: 2 },
        { prompt: 'extract-topics', model: 'm1', reason: 'invalid_json', items: 1 },
      ])
    },
    60_000,
  )
})
