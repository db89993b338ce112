// The sink of triples: what is withdrawn leaves the store, in whatever order statements and retractions arrive.
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { storeTriples } from '../../processors/store-triples.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { emissionKey, joinKeys } from '../../src/messages/emission.ts'
import type { TripleStore } from '../../src/rdf/store.ts'
import {
  type Emission,
  isWithdrawn,
  type Statement,
  type TripleSupport,
  type Withdrawal,
} from '../../src/rdf/support.ts'
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
  kept: fc.array(emissions, { maxLength: 3 }),
})

interface Given {
  readonly documentId: string
  readonly versionTime: number
  readonly kept: readonly Emission[]
}

const withdrawalOf = ({ documentId, versionTime, kept }: Given, reason: string): Withdrawal => ({
  documentId,
  from: reason === 'superseded' ? 1 : 0,
  upTo: versionTime,
  kept: new Set(kept.map(emissionKey)),
})

/** In their order, without keeping what an earlier one has withdrawn: no emission comes back. */
function possible(given: readonly Given[], reason: string): Given[] {
  const ordered = given.toSorted((one, other) => one.versionTime - other.versionTime)
  const done: Given[] = []
  for (const each of ordered) {
    const { documentId } = each
    const stays = (emission: Emission) =>
      !done.some((earlier) => isWithdrawn({ ...emission, documentId }, withdrawalOf(earlier, reason)))
    done.push({ ...each, kept: each.kept.map((kept) => ({ ...kept, documentId })).filter(stays) })
  }
  return done
}

test('ends with what is stated and not withdrawn, in any order, on two replicas, and with messages given twice', async () => {
  const { store, held } = heldStore()
  const cluster = createMemoryCluster()
  const flow = await startFlow([storeTriples], { cluster, store })
  const replica = await startFlow([storeTriples], { cluster, store })
  let runs = 0
  const property = fc.asyncProperty(
    fc.array(emissions, { minLength: 1, maxLength: 12 }),
    fc.uniqueArray(retractions, {
      maxLength: 3,
      selector: ({ documentId, versionTime }) => `${documentId} ${versionTime}`,
    }),
    fc.array(fc.nat(100), { minLength: 20, maxLength: 20 }),
    // One for all: statements without a time are withdrawn by a removal that came before a new version, or are late, as it comes.
    fc.constantFrom('superseded', 'removed'),
    async (givenStated, givenWithdrawn, ranks, reason) => {
      const run = ++runs
      const own = <E extends { readonly documentId: string }>(each: E): E => ({
        ...each,
        documentId: `${run}-${each.documentId}`,
      })
      const stated = givenStated.map(own)
      const withdrawn = possible(givenWithdrawn.map(own), reason)
      // Written by a process that died before it settled them: they are given again.
      await store.support!.state(stated.slice(0, 2).map(statementOf), { workspace: '', flow: '' })
      const states = [...stated, ...stated.slice(0, 3)].map(
        (emission) => () => flow.send('triples', { triples: statementOf(emission).triples }, emission),
      )
      // The topic is compacted: the ledger writes the retractions of a document in their order.
      const retracts = withdrawn.map(({ kept, ...header }) => async () => {
        const keys = joinKeys(new Set(kept.map(emissionKey)))
        await flow.send('retractions', { reason, kept: keys }, { ...header, chunkId: '' })
      })
      for (const rank of ranks) {
        const next = rank < 20 ? retracts.shift() : states.shift()
        // What is sent without waiting is handled together.
        const sent = next?.()
        if (rank % 2 === 0) await sent
      }
      for (const send of [...states, ...retracts]) await send()
      await settled(flow)

      const newest = documents.flatMap((name) => {
        const all = withdrawn.filter(({ documentId }) => documentId === `${run}-${name}`)
        return all.toSorted((one, other) => other.versionTime - one.versionTime).slice(0, 1)
      })
      const expected = stated.filter((emission) =>
        newest.every((last) => !isWithdrawn(emission, withdrawalOf(last, reason))),
      )
      const names = expected.map((each) => nameOf(statementOf(each)))
      expect(held().filter((name) => name.startsWith(`["${run}-`))).toEqual([...new Set(names)].sort())
    },
  )
  await fc.assert(property, { numRuns: 60 })
  await flow.stop()
  await replica.stop()
}, 60_000)

test('a retraction for a store that cannot withdraw is a dead letter, and nothing is said to be done', async () => {
  const flow = await startFlow([storeTriples])
  await flow.send('retractions', { reason: 'removed' }, { documentId: 'd', chunkId: '', versionTime: 1 })
  const [letter] = await flow.letters('retractions', 1)
  expect(letter!.headers).toMatchObject({ 'dead-code': 'store_cannot_withdraw' })
  await flow.stop()
})

test('triples that another replica has withdrawn while they were written are withdrawn again', async () => {
  const { store, held } = heldStore()
  const retraction = {
    ...{ documentId: 'd', version: 'v', versionTime: 2 },
    payload: { reason: 'superseded', kept: new Uint8Array() },
  }
  let isPublished = false
  const context = {
    scope: {},
    signal: never,
    store: {
      ...store,
      support: {
        ...store.support!,
        async state(...given: Parameters<TripleSupport['state']>) {
          isPublished = true
          await store.support!.state(...given)
        },
      },
    },
    async *read() {
      if (isPublished) yield { message: retraction, partition: 0, position: '0' }
    },
  }
  const emission = { documentId: 'd', chunkId: 'c', versionTime: 1 }
  const kept = { documentId: 'e', chunkId: 'c', versionTime: 1 }
  const handled = [emission, kept].map((each) => {
    const { triples } = statementOf(each)
    const message = { ...each, type: 'Triples', payload: { triples } }
    return storeTriples.handle(message as never, context as never).next()
  })
  await Promise.all(handled)
  expect(held()).toEqual([nameOf(statementOf(kept))])
})
