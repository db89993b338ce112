// Documents that are edited, removed and erased on real Pulsar, while processes die and the broker restarts.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { type PulsarServer, startPulsar } from '../support/pulsar-server.ts'
import { eraseEverywhere } from './erasing.ts'
import type { Site } from './execution.ts'
import { pulsarSite } from './pulsar-site.ts'
import { updatesWithFaults } from './updates.ts'
import { removalWithoutValue } from './without-value.ts'

const present = (await brokerSource('documents that change, on Pulsar', ['jars'])) !== undefined

describe.skipIf(!present)('documents that change, on Pulsar', { timeout: 400_000 }, () => {
  let server: PulsarServer
  let site: Site
  let folder: string

  beforeAll(async () => {
    server = await startPulsar()
    folder = await mkdtemp(join(tmpdir(), 'graphmill-updates-'))
    site = pulsarSite(server, 'WebSocket')
  })
  afterAll(async () => {
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test('an erased document is nowhere afterwards, and the letters of others still wait', async () => {
    await eraseEverywhere(site, folder)
    expect.hasAssertions()
  })

  test('an empty message removes the document with its key', async () => {
    const broker = await site.connect()
    await removalWithoutValue(site, (topic, key) =>
      broker.publish({ topic, key, value: Buffer.of(), headers: {} }),
    )
    await broker.close()
    expect.hasAssertions()
  })

  test('every processor is killed, and the broker restarts: the store holds what the surviving versions state', async () => {
    await updatesWithFaults(site, async () => {
      await server.kill()
      await server.restart()
    })
    expect.hasAssertions()
  })
})
