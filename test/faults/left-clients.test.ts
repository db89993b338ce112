// Requests of clients that have left, on the memory broker.
import { expect, test } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { leftClients } from './left-clients.ts'

test.each([
  { clients: 300, each: 1 },
  { clients: 30, each: 100 },
])(
  '$clients clients that have left, with $each requests each, cost no call and block no other',
  async (load) => {
    const cluster = createMemoryCluster()
    await leftClients({ brokerUrl: 'memory://', connect: async () => cluster.connect() }, load)
    expect.hasAssertions()
  },
  120_000,
)
