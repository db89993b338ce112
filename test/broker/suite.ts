// The contract of src/broker/broker.ts as tests, for any implementation: it assumes no speed, no order across partitions
// and no exactly-once, uses fresh topics and groups in every test, and waits for states with a bound.
import { afterAll, afterEach, beforeAll, describe } from 'vitest'
import { endings } from './suite/endings.ts'
import { groups } from './suite/groups.ts'
import { type BrokerUnderTest, createHarness } from './suite/harness.ts'
import { inFlight } from './suite/in-flight.ts'
import { positions } from './suite/positions.ts'
import { publishing } from './suite/publishing.ts'
import { reading } from './suite/reading.ts'
import { topics } from './suite/topics.ts'

export type { BrokerUnderTest, Capability } from './suite/harness.ts'

/**
 * Runs the whole contract over one cluster, which `open` starts and `stop` ends. Every `connect()` is one more client.
 * @example brokerSuite('memory', async () => ({ connect: async () => cluster.connect(), stop: async () => {} }))
 */
export function brokerSuite(name: string, open: () => Promise<BrokerUnderTest>): void {
  describe(`the ${name} broker`, { timeout: 90_000 }, () => {
    const harness = createHarness()
    beforeAll(async () => harness.start(await open()), 180_000)
    afterEach(() => harness.closeClients(), 60_000)
    afterAll(() => harness.stop(), 60_000)

    describe('publishing', () => publishing(harness))
    describe('groups', () => groups(harness))
    describe('first positions', () => positions(harness))
    describe('messages in flight', () => inFlight(harness))
    describe('endings', () => endings(harness))
    describe('reading without a group', () => reading(harness))
    describe('topics and lag', () => topics(harness))
  })
}
