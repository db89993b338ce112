// A flow of TrustGraph as its usual blueprints make it: which processor has which topic at which port.

const topic = (kind: string, name: string) => `${kind}:tg:${name}:{workspace}:{id}`
const flow = (name: string) => topic('flow', name)
const service = (port: string, name = port) => ({
  [`${port}-request`]: topic('request', name),
  [`${port}-response`]: topic('response', name),
})
const chunks = { input: flow('chunk-load') }
const graph = { triples: flow('triples-store'), 'entity-contexts': flow('entity-contexts-load') }
const serves = (name: string) => ({ request: topic('request', name), response: topic('response', name) })

/** The ports of each processor. */
export const ports = {
  'kg-extract-definitions': { ...chunks, ...service('prompt'), ...graph },
  'kg-extract-relationships': { ...chunks, ...service('prompt'), ...graph },
  'kg-extract-rows': { ...chunks, ...service('prompt'), output: flow('rows-store') },
  'kg-extract-agent': { ...chunks, ...service('agent'), ...graph },
  'kg-extract-ontology': { ...chunks, ...service('prompt'), ...service('embeddings'), ...graph },
  prompt: { ...serves('prompt'), ...service('text-completion') },
  'text-completion': serves('text-completion'),
  'graph-embeddings': {
    input: flow('entity-contexts-load'),
    ...service('embeddings'),
    output: flow('graph-embeddings-store'),
  },
  'triples-write': { input: flow('triples-store') },
  'graph-embeddings-write': { input: flow('graph-embeddings-store') },
  'rows-write': { input: flow('rows-store') },
  'contexts-read': { input: flow('entity-contexts-load') },
  embeddings: serves('embeddings'),
  agent: { ...serves('agent'), next: topic('request', 'agent'), ...service('prompt') },
  client: { ...service('prompt'), ...service('text-completion') },
  /** The interactive lane, which no test serves: only its topics are needed. */
  'prompt-rag': serves('prompt-rag'),
} as const

export type ProcessorId = keyof typeof ports

/** The class of each processor: TrustGraph's own, or one of the stubs in the script. */
export const classes: Readonly<Record<Exclude<ProcessorId, 'prompt-rag'>, string>> = {
  'kg-extract-definitions': 'trustgraph.extract.kg.definitions.extract.Processor',
  'kg-extract-relationships': 'trustgraph.extract.kg.relationships.extract.Processor',
  'kg-extract-rows': 'trustgraph.extract.kg.rows.processor.Processor',
  'kg-extract-agent': 'trustgraph.extract.kg.agent.extract.Processor',
  'kg-extract-ontology': 'trustgraph.extract.kg.ontology.extract.Processor',
  prompt: 'trustgraph.prompt.template.service.Processor',
  'text-completion': 'trustgraph.model.text_completion.openai.llm.Processor',
  'graph-embeddings': 'trustgraph.embeddings.graph_embeddings.embeddings.Processor',
  'triples-write': 'Triples',
  'graph-embeddings-write': 'Vectors',
  'rows-write': 'Rows',
  'contexts-read': 'Contexts',
  embeddings: 'Embeddings',
  agent: 'Agent',
  client: 'Client',
}

export const extractorIds = [
  'kg-extract-definitions',
  'kg-extract-relationships',
  'kg-extract-rows',
  'kg-extract-agent',
  'kg-extract-ontology',
] as const satisfies readonly ProcessorId[]

/** Ours in place of those. */
export const ourExtractors = [
  'extract-definitions',
  'extract-relationships',
  'extract-rows',
  'extract-agent-kg',
  'extract-ontology',
  'emit-triples',
] as const

/** A flow of these processors. Its topics are those of all, so that others can stand for the rest. */
export function blueprint(processors: readonly string[]) {
  const named = (ids: readonly string[], prefix = '') =>
    ids.map((id) => [`${prefix}${id}:{id}`, { topics: ports[id as ProcessorId], parameters: {} }])
  const others = Object.keys(ports).filter((id) => !processors.includes(id))
  return {
    description: 'A test',
    blueprint: {},
    flow: Object.fromEntries([...named(processors), ...named(others, 'graphmill-')]),
    interfaces: {},
  }
}
