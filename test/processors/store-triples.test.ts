// The sink of triples: what is withdrawn leaves the store, in whatever order statements and retractions arrive.
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { storeTriples } from '../../processors/store-triples.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { emissionKey, joinKeys } from '../../src/messages/emission.ts'
import type { TripleStore } from '../../src/rdf/store.ts'
import { type Emission, isWithdrawn, type Statement, type Withdrawal } from '../../src/rdf/support.ts'
import { iri, triple } from '../../src/rdf/term.ts'
import { pause } from '../../src/wait.ts'
import { startFlow, type TestFlow } from '../support/flow.ts'

/** A store that holds statements, as they are; `stop` makes its writer fail as often as it says. */
function heldStore() {
  const held = new Map<string, Statement>()
  const support = {
    async state(statements: readonly Statement[]) {
      for (const { emission: each, triples } of statements) {
        const statement = { emission: each, triples }
        held.set(nameOf(statement), statement)
      }
      await new Promise(setImmediate)
    },
    async withdraw(withdrawal: Withdrawal) {
      await new Promise(setImmediate)
      for (const [name, { emission }] of held) if (isWithdrawn(emission, withdrawal)) held.delete(name)
    },
  }
  const store: TripleStore = {
    write: () => Promise.reject(new Error('the sink must say who states a triple')),
    close: async () => {},
    support,
  }
  return { store, held: () => [...held.keys()].sort() }
}

const never = new AbortController().signal

const nameOf = ({ emission, triples }: Statement) => {
  const { documentId, chunkId, versionTime } = emission
  return JSON.stringify([documentId, chunkId, versionTime, ...triples.map(({ s }) => s.iri)])
}

function statementOf(emission: Emission): Statement {
  const { documentId, chunkId, versionTime } = emission
  const subject = iri(`urn:s:${documentId}-${chunkId}-${versionTime}`)
  return { emission, triples: [triple(subject, iri('urn:p'), iri('urn:o'))] }
}

/** Resolves when the group has settled everything. */
async function settled({ broker, topic }: TestFlow): Promise<void> {
  for (const port of ['triples', 'retractions'] as const)
    while ((await broker.lag(`gm.store-triples.${port}.default.default`, topic(port))).total > 0)
      await pause(2, never)
}

const documents = ['d', 'e']
const emissions: fc.Arbitrary<Emission> = fc.record({
  documentId: fc.constantFrom(...documents),
  chunkId: fc.constantFrom('', 'c1', 'c2'),
  versionTime: fc.integer({ min: 0, max: 3 }),
})
const retractions = fc.record({
  documentId: fc.constantFrom(...documents),
  versionTime: fc.integer({ min: 1, max: 3 }),
  reason: fc.constantFrom('superseded', 'removed'),
  kept: fc.array(emissions, { maxLength: 3 }),
})

test('ends with what is stated and not withdrawn, in any order, on two replicas, and with messages given twice', async () => {
  const property = fc.asyncProperty(
    fc.array(emissions, { minLength: 1, maxLength: 12 }),
    fc.uniqueArray(retractions, {
      maxLength: 3,
      selector: ({ documentId, versionTime }) => `${documentId} ${versionTime}`,
    }),
    fc.infiniteStream(fc.nat(100)),
    async (stated, withdrawn, order) => {
      const { store, held } = heldStore()
      const cluster = createMemoryCluster()
      const flows = [
        await startFlow([storeTriples], { cluster, store }),
        await startFlow([storeTriples], { cluster, store }),
      ]
      const [flow] = flows
      // Written by a process that died before it settled them: they are given again.
      await store.support!.state(stated.slice(0, 2).map(statementOf), { workspace: '', flow: '' })
      const sends = [
        ...[...stated, ...stated.slice(0, 3)].map(
          (emission) => () => flow!.send('triples', { triples: statementOf(emission).triples }, emission),
        ),
        ...withdrawn.map(({ kept, reason, ...header }) => () => {
          const keys = joinKeys(new Set(kept.map(emissionKey)))
          return flow!.send('retractions', { reason, kept: keys }, { ...header, chunkId: '' })
        }),
      ]
      const shuffled = sends
        .map((send) => ({ send, rank: order.next().value as number }))
        .sort((one, other) => one.rank - other.rank)
      await Promise.all(shuffled.map(({ send }) => send()))
      await settled(flow!)
      for (const each of flows) await each.stop()

      const newest = documents.flatMap((documentId) => {
        const own = withdrawn.filter((each) => each.documentId === documentId)
        const last = own.toSorted((one, other) => other.versionTime - one.versionTime)[0]
        return last ? [last] : []
      })
      const expected = stated.filter((emission) =>
        newest.every(
          ({ documentId, versionTime, reason, kept }) =>
            !isWithdrawn(emission, {
              documentId,
              from: reason === 'superseded' ? 1 : 0,
              upTo: versionTime,
              kept: new Set(kept.map(emissionKey)),
            }),
        ),
      )
      const names = expected.map((each) => nameOf(statementOf(each)))
      expect(held()).toEqual([...new Set(names)].sort())
    },
  )
  await fc.assert(property, { numRuns: 25 })
}, 60_000)

test('a retraction for a store that cannot withdraw is a dead letter, and nothing is said to be done', async () => {
  const flow = await startFlow([storeTriples])
  await flow.send('retractions', { reason: 'removed' }, { documentId: 'd', chunkId: '', versionTime: 1 })
  const [letter] = await flow.letters('retractions', 1)
  expect(letter!.headers).toMatchObject({ 'dead-code': 'store_cannot_withdraw' })
  await flow.stop()
})
