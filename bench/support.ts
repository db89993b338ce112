// What support costs: writing with and without it, removing a document of 1,000 chunks from an Oxigraph (in Python, in memory) and from a
// folder of files, and what a process knows of 10,000 documents that were replaced.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { emissionKey, joinKeys } from '../src/messages/emission.ts'
import { createRetractionCache } from '../src/progress/retraction-cache.ts'
import { definitionTriples, relationshipTriples } from '../src/rdf/facts.ts'
import { openFolderStore } from '../src/rdf/folder-store.ts'
import { groundingProvenance, subgraphProvenance } from '../src/rdf/provenance.ts'
import { openSparqlStore } from '../src/rdf/sparql-store.ts'
import type { TripleStore } from '../src/rdf/store.ts'
import type { Statement } from '../src/rdf/support.ts'
import { installOxigraph, type OxigraphServer, startOxigraph } from '../test/support/oxigraph-server.ts'
import { cpuOf } from './process-usage.ts'
import { median, type Row } from './row.ts'

const scope = { workspace: 'bench', flow: 'bench' }
const documentId = 'urn:d:1'
const versionTime = Date.UTC(2026, 0, 1)
const chunks = 1000
const atOnce = 96
const everything = { documentId, from: 0, upTo: versionTime, kept: new Set<string>() }

/** Ten facts of a chunk with their provenance, as one message. */
function statementOf(index: number): Statement {
  const chunkId = `${documentId}/${index}`
  const name = (at: number) => `entity ${(index * 7 + at * 13) % 3000}`
  const facts = Array.from({ length: 10 }, (_, at) =>
    at % 2 === 0
      ? definitionTriples({ entity: name(at), definition: `What ${index} and ${at} are, in a sentence.` })
      : relationshipTriples({
          subject: name(at),
          predicate: 'knows',
          object: name(at + 1),
          objectEntity: true,
        }),
  )
  const source = { documentId, chunkId, versionTime, unit: 'bench' }
  const run = { id: `run ${index}`, startedAt: versionTime }
  const stated = facts.flatMap((fact) => fact.stated)
  const grounded = facts.map((fact, at) => {
    const span = { field: 'entity', match: 'exact', offset: at * 100, length: 9, page: null, text: name(at) }
    const spans = [{ ...span, start: at * 100, end: at * 100 + 9 }]
    return {
      stated: fact.stated,
      grounding: { status: 'exact', spans, chunk: { offset: 0, start: 0, page: null } },
    }
  })
  const triples = [
    ...facts.flatMap((fact) => fact.triples),
    ...subgraphProvenance({ ...source, run, version: '1' }, stated),
    ...groundingProvenance(source, grounded),
  ]
  return { emission: { documentId, chunkId, versionTime }, triples }
}

async function seconds(work: () => Promise<void>): Promise<number> {
  const begun = performance.now()
  await work()
  return (performance.now() - begun) / 1000
}

const statements = Array.from({ length: chunks }, (_, index) => statementOf(index))

async function write(
  store: TripleStore,
  put: (batch: readonly Statement[]) => Promise<void>,
): Promise<number> {
  return await seconds(async () => {
    for (let at = 0; at < chunks; at += atOnce) await put(statements.slice(at, at + atOnce))
    await store.close()
  })
}

/** What support adds to writing, in pairs of which each is first in turn. The first pair warms up. */
async function pairRows(
  name: string,
  open: () => TripleStore,
  { clear, pid }: OxigraphServer,
): Promise<Row[]> {
  const pairs = 6
  const store = open()
  const ways = [
    (batch: readonly Statement[]) =>
      store.write(
        batch.flatMap(({ triples }) => triples),
        scope,
      ),
    (batch: readonly Statement[]) => store.support!.state(batch, scope),
  ]
  const measure = async (way: (typeof ways)[number]) => {
    await clear()
    const [own, others] = [process.cpuUsage(), cpuOf(pid)]
    const elapsed = await write(store, way)
    const { user, system } = process.cpuUsage(own)
    return { elapsed, 'CPU of this process': (user + system) / 1e6, 'CPU of the store': cpuOf(pid) - others }
  }
  const seen: Awaited<ReturnType<typeof measure>>[][] = []
  for (let pair = 0; pair < pairs; pair++) {
    const order = pair % 2 === 0 ? ways : ways.toReversed()
    const both = [await measure(order[0]!), await measure(order[1]!)]
    seen.push(pair % 2 === 0 ? both : both.reverse())
  }
  return (['elapsed', 'CPU of this process', 'CPU of the store'] as const).map((what) => ({
    name: `${name}: written with support to without, ${what}`,
    value: median(seen.slice(1).map(([without, kept]) => kept![what] / without![what])),
    unit: '',
    bound: '<= 1.25',
    note: `median of ${pairs - 1} pairs, ${chunks} chunks of 10 facts, with provenance`,
  }))
}

async function storeRows(name: string, open: () => TripleStore): Promise<Row[]> {
  const store = open()
  const note = `${chunks} chunks of 10 facts, with provenance`
  const rows: Row[] = []
  const kept = await write(store, (batch) => store.support!.state(batch, scope))
  rows.push({ name: `${name}: written with support`, value: kept, unit: 's', note })
  const removed = await seconds(() => store.support!.withdraw(everything, scope))
  return [...rows, { name: `${name}: a document removed`, value: removed, unit: 's', note }]
}

function memoryRow(): Row {
  const [documents, emissions] = [10_000, 10]
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  const cache = createRetractionCache()
  for (let number = 0; number < documents; number++) {
    const id = `urn:graphmill:document:${String(number).padStart(32, '0')}`
    const keys = Array.from({ length: emissions }, (_, at) =>
      emissionKey({ documentId: id, chunkId: `${id}/${at}`, versionTime }),
    )
    const payload = { reason: 'superseded', kept: joinKeys(keys) }
    cache.put({ documentId: id, collection: 'default', version: 'v', versionTime, payload } as never)
  }
  globalThis.gc?.()
  const bytes = process.memoryUsage().heapUsed - before
  return {
    name: 'retractions: memory of 10,000 documents that were replaced',
    value: bytes / documents,
    unit: 'bytes/document',
    note: `${emissions} chunks each${globalThis.gc ? '' : '; without --expose-gc, with garbage'}${cache.of('') ? '!' : ''}`,
  }
}

export async function supportBench(): Promise<Row[]> {
  const rows = [memoryRow()]
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-bench-'))
  rows.push(...(await storeRows('folder of N-Quads', () => openFolderStore(folder, { format: 'nquads' }))))
  await rm(folder, { recursive: true, force: true })
  const missing = installOxigraph()
  if (missing !== undefined) {
    console.warn(`bench: support of a SPARQL store was not measured: ${missing}`)
    return rows
  }
  const site = await startOxigraph()
  const open = () => openSparqlStore({ url: site.update })
  rows.push(...(await pairRows('Oxigraph', open, site)))
  await site.clear()
  rows.push(...(await storeRows('Oxigraph', open)))
  await site.stop()
  return rows
}
