// One Kafka, one model server and one process with all of TrustGraph's processors for a test file. Each test starts a flow of its own,
// in which graphmill may stand for some of the processors.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { groupName, usualIdentifiers } from '../../../src/trustgraph/names.ts'
import { counterparts, type WirePort } from '../../../src/trustgraph/wire.ts'
import { type KafkaServer, startKafka } from '../kafka-server.ts'
import { type LlmServer, startLlmServer } from '../llm-server.ts'
import { type GraphmillProcess, startGraphmill } from '../processes.ts'
import { blueprint, classes, type ProcessorId } from './blueprint.ts'
import { entries, files, replies, text } from './content.ts'
import { type PromptResult, type Stored, startTrustGraph, type TrustGraph } from './host.ts'

export interface Flow {
  readonly workspace: string
  readonly flow: string
}

export interface TrustGraphSite {
  readonly kafka: KafkaServer
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
  ask(flow: Flow, prompt: string, more?: { terms?: object; streaming?: boolean }): Promise<PromptResult>
  stop(): Promise<void>
}

const extractors = ['definitions', 'relationships', 'rows', 'ontology', 'agent-kg']

/** What `flows.yaml` says of a flow besides its names. */
type FlowEntry = Readonly<Record<string, unknown>>

/** Rules of the model: what `content.ts` says for each kind, and an error for the kind `failure`. */
const rules = [
  { match: 'Kind: failure', reply: { refuse: 'invalid' } },
  ...Object.entries(replies).map(([kind, reply]) => ({ match: `Kind: ${kind}.`, reply })),
] as const

/** The groups of TrustGraph that graphmill's processors join, each with the identifier of its topic. */
function groupsOf({ workspace, flow }: Flow, processors: readonly string[]) {
  return processors.flatMap((processor) =>
    Object.entries(counterparts[processor] ?? {}).map(([role, { processor: id, port }]) => [
      groupName(id, workspace, flow, port),
      usualIdentifiers(workspace, flow)[role as WirePort],
    ]),
  )
}

export async function startTrustGraphSite(python: string): Promise<TrustGraphSite> {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-trustgraph-'))
  for (const [name, value] of Object.entries(files))
    await writeFile(join(folder, name), JSON.stringify(value))
  const kafka = await startKafka({ properties: { 'message.max.bytes': 10 * 1024 * 1024 } })
  const llm = await startLlmServer({ rules })
  const trustGraph = await startTrustGraph({ python, broker: kafka.bootstrap.join() })
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
    ...{ kafka, llm, trustGraph, folder },
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
      const groups = groupsOf({ workspace, flow }, processors).filter(([group]) => !placed.has(group!))
      for (const [group] of groups) placed.add(group!)
      await order('positions', { groups })
      const file = join(folder, `${name}-${processes.size}.json`)
      await writeFile(file, JSON.stringify({ flows: [entry] }))
      const command = ['run', ...processors, '--flows', file, '--broker', `kafka://${kafka.bootstrap.join()}`]
      const child = startGraphmill(
        [...command, '--no-cache', '--http', 'off', '--out', join(folder, `${name}.out`)],
        {
          ...{ OPENAI_BASE_URL: llm.url, OPENAI_API_KEY: 'none' },
        },
      )
      processes.add(child)
      await child.says('"running"')
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
    ask: ({ workspace, flow }, prompt, { terms = { text }, streaming = false } = {}) =>
      order('prompt', { workspace, flow, prompt, terms, streaming }),
    async stop() {
      await Promise.all([...processes].map((child) => child.end('SIGKILL')))
      await trustGraph.stop()
      await llm.close()
      await kafka.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
  await site.addWorkspace('default')
  return site
}
