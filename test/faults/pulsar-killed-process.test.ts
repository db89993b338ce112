// On real Pulsar: a message that kills its process comes to its end, and processes that are killed take no message with them.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { type PulsarServer, startPulsar } from '../support/pulsar-server.ts'
import type { Site } from './execution.ts'
import { killing, rollingKills } from './killed-process.ts'
import { pulsarSite, pulsarWays } from './pulsar-site.ts'

const present = (await brokerSource('killed processes, on Pulsar', ['jars'])) !== undefined

describe.skipIf(!present).each(pulsarWays('killed processes, on Pulsar'))(
  'killed processes, on Pulsar (%s)',
  { timeout: 400_000 },
  (way) => {
    let server: PulsarServer
    let site: Site

    beforeAll(async () => {
      server = await startPulsar()
      site = pulsarSite(server, way)
    })
    afterAll(() => server?.stop())

    test('a message that kills is dead after it did so alone, and no other is', async () => {
      expect(await killing(site, { poison: 'abort' })).toContain('waits alone')
    })

    test('replicas killed at random, many times: no message is taken for the reason', async () => {
      await rollingKills(site, { kills: 20, seed: 18 })
      expect.hasAssertions()
    })
  },
)
