// Documents that change, from their text to the store: whatever is loaded, removed and killed, the store ends with what a fresh one holds
// that was given only the surviving versions. Run ids and times are mapped, since these are what differs.
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { loadProcessors } from '../../processors/modules.ts'
import { createMemoryCluster, type MemoryCluster } from '../../src/broker/memory/memory.ts'
import { type InputPort, inputGroup, inputTopic } from '../../src/flow/ports.ts'
import { createOffline } from '../../src/llm/offline/offline.ts'
import { loadCatalogue } from '../../src/prompt/catalogue/catalogue.ts'
import { openFolderStore } from '../../src/rdf/folder-store.ts'
import { openSparqlStore } from '../../src/rdf/sparql-store.ts'
import type { TripleStore } from '../../src/rdf/store.ts'
import { brokerSource } from '../support/brokers.ts'
import { canonicalQuads } from '../support/canonical-quads.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'
import { startFuseki } from '../support/fuseki-server.ts'
import { createLife, type Death, type Life } from '../support/mortal.ts'
import { installOxigraph, startOxigraph } from '../support/oxigraph-server.ts'

interface Site {
  open(): TripleStore
  dump(): Promise<string>
  clear(): Promise<void>
  stop(): Promise<unknown>
}

const sites: readonly [string, string | undefined, () => Promise<Site>][] = [
  [
    'Fuseki',
    (await brokerSource('Fuseki', ['jars'])) === undefined ? 'Fuseki cannot be started' : undefined,
    async () => {
      const server = await startFuseki()
      return { ...server, open: () => openSparqlStore({ url: `${server.dataset}/update` }) }
    },
  ],
  [
    'Oxigraph',
    installOxigraph(),
    async () => {
      const server = await startOxigraph()
      return { ...server, open: () => openSparqlStore({ url: server.update }) }
    },
  ],
  ['a folder of N-Quads', undefined, openFolder],
]

async function openFolder(): Promise<Site> {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-histories-'))
  const out = join(folder, 'out')
  return {
    open: () => openFolderStore(out, { format: 'nquads' }),
    async dump() {
      const names = (await readdir(out).catch(() => [])).filter((name) => name.endsWith('.nq'))
      const texts = await Promise.all(names.map((name) => readFile(join(out, name), 'utf8')))
      return texts.join('')
    },
    clear: () => rm(out, { recursive: true, force: true }),
    stop: () => rm(folder, { recursive: true, force: true }),
  }
}

const processors = await loadProcessors([
  'chunk-text',
  'extract-definitions',
  'prompt',
  'emit-triples',
  'store-triples',
  'ledger',
])
const prompts = await loadCatalogue()
/** A thousand times as fast, so that statuses, a second apart, need no waiting. */
const begun = Date.now()
const clock = { now: () => begun + (Date.now() - begun) * 1000 }

async function start(site: Site, cluster: MemoryCluster): Promise<Started> {
  const life = createLife()
  const flow = await startFlow(processors, {
    cluster: { ...cluster, connect: () => life.broker(cluster.connect()) },
    clock,
    llm: createOffline(),
    prompts,
    store: life.store(site.open()),
    ids: { next: () => crypto.randomUUID() },
    flows: [
      {
        ...scope,
        settings: {
          ...settings,
          chunkSize: 120,
          chunkOverlap: 0,
          extractors: ['extract-definitions'],
          provenance: 'subgraph',
        },
      },
    ],
  })
  return { flow, life }
}

interface Started {
  readonly flow: TestFlow
  readonly life: Life
}

interface Version {
  readonly documentId: string
  readonly paragraphs: readonly string[]
  readonly versionTime: number
}

/** As `load` publishes it, in document parts of two paragraphs; a removal has none. */
async function publish(flow: TestFlow, { documentId, paragraphs, versionTime }: Version) {
  const header = { documentId, chunkId: '', version: `v${versionTime}`, versionTime }
  if (paragraphs.length === 0)
    return await flow.send('document', { text: '', removed: 'removed' }, { ...header, version: '' })
  await flow.send('progress', { kind: 'loading', title: documentId }, header)
  const parts = Math.ceil(paragraphs.length / 2)
  let offset = 0
  for (let part = 0; part < parts; part++) {
    const text = paragraphs.slice(2 * part, 2 * part + 2).join('\n\n')
    const place = { part, offset, start: offset, last: part === parts - 1 }
    await flow.send('document', { title: documentId, text, ...place }, header)
    offset += text.length + 2
  }
  await flow.send('progress', { kind: 'document', parts, title: documentId }, header)
}

const names = { space: 'gm', ...scope }
const inputs = processors.flatMap(({ name, inputs: ports }) =>
  (ports as readonly InputPort[]).map((port) => ({
    group: inputGroup(port, names, name),
    topic: inputTopic(port, names, name),
  })),
)
const groups = new Set(inputs.map(({ group }) => group))

/** Resolves when nothing is left to do, or `over` holds. */
async function settled(flow: TestFlow, over = () => false): Promise<void> {
  for (let quiet = 0; quiet < 3 && !over(); ) {
    let total = 0
    for (const { group, topic } of inputs) total += (await flow.broker.lag(group, topic)).total
    quiet = total === 0 ? quiet + 1 : 0
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

const things = ['mill', 'lathe', 'weir', 'forge', 'loom']
const paragraph = fc.constantFrom(
  ...things.map((thing) => `A ${thing} is a machine that stands on the river and serves all farmers.`),
  'A ferry is a boat.',
  'There is nothing to say.',
)
interface Change {
  readonly document: number
  readonly paragraphs: readonly string[]
}
type Action = Change | Death | 'wait'
const change = (paragraphs: fc.Arbitrary<readonly string[]>) => fc.record({ document: fc.nat(1), paragraphs })
const death = fc.record({ after: fc.nat(60), stored: fc.boolean(), rewind: fc.nat(3) })
const action = fc.oneof(
  { weight: 5, arbitrary: change(fc.array(paragraph, { minLength: 1, maxLength: 6 })) },
  { weight: 2, arbitrary: change(fc.constant([])) },
  { weight: 3, arbitrary: death },
  { weight: 2, arbitrary: fc.constant('wait' as const) },
)

/** What must occur, whatever is drawn: `wait` lets everything end, and what follows nothing comes while the one before is processed. */
function knownHistories(): Action[][] {
  const [mill, lathe, weir, forge] = things.map(
    (thing) => `A ${thing} is a machine that stands on the river.`,
  )
  const first = { document: 0, paragraphs: [mill!, lathe!, weir!] }
  const second = { document: 0, paragraphs: [forge!, lathe!, weir!] }
  const shared = { document: 1, paragraphs: [mill!, forge!] }
  const removed = { document: 0, paragraphs: [] }
  const dying = (after: number) => ({ after, stored: after % 2 === 0, rewind: 3 })
  return [
    // Two versions within a second, then a removal while they are extracted, then the first one again.
    [shared, first, second, removed, first, dying(25), dying(9)],
    // Removed, loaded again, and edited, each when the one before has ended; what was acked last is delivered again each time.
    [first, shared, 'wait', removed, dying(12), 'wait', first, dying(30), second, dying(5), 'wait', dying(0)],
    [first, 'wait', shared, removed, dying(3)],
  ]
}

async function replay(site: Site, history: readonly (Version | Death | 'wait')[]): Promise<string[]> {
  await site.clear()
  const cluster = createMemoryCluster()
  let { flow, life } = await start(site, cluster)
  for (const step of history) {
    if (step === 'wait') await settled(flow)
    else if ('after' in step) {
      life.arm(step)
      await settled(flow, () => life.isDead)
      life.end(cluster, groups)
      await flow.stop()
      ;({ flow, life } = await start(site, cluster))
    } else await publish(flow, step)
  }
  await settled(flow)
  const dead = (await flow.broker.listTopics('gm.')).filter(({ name }) => name.endsWith('.dead'))
  expect(dead).toEqual([])
  await flow.stop()
  return canonicalQuads(await site.dump())
}

test.each(sites)(
  'after any history %s holds what a fresh one holds of the surviving versions',
  async (_, missing, open) => {
    if (missing !== undefined) return console.warn(missing)
    const site = await open()
    const property = fc.asyncProperty(fc.array(action, { minLength: 2, maxLength: 8 }), async (actions) => {
      const history = actions.map((each, at) =>
        typeof each !== 'string' && 'document' in each
          ? { documentId: `urn:d${each.document}`, paragraphs: each.paragraphs, versionTime: at + 1 }
          : each,
      )
      const versions = history.filter((each) => typeof each !== 'string' && 'documentId' in each)
      const newest = [...new Map(versions.map((each) => [each.documentId, each])).values()]
      const surviving = newest.filter(({ paragraphs }) => paragraphs.length > 0)
      expect(await replay(site, history)).toEqual(await replay(site, surviving))
    })
    const examples = knownHistories().map((each): [Action[]] => [each])
    try {
      await fc.assert(property, { examples, numRuns: examples.length + 2 })
    } finally {
      await site.stop()
    }
  },
  300_000,
)

test('an edit in front moves the chunks behind it: their places change, and their facts are not written again', async () => {
  const site = await openFolder()
  const { flow } = await start(site, createMemoryCluster())
  const paragraphs = things.map((thing) => `A ${thing} is a machine that stands on the river and serves all.`)
  const documentId = 'urn:moved'
  await publish(flow, { documentId, paragraphs, versionTime: 1 })
  await settled(flow)
  const facts = (await flow.all(flow.topic('definitions'))).length
  await publish(flow, {
    documentId,
    paragraphs: ['A ferry is a boat.', 'It swims.', ...paragraphs],
    versionTime: 2,
  })
  await settled(flow)
  expect((await flow.all(flow.topic('definitions'))).length).toBe(facts + 1)
  const edited = canonicalQuads(await site.dump())
  await flow.stop()
  const fresh = [
    { documentId, paragraphs: ['A ferry is a boat.', 'It swims.', ...paragraphs], versionTime: 2 },
  ]
  expect(edited).toEqual(await replay(site, fresh))
  expect(edited.some((quad) => quad.includes('codePointOffset'))).toBe(true)
  await site.stop()
}, 60_000)
