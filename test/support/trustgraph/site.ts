// One broker, one model server and one process with all of TrustGraph's processors for a test file. Each test starts a flow of its own,
// in which graphmill may stand for some of the processors.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { groupName, pulsarTopic, usualIdentifiers } from '../../../src/trustgraph/names.ts'
import { counterparts, type WirePort } from '../../../src/trustgraph/wire.ts'
import { type LlmServer, startLlmServer } from '../llm-server.ts'
import { type GraphmillProcess, startGraphmill } from '../processes.ts'
import { blueprint, classes, type ProcessorId } from './blueprint.ts'
import { type BrokerKind, type SiteBroker, startSiteBroker } from './brokers.ts'
import { entries, files, replies, text } from './content.ts'
import { type PromptResult, type Stored, startTrustGraph, type TrustGraph } from './host.ts'
import { facts, writers } from './triples.ts'

export interface Flow {
  readonly workspace: string
  readonly flow: string
}

export interface TrustGraphSite {
  readonly broker: SiteBroker
  readonly llm: LlmServer
  readonly trustGraph: TrustGraph
  /** A folder with the files of `content.ts`, and for the test's own. */
  readonly folder: string
  /** Makes a workspace with the configuration of `content.ts`. */
  addWorkspace(name: string): Promise<void>
  /** Starts a flow without the processors that graphmill stands for. */
  startFlow(flow: Flow, without?: readonly ProcessorId[]): Promise<void>
  stopFlow(flow: Flow): Promise<void>
  /** Starts graphmill's processors on the flow, and resolves when they take messages; they end with the site. */
  startGraphmill(flow: Flow, processors: readonly string[], more?: FlowEntry): Promise<GraphmillProcess>
  /** Sends a chunk as TrustGraph's chunker does. */
  sendChunk(flow: Flow, id: string, chunk?: string): Promise<void>
  /** What TrustGraph's stores received from a chunk, when `condition` holds of it. */
  storedOf(chunk: string, condition: (stored: readonly Stored[]) => boolean): Promise<readonly Stored[]>
  /**
   * What the stores receive of a chunk in a new flow of this name, when four extractors have written triples, and one rows. Some of
   * TrustGraph's processors may be graphmill's.
   */
  extracted(name: string, replaced?: Replaced): Promise<readonly Stored[]>
  ask(flow: Flow, prompt: string, more?: { terms?: object; streaming?: boolean }): Promise<PromptResult>
  stop(): Promise<void>
}

export interface Replaced {
  readonly without?: readonly ProcessorId[]
  readonly ours?: readonly string[]
  readonly rest?: FlowEntry
  /** How many facts to wait for. */
  readonly least?: number
}

const extractors = ['definitions', 'relationships', 'rows', 'ontology', 'agent-kg']

/** What `flows.yaml` says of a flow besides its names. */
interface FlowEntry {
  readonly topics?: Readonly<Record<string, { readonly identifier: string }>>
  readonly [key: string]: unknown
}

/** Rules of the model: what `content.ts` says for each kind, and an error for the kind `failure`. */
const rules = [
  { match: 'Kind: failure', reply: { refuse: 'invalid' } },
  ...Object.entries(replies).map(([kind, reply]) => ({ match: `Kind: ${kind}.`, reply })),
] as const

/** The groups of TrustGraph that graphmill's processors join, each with the identifier of its topic. */
function groupsOf({ workspace, flow }: Flow, processors: readonly string[], { topics = {} }: FlowEntry) {
  return processors.flatMap((processor) =>
    Object.entries(counterparts[processor] ?? {}).map(
      ([role, { processor: id, port }]) =>
        [
          groupName(id, workspace, flow, port),
          topics[role]?.identifier ?? usualIdentifiers(workspace, flow)[role as WirePort],
        ] as const,
    ),
  )
}

export async function startTrustGraphSite(
  python: string,
  kind: BrokerKind = 'kafka',
): Promise<TrustGraphSite> {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-trustgraph-'))
  for (const [name, value] of Object.entries(files))
    await writeFile(join(folder, name), JSON.stringify(value))
  const broker = await startSiteBroker(kind)
  const llm = await startLlmServer({ rules })
  const trustGraph = await startTrustGraph({ python, broker: broker.settings })
  const { order } = trustGraph
  await order('topics', { identifiers: ['request:tg:config', 'response:tg:config', 'notify:tg:config'] })
  await order('start', { kind: 'trustgraph.config.service.service.Processor', id: 'config-svc' })
  for (const [id, kind] of Object.entries(classes)) {
    const params = id === 'text-completion' ? { url: llm.url, model: 'test-model' } : {}
    await order('start', { kind, id, params })
  }
  /** How many messages were stored when a chunk was sent, by its id. */
  const storedBefore = new Map<string, number>()
  const processes = new Set<GraphmillProcess>()
  const placed = new Set<string>()
  const site: TrustGraphSite = {
    ...{ broker, llm, trustGraph, folder },
    async addWorkspace(name) {
      await order('workspace', { name })
      await order('config', { workspace: name, values: entries })
    },
    async startFlow({ workspace, flow }, without = []) {
      const processors = Object.keys(classes).filter((id) => !without.includes(id as ProcessorId))
      const name = `${flow}-blueprint`
      const value = JSON.stringify(blueprint(processors))
      await order('config', { workspace, values: [['flow-blueprint', name, value]] })
      await order('flow', { operation: 'start-flow', workspace, flow, blueprint: name })
      for (const id of processors) await order('until_flow', { id, workspace, flow })
    },
    async stopFlow({ workspace, flow }) {
      await order('flow', { operation: 'stop-flow', workspace, flow })
      for (const id of Object.keys(classes))
        await order('until_flow', { id, workspace, flow, present: false })
    },
    async startGraphmill({ workspace, flow }, processors, more = {}) {
      const name = flow.toLowerCase().replaceAll('.', '-')
      const entry = {
        ...{ workspace: name, flow: name, wire: 'trustgraph', trustgraph: { workspace, flow } },
        ...{ extractors, llm: 'openai', model: 'test-model' },
        ...{ prompts: [join(folder, 'prompts.json')], schemas: [join(folder, 'schemas.json')] },
        ...{ ontologies: [join(folder, 'ontologies.json')], ...more },
      }
      const groups = groupsOf({ workspace, flow }, processors, more)
      if (kind === 'kafka') {
        await order('positions', { groups: groups.filter(([group]) => !placed.has(group)) })
        for (const [group] of groups) placed.add(group)
      }
      const file = join(folder, `${name}-${processes.size}.json`)
      await writeFile(file, JSON.stringify({ flows: [entry] }))
      const command = ['run', ...processors, '--flows', file, '--broker', broker.url, ...broker.options]
      const child = startGraphmill(
        [...command, '--no-cache', '--http', 'off', '--out', join(folder, `${name}.out`)],
        {
          ...{ OPENAI_BASE_URL: llm.url, OPENAI_API_KEY: 'none' },
        },
      )
      processes.add(child)
      await child.says('"running"')
      await broker.joined(groups.map(([group, identifier]) => ({ group, topic: pulsarTopic(identifier) })))
      return child
    },
    async sendChunk({ workspace, flow }, id, chunk = text) {
      const metadata = { id, root: 'urn:document:mills', collection: 'research' }
      storedBefore.set(id, trustGraph.stored.length)
      const value = { metadata, chunk, document_id: id }
      await order('send', { topic: `flow:tg:chunk-load:${workspace}:${flow}`, type: 'Chunk', value })
    },
    async storedOf(chunk, condition) {
      // The triples of an ontology belong to no document: those that came after the chunk are its own.
      const before = [...storedBefore].find(([id]) => id.startsWith(chunk))?.[1]
      const own = (all: readonly Stored[]) =>
        all.filter(({ message: { metadata } }, at) =>
          metadata.id === '' ? before !== undefined && at >= before : metadata.id.startsWith(chunk),
        )
      await trustGraph.until((all) => condition(own(all)))
      return own(trustGraph.stored)
    },
    async extracted(name, { without = [], ours = [], rest = {}, least = 0 } = {}) {
      const flow = { workspace: 'default', flow: name }
      await site.startFlow(flow, without)
      const child = ours.length > 0 ? await site.startGraphmill(flow, ours, rest) : undefined
      await site.sendChunk(flow, `urn:chunk:${name}`)
      const stored = await site.storedOf(`urn:chunk:${name}`, (all) => {
        const vectors = all.filter(({ event }) => event === 'graph-embeddings')
        const isWhole = writers(all).length === 4 && facts(all).length >= least
        return isWhole && vectors.length > 2 && all.some(({ event }) => event === 'rows')
      })
      await child?.end('SIGTERM')
      return stored
    },
    ask: ({ workspace, flow }, prompt, { terms = { text }, streaming = false } = {}) =>
      order('prompt', { workspace, flow, prompt, terms, streaming }),
    async stop() {
      await Promise.all([...processes].map((child) => child.end('SIGKILL')))
      await trustGraph.stop()
      await llm.close()
      await broker.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
  await site.addWorkspace('default')
  return site
}
