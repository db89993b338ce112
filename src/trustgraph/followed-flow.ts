// One flow as TrustGraph's configuration has it: which processors it has, their topics and parameters, and the prompts, row schemas and
// ontologies of its workspace as files.
import { GraphmillError } from '../errors.ts'
import type { InputFile } from '../input-file.ts'
import { isObject } from '../is-object.ts'
import { jsonValue } from '../json-value.ts'
import type { ConfigSnapshot } from './config-snapshots.ts'
import { counterparts, type WirePort } from './wire.ts'

/** TrustGraph's ids of a flow, and of processors that are not called as usual, by the name of ours. */
export interface FollowedIds {
  readonly workspace: string
  readonly flow: string
  readonly processors: Readonly<Record<string, string>>
}

export interface FollowedFlow {
  /** Our names of the processors that the flow has. */
  readonly processors: ReadonlySet<string>
  /** The topics that are named. */
  readonly identifiers: Readonly<Partial<Record<WirePort, string>>>
  /** Parameters by our processor: options of ours, as texts. */
  readonly parameters: ReadonlyMap<string, Readonly<Record<string, string>>>
  readonly prompts: InputFile
  /** Undefined when the workspace has none. */
  readonly schemas: InputFile | undefined
  readonly ontologies: InputFile | undefined
}

/** A port of ours, by the usual id of TrustGraph's processor and its port. */
const extractor = {
  input: 'chunk',
  'prompt-request': 'prompt',
  'prompt-response': 'prompt-reply',
  triples: 'triples',
  'entity-contexts': 'entity-contexts',
} as const
const ports: Readonly<Record<string, Readonly<Record<string, WirePort>>>> = {
  chunker: { input: 'document', output: 'chunk', triples: 'triples' },
  'kg-extract-definitions': extractor,
  'kg-extract-relationships': extractor,
  'kg-extract-topics': extractor,
  'kg-extract-rows': { ...extractor, output: 'rows' },
  'kg-extract-ontology': extractor,
  'kg-extract-agent': extractor,
  prompt: {
    request: 'prompt',
    response: 'prompt-reply',
    'text-completion-request': 'text-completion',
    'text-completion-response': 'text-completion-reply',
  },
  'prompt-rag': { request: 'prompt-live', response: 'prompt-live-reply' },
  'text-completion': { request: 'text-completion', response: 'text-completion-reply' },
  'triples-write': { input: 'triples' },
}

/** The parameters that are options of ours, with the same names. */
const parameterNames = ['chunk-size', 'chunk-overlap', 'model', 'temperature']

const typeOf = (id: string) => `processor:${id}`

/** The types of TrustGraph's configuration that flows with these ids need. */
export function followedTypes(flows: readonly Pick<FollowedIds, 'processors'>[]): string[] {
  const ids = flows.flatMap(({ processors }) => processorsOf(processors).map(({ id }) => typeOf(id)))
  return ['prompt', 'schema', 'ontology', ...new Set(ids)].sort()
}

/**
 * Every processor of TrustGraph's with a counterpart, by our name, its usual id, and its id here. When ours stands for two, the name in
 * the flows file is that of the first.
 */
function processorsOf(named: FollowedIds['processors']) {
  return Object.entries(counterparts).flatMap(([ours, inputs]) =>
    Object.values(inputs).map(({ processor: usual }, at) => ({
      ours,
      usual,
      id: at === 0 ? (named[ours] ?? usual) : usual,
    })),
  )
}

/** TrustGraph's ids of the flows in a workspace. */
export function flowIds(
  snapshot: ConfigSnapshot,
  { workspace, processors }: Pick<FollowedIds, 'workspace' | 'processors'>,
): string[] {
  if (!snapshot.workspaces.includes(workspace)) return []
  const found = processorsOf(processors).flatMap(({ id }) => [
    ...snapshot.values(workspace, typeOf(id)).keys(),
  ])
  return [...new Set(found)].sort()
}

/**
 * The flow of TrustGraph's with these ids. `given` are identifiers that count in place of its own.
 *
 * Throws `configuration_invalid` for a processor that cannot be read, and for two that have different topics in the place of one.
 */
export function readFollowedFlow(
  snapshot: ConfigSnapshot,
  ids: FollowedIds,
  given: FollowedFlow['identifiers'],
): FollowedFlow {
  const { workspace, flow } = ids
  const identifiers: Partial<Record<WirePort, string>> = { ...given }
  const parameters = new Map<string, Record<string, string>>()
  for (const { ours, usual, id } of processorsOf(ids.processors)) {
    const text = snapshot.values(workspace, typeOf(id)).get(flow)
    if (text === undefined) continue
    const entry = readEntry(text, `TrustGraph's configuration: ${workspace}: ${typeOf(id)}: ${flow}`)
    for (const [port, identifier] of Object.entries(entry.topics)) {
      const known = ports[usual] ?? {}
      const own = Object.hasOwn(known, port) ? known[port]! : undefined
      if (own === undefined || given[own] !== undefined) continue
      identifiers[own] ??= identifier
      if (identifiers[own] !== identifier)
        throw invalid(
          `${entry.place}: its topic ${port} is ${identifier}, but that of another processor is ${identifiers[own]}. Name the identifier for ${own} in the flows file.`,
        )
    }
    const set = parameterNames.filter((name) => entry.parameters[name])
    const options = Object.fromEntries(set.map((name) => [name, entry.parameters[name]!]))
    parameters.set(ours, { ...parameters.get(ours), ...options })
  }
  return {
    processors: new Set(parameters.keys()),
    identifiers,
    parameters,
    prompts: promptsOf(snapshot, workspace),
    schemas: schemasOf(snapshot, workspace),
    ontologies: fileOf(workspace, 'ontology', snapshot.values(workspace, 'ontology')),
  }
}

function readEntry(text: string, place: string) {
  const value = jsonValue(text)
  if (!isObject(value)) throw invalid(`${place}: it is no JSON object.`)
  return {
    place,
    topics: textsOf(value['topics'], `${place}: topics`),
    parameters: textsOf(value['parameters'], `${place}: parameters`),
  }
}

function textsOf(value: unknown, place: string): Readonly<Record<string, string>> {
  if (!isObject(value ?? {})) throw invalid(`${place}: it must be an object.`)
  const entries = Object.entries((value ?? {}) as object).filter(([, text]) => text !== null)
  const wrong = entries.find(([, text]) => typeof text === 'object')
  if (wrong) throw invalid(`${place}: ${wrong[0]}: it must be a text.`)
  return Object.fromEntries(entries.map(([name, text]) => [name, String(text)]))
}

/** Every template is a prompt: TrustGraph reads no `template-index` any more. Without a text for `system` it has one of its own. */
function promptsOf(snapshot: ConfigSnapshot, workspace: string): InputFile {
  const values = snapshot.values(workspace, 'prompt')
  const templates = [...values].filter(([key]) => key.startsWith('template.'))
  const given = values.get('system') ?? ''
  const system = jsonValue(given) === undefined ? JSON.stringify('Be helpful.') : given
  return fileOf(workspace, 'prompt', [['system', system], ...templates])!
}

/** Its rows carry the key of their schema. */
function schemasOf(snapshot: ConfigSnapshot, workspace: string): InputFile | undefined {
  const values = [...snapshot.values(workspace, 'schema')].map(([key, text]) => {
    const value = jsonValue(text)
    return [key, isObject(value) ? { ...value, name: key } : text] as const
  })
  return fileOf(workspace, 'schema', values)
}

/** The values of a type as a file; its path names them in messages. */
function fileOf(
  workspace: string,
  type: string,
  values: Iterable<readonly [string, unknown]>,
): InputFile | undefined {
  const entries = [...values]
  if (entries.length === 0) return undefined
  const path = `TrustGraph's configuration, workspace ${workspace}, type ${type}.json`
  return { path, bytes: Buffer.from(JSON.stringify(Object.fromEntries(entries))) }
}

const invalid = (message: string) => new GraphmillError('configuration_invalid', message)
