// The commands on a flow with `wire: trustgraph`, over a real Kafka: documents go through TrustGraph's topics.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Broker } from '../../src/broker/broker.ts'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../support/processes.ts'
import { publishJson, readJson } from '../support/trustgraph.ts'

const present = (await brokerSource('commands on TrustGraph’s topics', ['jars'])) !== undefined
const yaml = `flows:
  - workspace: acme
    flow: papers
    wire: trustgraph
    trustgraph: { workspace: Acme.Corp, flow: Papers.v1, group: beside }
    extractors: [definitions]
`

describe.skipIf(!present)('a flow on TrustGraph’s topics', { timeout: 120_000 }, () => {
  let kafka: KafkaServer
  let theirs: Broker
  let folder: string
  let runtime: GraphmillProcess | undefined
  let options: readonly string[]
  const rows = async (...words: string[]) =>
    (await graphmill(...words, '--json', ...options))
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Record<string, unknown>)

  beforeAll(async () => {
    kafka = await startKafka()
    theirs = await connectKafka({ brokers: kafka.bootstrap })
    folder = mkdtempSync(join(tmpdir(), 'graphmill-trustgraph-'))
    writeFileSync(join(folder, 'flows.yaml'), yaml)
    writeFileSync(join(folder, 'cat.md'), 'A cat is a small feline animal. A dog is a canine animal.\n')
    const flow = ['--flows', join(folder, 'flows.yaml'), '--workspace', 'acme', '--flow', 'papers']
    options = [...flow, '--broker', `kafka://${kafka.bootstrap.join()}`]
  }, 120_000)
  afterAll(async () => {
    await runtime?.end('SIGKILL')
    await theirs?.close()
    await kafka?.stop()
    if (folder) rmSync(folder, { recursive: true, force: true })
  }, 60_000)

  test('its topics are created, and documents pass through them', async () => {
    const created = await rows('topics', 'create')
    expect(created.find(({ topic }) => topic === 'gm.flow.chunk.acme.papers')).toMatchObject({
      partitions: 12,
    })
    const names = (await theirs.listTopics('tg.')).map(({ name }) => name)
    expect(names).toContain('tg.flow.chunk-load.Acme.Corp.Papers.v1')
    expect(names).toContain('tg.response.prompt.Acme.Corp.Papers.v1')

    const run = ['run', '--all', '--llm', 'offline', '--http', 'off', '--out', join(folder, 'out.nt')]
    runtime = startGraphmill([...run, ...options])
    await runtime.says('"running"')
    const loaded = JSON.parse(await graphmill('load', join(folder, 'cat.md'), ...options)) as {
      documentId: string
    }
    const [document] = await readJson(theirs, 'tg.flow.text-document-load.Acme.Corp.Papers.v1')
    expect(document!.body).toMatchObject({
      metadata: { root: loaded.documentId },
      graphmill: { title: 'cat.md' },
    })
    await expect
      .poll(async () => (await rows('status'))[0], { timeout: 60_000, interval: 500 })
      .toMatchObject({ documentId: loaded.documentId, state: 'done' })
    const [triples] = await readJson(theirs, 'tg.flow.triples-store.Acme.Corp.Papers.v1')
    expect(triples!.body['metadata']).toMatchObject({ root: loaded.documentId })
  })

  test('its dead letters, lag and topics are listed', async () => {
    await publishJson(theirs, 'tg.flow.chunk-load.Acme.Corp.Papers.v1', 'no JSON')
    await expect
      .poll(() => rows('dead', 'list'), { timeout: 30_000, interval: 500 })
      .toMatchObject([{ topic: 'gm.flow.chunk.acme.papers.dead', letters: 1 }])
    expect(await graphmill('dead', 'show', 'chunk', ...options)).toContain('bytes_undecodable')
    const lags = await rows('topics', 'lag')
    expect(lags.find(({ group }) => group === 'gm.prompt.prompt.acme.papers')).toMatchObject({
      lag: 0,
      members: 1,
    })
    const topics = (await rows('topics', 'describe')).map(({ topic }) => topic)
    expect(topics).toContain('gm.flow.chunk.acme.papers.dead')
    expect(await rows('rejected')).toEqual([])
    const described = await rows('trustgraph', 'describe')
    expect(described.find(({ processor }) => processor === 'prompt')).toMatchObject({
      topic: 'tg.request.prompt.Acme.Corp.Papers.v1',
      ...{ group: 'gm.prompt.prompt.acme.papers', counterpart: 'prompt' },
    })
  })
})
