// On real Pulsar: the model stays away, processes are killed in mid-work, and the model answers differently after that.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { type PulsarServer, startPulsar } from '../support/pulsar-server.ts'
import { type Outcome, type Site, undisturbed } from './execution.ts'
import { ledgerReplicas } from './ledger-replicas.ts'
import { leftClients } from './left-clients.ts'
import { pulsarSite, pulsarWays } from './pulsar-site.ts'
import { calm, crashAndRestart, modelAway } from './scenarios.ts'
import { secondAnswer } from './second-answer.ts'

const present = (await brokerSource('faults, on Pulsar', ['jars'])) !== undefined

describe.skipIf(!present).each(pulsarWays('faults, on Pulsar'))(
  'faults, on Pulsar (%s)',
  { timeout: 120_000 },
  (way) => {
    let server: PulsarServer
    let site: Site
    let expected: Outcome

    beforeAll(async () => {
      server = await startPulsar()
      site = pulsarSite(server, way)
      await using llm = await startLlmServer()
      expected = await undisturbed(llm.url)
    })
    afterAll(() => server?.stop())

    test('an execution that nothing disturbs gives the triples that the memory broker gave', async () => {
      await calm(site, expected)
      expect.hasAssertions()
    })

    test('the model is unavailable for 15 s during work: nothing is lost', async () => {
      await modelAway(site, expected)
      expect.hasAssertions()
    })

    test.each(['extract-definitions', 'prompt', 'emit-triples', 'store-triples'])(
      'kill -9 of %s in mid-work loses nothing',
      async (victim) => {
        await crashAndRestart(site, { victim, expected })
        expect.hasAssertions()
      },
    )

    test('the ledger says the same in the end while its replicas join, leave and are killed', async () => {
      await ledgerReplicas(site)
      expect.hasAssertions()
    })

    test.each([
      { clients: 300, each: 1 },
      { clients: 30, each: 100 },
    ])(
      '$clients clients that have left, with $each requests each, cost no call and block no other',
      async (load) => {
        await leftClients(site, load)
        expect.hasAssertions()
      },
    )

    test('a model that answers differently after a crash: nothing of either answer is lost, one is counted', async () => {
      await secondAnswer(site)
      expect.hasAssertions()
    })
  },
)
