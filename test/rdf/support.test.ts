// Stores that keep who states each triple: after any history they hold what a fresh store holds that was given only what is still stated.
import * as fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { emissionKey } from '../../src/messages/emission.ts'
import { definitionTriples, relationshipTriples } from '../../src/rdf/facts.ts'
import {
  chunkProvenance,
  documentProvenance,
  groundingProvenance,
  subgraphProvenance,
} from '../../src/rdf/provenance.ts'
import { openSparqlStore } from '../../src/rdf/sparql-store.ts'
import type { TripleStore } from '../../src/rdf/store.ts'
import { type Emission, isWithdrawn, type Statement, type Withdrawal } from '../../src/rdf/support.ts'
import { iri, literal, type Triple, triple } from '../../src/rdf/term.ts'
import { brokerSource } from '../support/brokers.ts'
import { startFuseki } from '../support/fuseki-server.ts'
import { installOxigraph, startOxigraph } from '../support/oxigraph-server.ts'
import { keys, readKeys } from './quads.ts'

interface Site {
  readonly update: string
  dump(): Promise<string>
  clear(): Promise<void>
  stop(): Promise<unknown>
}

const sites: Readonly<Record<string, { missing: string | undefined; start: () => Promise<Site> }>> = {
  Fuseki: {
    missing: (await brokerSource('Fuseki', ['jars'])) === undefined ? 'Fuseki cannot be started' : undefined,
    async start() {
      const server = await startFuseki()
      return { ...server, update: `${server.dataset}/update` }
    },
  },
  Oxigraph: { missing: installOxigraph(), start: startOxigraph },
}

const scope = { workspace: 'default', flow: 'default' }

/** Few facts, so that emissions share triples in every graph. */
const names = ['Ada', 'Babbage', 'Café 1', 'The "Engine"\n']
const facts = names.flatMap((subject) => [
  definitionTriples({ entity: subject, definition: `${subject} of London \\u0022 } ; CLEAR ALL #` }),
  ...names.map((object) =>
    relationshipTriples({ subject, predicate: 'knew', object, objectEntity: object < 'B' }),
  ),
])

/** What an extractor finds in a chunk: its facts, with provenance. */
function found({ documentId, chunkId, versionTime }: Emission, chosen: readonly number[]): Triple[] {
  const some = chosen.map((each) => facts[each % facts.length]!)
  const source = { documentId, chunkId: `${documentId}/${chunkId}`, versionTime, unit: 'u' }
  const stated = some.flatMap((fact) => fact.stated)
  const grounding = {
    status: 'exact',
    spans: [{ offset: 3, length: 4, start: 3, end: 7, text: 'text', page: null }],
    chunk: { offset: 1, start: 1, page: null },
  } as never
  return [
    ...some.flatMap(({ triples }) => triples),
    ...subgraphProvenance(
      { ...source, run: { id: `${versionTime}`, startedAt: versionTime }, version: '1' },
      stated,
    ),
    ...groundingProvenance(
      source,
      some.map((each) => ({ stated: each.stated, grounding })),
    ),
  ]
}

const emission = fc.record({
  documentId: fc.constantFrom('d', 'e'),
  chunkId: fc.constantFrom('', 'c1', 'c2', 'c3'),
  versionTime: fc.integer({ min: 0, max: 3 }),
})
/** Nodes of several emissions. Each stays whole as long as one of them states a part of it, so a part has it whole or leaves it out. */
const shared = /^https:\/\/trustgraph\.ai\/(agent|activity|span)\//

function cut(triples: readonly Triple[], from: number, length: number): readonly Triple[] {
  const part = triples.slice(from, from + length)
  const isWhole = ({ s: { iri } }: Triple) =>
    triples.filter(({ s }) => s.iri === iri).every((each) => part.includes(each))
  return part.filter((each) => !shared.test(each.s.iri ?? '') || isWhole(each))
}

/** The document's own statement of where a chunk stands, or a part of what was found: the batches of emit-triples cut it anywhere. */
const statement = fc
  .tuple(emission, fc.array(fc.nat(facts.length - 1), { maxLength: 3 }), fc.nat(80), fc.nat(80))
  .map(([each, chosen, from, length]): Statement => {
    const triples = each.chunkId === '' ? placed(each, chosen.length) : found(each, chosen)
    return { emission: each, triples: length < 40 ? triples : cut(triples, from, length) }
  })

function placed({ documentId, versionTime }: Emission, at: number): Triple[] {
  const cut = { component: 'chunk-text', version: '1', startedAt: versionTime, size: 9, overlap: 0 }
  const place = { part: 0, index: at, offset: at, start: at, length: 9, page: null }
  return [
    ...documentProvenance({ documentId, title: 't', uri: '', mediaType: '' }),
    ...chunkProvenance({ documentId, chunkId: `${documentId}/c${at}`, versionTime, ...place, ...cut }),
  ]
}

const withdrawal = fc
  .record({
    documentId: fc.constantFrom('d', 'e'),
    from: fc.constantFrom(0, 1),
    upTo: fc.integer({ min: 0, max: 3 }),
    stays: fc.array(emission, { maxLength: 3 }),
  })
  .map(({ stays, ...each }): Withdrawal => ({ ...each, kept: new Set(stays.map(emissionKey)) }))
type Step = readonly Statement[] | Withdrawal
const isStatements = (step: Step): step is readonly Statement[] => Array.isArray(step)
const histories = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.array(statement, { minLength: 1, maxLength: 3 }) as fc.Arbitrary<Step> },
    { weight: 1, arbitrary: withdrawal as fc.Arbitrary<Step> },
  ),
  { minLength: 1, maxLength: 12 },
)

/** What is still stated at the end of a history. */
function remaining(history: readonly Step[]): Statement[] {
  let left: Statement[] = []
  for (const step of history)
    left = isStatements(step)
      ? [...left, ...step]
      : left.filter(({ emission: each }) => !isWithdrawn(each, step))
  return left
}

async function replay(history: readonly Step[], store: TripleStore): Promise<void> {
  for (const step of history)
    if (isStatements(step)) await store.support!.state(step, scope)
    else await store.support!.withdraw(step, scope)
}

describe.each(Object.entries(sites))('on %s', (_, { missing, start }) => {
  let site: Site
  const open = () => openSparqlStore({ url: site.update })
  /** All quads but the names of shelves, which stay. */
  const kept = async () =>
    readKeys(await site.dump(), 'N-Quads').filter((key) => !key.includes('"urn:graphmill:support:graph"'))

  describe.skipIf(missing !== undefined)('', () => {
    beforeAll(async () => {
      site = await start()
    }, 180_000)
    afterAll(() => site?.stop())
    beforeEach(() => site.clear())

    test('any history leaves what a fresh store holds of what is still stated', async () => {
      const property = fc.asyncProperty(histories, async (history) => {
        await site.clear()
        await replay(history, open())
        const after = await kept()
        await site.clear()
        await replay([remaining(history)], open())
        expect(after).toEqual(await kept())
      })
      await fc.assert(property, { numRuns: 20 })
    }, 60_000)

    test('a triple stays while another document, flow or chunk states it', async () => {
      const store = open()
      const same = [triple(iri('urn:s'), iri('urn:p'), literal('x'))]
      const [first, second] = ['d', 'e'].map((documentId) => ({ documentId, chunkId: 'c', versionTime: 1 }))
      await store.support!.state([{ emission: first!, triples: same }], scope)
      await store.support!.state([{ emission: second!, triples: same }], scope)
      await store.support!.state([{ emission: first!, triples: same }], { ...scope, flow: 'other' })
      const facts = async () => (await kept()).filter((key) => key.endsWith(',""]'))
      await store.support!.withdraw({ documentId: 'd', from: 0, upTo: 1, kept: new Set() }, scope)
      expect(await facts()).toEqual(keys(same))
      await store.support!.withdraw({ documentId: 'e', from: 0, upTo: 1, kept: new Set() }, scope)
      expect(await facts()).toEqual(keys(same))
      await store.support!.withdraw(
        { documentId: 'd', from: 0, upTo: 1, kept: new Set() },
        { ...scope, flow: 'other' },
      )
      expect(await kept()).toEqual([])
    })

    test('what nobody supports stays: triples of other programs, and of documents of before', async () => {
      const store = open()
      const foreign = [
        triple(iri('urn:s'), iri('urn:p'), literal('x')),
        triple(iri('urn:s'), iri('urn:p'), literal('y'), 'urn:g'),
      ]
      await store.write(foreign, scope)
      await store.support!.withdraw({ documentId: 'd', from: 0, upTo: 9, kept: new Set() }, scope)
      expect(await kept()).toEqual(keys(foreign))
    })
  })
})

test('a store without queries holds no support', () => {
  const store = openSparqlStore({ url: 'http://127.0.0.1:1/data', protocol: 'graph-store' })
  expect(store.support).toBeUndefined()
})
