// Every option of graphmill in one table. An option is a flag, an environment variable (GRAPHMILL_ and its name in capitals)
// and a key of the configuration file; flag goes before environment, then file, then default.
import type { Secret } from './secret.ts'

interface Entry {
  readonly type: 'text' | 'count' | 'number' | 'flag' | 'list'
  /** What stands behind the flag in the help. */
  readonly value?: string
  readonly help: string
  readonly default?: string | number | boolean | readonly string[]
  /** Where commands differ: what each of them takes, by its name. The value is then undefined unless somebody gave one. */
  readonly defaults?: Readonly<Record<string, string>>
  readonly choices?: readonly string[]
  /**
   * It is never shown: not by `graphmill config`, not in logs. The option `<name>-file`, which every secret has without an
   * entry of its own, names a file that holds it.
   */
  readonly secret?: true
  /** It may hold credentials, as in `http://user:password@host`: they are not shown either. */
  readonly address?: true
  /** Of a secret: it may hold what no HTTP header takes. */
  readonly anyText?: true
  /** The least count. Default 1. */
  readonly least?: number
  /** The largest count. Default: any. */
  readonly most?: number
}

/** A week in seconds: a timer of Node takes 24 days at most, and takes a longer time for none. */
export const longestWait = 604_800

const ownTable = {
  config: {
    type: 'text',
    value: 'FILE',
    help: 'configuration file (YAML or JSON); graphmill.yaml if it is there',
  },
  // where
  broker: {
    type: 'text',
    value: 'URL',
    help: 'kafka://host:port[,host:port] or pulsar+ws://host:port',
    address: true,
  },
  space: { type: 'text', value: 'NAME', help: 'what topic names begin with', default: 'gm' },
  workspace: { type: 'text', value: 'NAME', help: 'workspace', default: 'default' },
  flow: { type: 'text', value: 'NAME', help: 'flow', default: 'default' },
  collection: {
    type: 'text',
    value: 'NAME',
    help: 'collection that the triples belong to',
    default: 'default',
  },
  tls: { type: 'flag', help: 'TLS to Kafka with the usual certificates', default: false },
  'tls-ca': { type: 'text', value: 'FILE', help: 'certificate authority of the broker, PEM; implies --tls' },
  'tls-cert': { type: 'text', value: 'FILE', help: 'certificate of this client, PEM' },
  'tls-key': { type: 'text', value: 'FILE', help: 'key of this client, PEM' },
  'sasl-mechanism': {
    type: 'text',
    value: 'NAME',
    help: 'SASL for Kafka',
    choices: ['plain', 'scram-sha-256', 'scram-sha-512'],
  },
  'sasl-username': { type: 'text', value: 'NAME', help: 'user for SASL' },
  'sasl-password': {
    type: 'text',
    value: 'TEXT',
    help: 'password for SASL; better in GRAPHMILL_SASL_PASSWORD',
    secret: true,
    anyText: true,
  },
  'context-key': {
    type: 'text',
    value: 'KEY[,KEY]',
    help: 'key that signs requests of extractors, and further ones that count; `unsigned` for requests without',
    secret: true,
    anyText: true,
  },
  'schema-registry': {
    type: 'text',
    value: 'URL',
    help: "schema registry with Confluent's API; messages are then written in its format",
    address: true,
  },
  'pulsar-token': {
    type: 'text',
    value: 'TEXT',
    help: 'token for Pulsar; better in GRAPHMILL_PULSAR_TOKEN',
    secret: true,
  },
  // model
  llm: { type: 'text', value: 'PROVIDER', help: 'model provider', choices: ['openai', 'ollama', 'offline'] },
  model: { type: 'text', value: 'NAME', help: 'model; may be left out where the server has just one' },
  'llm-timeout': {
    type: 'count',
    value: 'SECONDS',
    help: 'longest silence of the model server',
    default: 120,
    most: longestWait,
  },
  'llm-call-timeout': {
    type: 'count',
    value: 'SECONDS',
    help: 'longest time for one model call; a reply that is not over by then counts as cut off',
    default: 600,
    most: longestWait,
  },
  temperature: {
    type: 'number',
    value: 'NUMBER',
    help: 'sampling temperature, where the prompt sets none of its own; not sent unless set',
  },
  'num-ctx': {
    type: 'count',
    value: 'TOKENS',
    help: 'context length that Ollama is asked for',
    default: 8192,
  },
  'output-mode': {
    type: 'text',
    value: 'MODE',
    help: 'how a model is asked for JSON, where the prompt does not say; else what fits the server',
    choices: ['auto', 'text-based', 'openai', 'ollama', 'openai_oo', 'ollama_oo', 'native', 'fallback'],
  },
  concurrency: { type: 'count', value: 'N', help: 'model calls at once', default: 64 },
  'requests-per-minute': { type: 'count', value: 'N', help: 'most model calls a minute' },
  'tokens-per-minute': { type: 'count', value: 'N', help: 'most tokens a minute, of prompts and replies' },
  prompts: {
    type: 'list',
    value: 'FILE|DIR',
    help: 'prompts that go before the built-in ones; may be repeated',
    default: [],
  },
  ontologies: {
    type: 'list',
    value: 'FILE|DIR',
    help: 'ontologies: Turtle, RDF/XML, JSON-LD or JSON; may be repeated',
    default: [],
  },
  'ontology-budget': {
    type: 'count',
    value: 'TOKENS',
    help: 'what of a prompt the ontologies may take',
    default: 2000,
  },
  embeddings: {
    type: 'text',
    value: 'URL',
    help: 'embeddings endpoint (/v1/embeddings or /api/embed) to select classes with; without it words are compared',
    address: true,
  },
  'embeddings-model': { type: 'text', value: 'NAME', help: 'model of the embeddings endpoint' },
  'embeddings-key': {
    type: 'text',
    value: 'TEXT',
    help: 'key for the embeddings endpoint; better in GRAPHMILL_EMBEDDINGS_KEY',
    secret: true,
  },
  'cache-dir': { type: 'text', value: 'DIR', help: "folder of the caches; else the system's own" },
  'no-cache': { type: 'flag', help: 'ask the model again for what it answered before', default: false },
  'cache-size': { type: 'count', value: 'MIB', help: 'room for remembered replies', default: 1024 },
  'cache-days': { type: 'count', value: 'N', help: 'days that replies are remembered', default: 30 },
  'max-continuations': {
    type: 'count',
    value: 'N',
    help: 'how often a reply that stopped at the token limit is continued',
    default: 3,
    least: 0,
  },
  'max-calls': { type: 'count', value: 'N', help: 'model calls that one prompt may take', default: 8 },
  prices: {
    type: 'list',
    value: 'MODEL=IN/OUT',
    help: 'prices of a model per million tokens, of prompts and of replies; may be repeated',
    default: [],
  },
  'dry-run': { type: 'flag', help: 'ask no model; print chunks, estimated tokens and cost', default: false },
  resume: {
    type: 'flag',
    help: 'replay what the model answered before, and ask only for the rest',
    default: false,
  },
  'max-cost': { type: 'text', value: 'AMOUNT', help: 'stop before the model costs more, by --prices' },
  // extraction
  extractors: {
    type: 'list',
    value: 'A,B',
    help: 'what to extract',
    default: ['definitions', 'relationships', 'topics'],
  },
  schemas: {
    type: 'list',
    value: 'FILE|DIR',
    help: 'row schemas, each a table that rows are extracted for; may be repeated',
    default: [],
  },
  provenance: {
    type: 'text',
    value: 'HOW',
    help: 'whether triples say where they come from',
    choices: ['none', 'subgraph'],
    defaults: { extract: 'none', run: 'subgraph' },
  },
  'chunk-size': { type: 'count', value: 'N', help: 'characters of a chunk', default: 2000 },
  'chunk-overlap': {
    type: 'count',
    value: 'N',
    help: 'characters that chunks share',
    default: 100,
    least: 0,
  },
  'document-timeout': {
    type: 'count',
    value: 'SECONDS',
    help: 'longest time to read one PDF or HTML file, or the ontologies',
    default: 60,
    most: longestWait,
  },
  'document-memory': {
    type: 'count',
    value: 'MIB',
    help: 'most memory of the process that reads one PDF or HTML file, or the ontologies',
    default: 1024,
    least: 128,
  },
  'follow-links': {
    type: 'flag',
    help: 'read what links in a folder lead to outside of it, too',
    default: false,
  },
  // output
  format: {
    type: 'text',
    value: 'FORMAT',
    help: 'file format',
    choices: ['nquads', 'trig', 'turtle', 'jsonl'],
    default: 'nquads',
  },
  out: {
    type: 'text',
    value: 'PATH',
    help: 'where triples go: a file for extract, else standard output; a folder for run',
    defaults: { run: 'triples', 'prompts import': 'prompts' },
  },
  'rdf-star': {
    type: 'flag',
    help: 'write quoted triples to files as RDF 1.2 triple terms instead of reification',
    default: false,
  },
  store: {
    type: 'text',
    value: 'URL',
    help: 'SPARQL endpoint that triples go to instead of files; user:password@ may stand in it',
    address: true,
  },
  'store-protocol': {
    type: 'text',
    value: 'NAME',
    help: 'what the endpoint takes: SPARQL 1.1 Update or the Graph Store Protocol',
    choices: ['update', 'graph-store'],
    default: 'update',
  },
  'store-token': {
    type: 'text',
    value: 'TEXT',
    help: 'bearer token for the endpoint; better in GRAPHMILL_STORE_TOKEN',
    secret: true,
  },
  limit: { type: 'count', value: 'N', help: 'extract no more than the first N chunks' },
  json: { type: 'flag', help: 'one JSON object a line instead of a table', default: false },
  'strict-exit': { type: 'flag', help: 'exit 3 when any item was rejected', default: false },
  // operation
  flows: {
    type: 'text',
    value: 'FILE',
    help: 'file that says which workspaces and flows there are; picked up again when it changes',
  },
  http: {
    type: 'text',
    value: 'HOST:PORT',
    help: 'where /healthz, /readyz, /metrics and /status.json are served; `off` for nowhere',
    default: '127.0.0.1:8000',
  },
  'http-names': {
    type: 'list',
    value: 'NAME',
    help: 'host names by which they may be asked for, besides localhost and IP addresses; may be repeated',
    default: [],
  },
  watchdog: {
    type: 'count',
    value: 'SECONDS',
    help: 'end the process when its main thread is blocked for so long; 0 for never',
    default: 60,
    least: 0,
    most: longestWait,
  },
  drain: {
    type: 'text',
    value: 'HOW',
    help: 'on SIGTERM: finish what is in hand, or abort it',
    choices: ['graceful', 'now'],
    default: 'graceful',
  },
  'log-level': {
    type: 'text',
    value: 'LEVEL',
    help: 'log messages from this level on',
    choices: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    defaults: { extract: 'silent', run: 'info' },
  },
} as const satisfies Record<string, Entry>

type OwnTable = typeof ownTable

/** The options that are secrets. */
export type SecretName = {
  [N in keyof OwnTable]: OwnTable[N] extends { readonly secret: true } ? N : never
}[keyof OwnTable]

type FileName<N extends SecretName> = `${N}-file`
type FileEntry = Entry & { readonly type: 'text' }

/** The option that names the file of a secret. */
export const fileOption = <N extends SecretName>(name: N): FileName<N> => `${name}-file`

export const secretNames = Object.keys(ownTable).filter(isSecret)

/** Whether an option is a secret. */
export function isSecret(name: string): name is SecretName {
  const entry: Entry | undefined = ownTable[name as keyof OwnTable]
  return entry?.secret === true
}

/** Every option; behind a secret the one that names its file. */
export const optionTable = Object.fromEntries(
  Object.entries<Entry>(ownTable).flatMap(([name, entry]): [string, Entry][] =>
    isSecret(name) ? [[name, entry], fileEntry(name)] : [[name, entry]],
  ),
) as OwnTable & Readonly<Record<FileName<SecretName>, FileEntry>>

function fileEntry(name: SecretName): [string, Entry] {
  const help = `file that holds what --${name} would say; read again when it changes`
  return [fileOption(name), { type: 'text', value: 'FILE', help }]
}

export type OptionName = keyof typeof optionTable
export type OptionEntry = Entry

type ValueOf<E> = E extends { readonly secret: true }
  ? Secret
  : E extends { readonly type: 'count' | 'number' }
    ? number
    : E extends { readonly type: 'flag' }
      ? boolean
      : E extends { readonly type: 'list' }
        ? readonly string[]
        : E extends { readonly choices: readonly (infer Choice)[] }
          ? Choice
          : string

/** `none for extract, subgraph for run`; nothing where commands do not differ. */
export function defaultsText({ defaults = {} }: OptionEntry): string {
  return Object.entries(defaults)
    .map(([command, value]) => `${value} for ${command}`)
    .join(', ')
}

/** The values of all options; undefined where nobody gave one and there is no default. */
export type Options = {
  readonly [N in OptionName]: (typeof optionTable)[N] extends { readonly default: unknown }
    ? ValueOf<(typeof optionTable)[N]>
    : ValueOf<(typeof optionTable)[N]> | undefined
}
