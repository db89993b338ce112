// Limits that replicas share, on real Pulsar.
import { afterAll, beforeAll, describe, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { type PulsarServer, startPulsar } from '../support/pulsar-server.ts'
import { pulsarSite } from './pulsar-site.ts'
import { sharedBudget } from './shared-limits.ts'

const present = (await brokerSource('limits that replicas share, on Pulsar', ['jars'])) !== undefined

describe.skipIf(!present)('limits that replicas share, on Pulsar', { timeout: 240_000 }, () => {
  let server: PulsarServer
  beforeAll(async () => {
    server = await startPulsar()
  })
  afterAll(() => server?.stop())

  test('a budget is passed by calls in flight only, and goes on when it is raised', () =>
    sharedBudget(pulsarSite(server, 'WebSocket').brokerUrl))
})
