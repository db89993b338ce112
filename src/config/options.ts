// Every option of graphmill in one table. An option is a flag, an environment variable (GRAPHMILL_ and the name in capitals)
// and a key of the configuration file. A flag overrides the environment, which overrides the file, which overrides the default.
import { answerModes, providerNames } from './models.ts'
import type { Secret } from './secret.ts'

export interface OptionEntry {
  readonly type: 'text' | 'count' | 'number' | 'flag' | 'list'
  /** The placeholder after the flag in the help. */
  readonly value?: string
  readonly help: string
  readonly default?: string | number | boolean | readonly string[]
  /** The default by command, when commands differ. The value of the option is then undefined unless one is given. */
  readonly defaults?: Readonly<Record<string, string>>
  readonly choices?: readonly string[]
  /**
   * Never shown, neither by `graphmill config` nor in logs. Every secret also has the option `<name>-file`, which names a
   * file that contains it; that option needs no entry here.
   */
  readonly secret?: true
  /** An address that may contain credentials, as in `http://user:password@host`; they are not shown either. */
  readonly address?: true
  /** For a secret: it may contain characters that an HTTP header does not allow. */
  readonly anyText?: true
  /** The smallest count. Default 1. */
  readonly least?: number
  /** The largest count. Default: no limit. */
  readonly most?: number
}

/** A week in seconds. Node's timers take 24 days at most and treat a longer time as 1 ms. */
export const longestWait = 604_800

const ownTable = {
  config: {
    type: 'text',
    value: 'FILE',
    help: 'configuration file (YAML or JSON); graphmill.yaml if it exists',
  },
  // where
  broker: {
    type: 'text',
    value: 'URL',
    help: 'kafka://host:port[,host:port] or pulsar+ws://host:port',
    address: true,
  },
  space: { type: 'text', value: 'NAME', help: 'first part of all topic names', default: 'gm' },
  workspace: { type: 'text', value: 'NAME', help: 'workspace', default: 'default' },
  flow: { type: 'text', value: 'NAME', help: 'flow', default: 'default' },
  collection: {
    type: 'text',
    value: 'NAME',
    help: 'collection of the triples',
    default: 'default',
  },
  tls: { type: 'flag', help: 'use TLS to Kafka with the system certificates', default: false },
  'tls-ca': { type: 'text', value: 'FILE', help: 'certificate authority of the broker (PEM); implies --tls' },
  'tls-cert': { type: 'text', value: 'FILE', help: 'client certificate (PEM)' },
  'tls-key': { type: 'text', value: 'FILE', help: 'client key (PEM)' },
  'sasl-mechanism': {
    type: 'text',
    value: 'NAME',
    help: 'SASL mechanism for Kafka',
    choices: ['plain', 'scram-sha-256', 'scram-sha-512'],
  },
  'sasl-username': { type: 'text', value: 'NAME', help: 'SASL user name' },
  'sasl-password': {
    type: 'text',
    value: 'TEXT',
    help: 'SASL password; prefer GRAPHMILL_SASL_PASSWORD',
    secret: true,
    anyText: true,
  },
  'context-key': {
    type: 'text',
    value: 'KEY[,KEY]',
    help: 'keys for the requests of extractors: the first one signs, all are accepted; `unsigned` also accepts requests without a signature',
    secret: true,
    anyText: true,
  },
  'schema-registry': {
    type: 'text',
    value: 'URL',
    help: "schema registry with Confluent's API; messages are then written in Confluent's format",
    address: true,
  },
  'pulsar-token': {
    type: 'text',
    value: 'TEXT',
    help: 'token for Pulsar; prefer GRAPHMILL_PULSAR_TOKEN',
    secret: true,
  },
  // model
  llm: { type: 'text', value: 'PROVIDER', help: 'model provider', choices: providerNames },
  model: { type: 'text', value: 'NAME', help: 'model; optional if the server has only one' },
  'llm-timeout': {
    type: 'count',
    value: 'SECONDS',
    help: 'longest time that the model server may send nothing',
    default: 120,
    most: longestWait,
  },
  'llm-call-timeout': {
    type: 'count',
    value: 'SECONDS',
    help: 'longest time for one model call; a reply that has not ended by then counts as cut off',
    default: 600,
    most: longestWait,
  },
  temperature: {
    type: 'number',
    value: 'NUMBER',
    help: 'sampling temperature, unless the prompt sets its own; not sent if neither does',
  },
  'num-ctx': {
    type: 'count',
    value: 'TOKENS',
    help: 'context length to request from Ollama',
    default: 8192,
  },
  'output-mode': {
    type: 'text',
    value: 'MODE',
    help: 'how to ask the model for JSON, unless the prompt says so; by default chosen for the server',
    choices: answerModes,
  },
  concurrency: { type: 'count', value: 'N', help: 'most model calls at once', default: 64 },
  'requests-per-minute': { type: 'count', value: 'N', help: 'most model calls per minute' },
  'tokens-per-minute': {
    type: 'count',
    value: 'N',
    help: 'most tokens per minute, prompts and replies together',
  },
  prompts: {
    type: 'list',
    value: 'FILE|DIR',
    help: 'prompts that override the built-in ones; may be repeated',
    default: [],
  },
  ontologies: {
    type: 'list',
    value: 'FILE|DIR',
    help: 'ontologies in Turtle, RDF/XML, JSON-LD or JSON; may be repeated',
    default: [],
  },
  'ontology-budget': {
    type: 'count',
    value: 'TOKENS',
    help: 'most tokens of a prompt that ontologies may use',
    default: 2000,
  },
  embeddings: {
    type: 'text',
    value: 'URL',
    help: 'embeddings endpoint (/v1/embeddings or /api/embed) for selecting ontology elements; without it, words are compared',
    address: true,
  },
  'embeddings-model': { type: 'text', value: 'NAME', help: 'model of the embeddings endpoint' },
  'embeddings-key': {
    type: 'text',
    value: 'TEXT',
    help: 'key for the embeddings endpoint; prefer GRAPHMILL_EMBEDDINGS_KEY',
    secret: true,
  },
  'cache-dir': {
    type: 'text',
    value: 'DIR',
    help: "folder of the caches; by default the system's cache folder",
  },
  'no-cache': { type: 'flag', help: 'ask the model again even if its reply is cached', default: false },
  'cache-size': { type: 'count', value: 'MIB', help: 'largest size of the reply cache', default: 1024 },
  'cache-days': { type: 'count', value: 'N', help: 'days that replies stay in the cache', default: 30 },
  'max-continuations': {
    type: 'count',
    value: 'N',
    help: 'most continuations of a reply that stopped at the token limit',
    default: 3,
    least: 0,
  },
  'max-calls': { type: 'count', value: 'N', help: 'most model calls for one prompt', default: 8 },
  prices: {
    type: 'list',
    value: 'MODEL=IN/OUT',
    help: 'prices of a model per million prompt tokens and per million reply tokens; may be repeated',
    default: [],
  },
  'dry-run': {
    type: 'flag',
    help: 'call no model; print chunks, estimated tokens and estimated cost',
    default: false,
  },
  resume: {
    type: 'flag',
    help: 'use cached replies and ask the model only for the rest',
    default: false,
  },
  'max-cost': {
    type: 'text',
    value: 'AMOUNT',
    help: 'stop before the cost, by --prices, exceeds this amount',
  },
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
    help: 'row schemas, one for each table to extract; may be repeated',
    default: [],
  },
  provenance: {
    type: 'text',
    value: 'HOW',
    help: 'whether to add triples that say where facts come from',
    choices: ['none', 'subgraph'],
    defaults: { extract: 'none', run: 'subgraph' },
  },
  'chunk-size': { type: 'count', value: 'N', help: 'characters per chunk', default: 2000 },
  'chunk-overlap': {
    type: 'count',
    value: 'N',
    help: 'characters that neighbouring chunks share',
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
    help: 'most memory for reading one PDF or HTML file, or the ontologies',
    default: 1024,
    least: 128,
  },
  'follow-links': {
    type: 'flag',
    help: 'also read files that links in a folder point to outside of it',
    default: false,
  },
  // output
  format: {
    type: 'text',
    value: 'FORMAT',
    help: 'file format of the output',
    choices: ['nquads', 'trig', 'turtle', 'jsonl'],
    default: 'nquads',
  },
  out: {
    type: 'text',
    value: 'PATH',
    help: 'where to write triples: for extract a file (default: standard output), for run a folder',
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
    help: 'SPARQL endpoint to write triples to instead of files; may contain user:password@',
    address: true,
  },
  'store-protocol': {
    type: 'text',
    value: 'NAME',
    help: 'protocol of the endpoint: SPARQL 1.1 Update or the Graph Store Protocol',
    choices: ['update', 'graph-store'],
    default: 'update',
  },
  'store-token': {
    type: 'text',
    value: 'TEXT',
    help: 'bearer token for the endpoint; prefer GRAPHMILL_STORE_TOKEN',
    secret: true,
  },
  limit: { type: 'count', value: 'N', help: 'extract only the first N chunks' },
  json: { type: 'flag', help: 'print one JSON object per line instead of a table', default: false },
  'strict-exit': { type: 'flag', help: 'exit with 3 if any item was rejected', default: false },
  // operation
  flows: {
    type: 'text',
    value: 'FILE',
    help: 'file that lists the workspaces and flows; read again when it changes',
  },
  http: {
    type: 'text',
    value: 'HOST:PORT',
    help: 'address that serves /healthz, /readyz, /metrics and /status.json; `off` to serve none',
    default: '127.0.0.1:8000',
  },
  'http-names': {
    type: 'list',
    value: 'NAME',
    help: 'host names accepted in HTTP requests, besides localhost and IP addresses; may be repeated',
    default: [],
  },
  watchdog: {
    type: 'count',
    value: 'SECONDS',
    help: 'end the process when its main thread is blocked for this long; 0 for never',
    default: 60,
    least: 0,
    most: longestWait,
  },
  drain: {
    type: 'text',
    value: 'HOW',
    help: 'on SIGTERM: finish work in flight, or abort it',
    choices: ['graceful', 'now'],
    default: 'graceful',
  },
  'log-level': {
    type: 'text',
    value: 'LEVEL',
    help: 'least severe level that is logged',
    choices: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    defaults: { extract: 'silent', run: 'info' },
  },
} as const satisfies Record<string, OptionEntry>

type OwnTable = typeof ownTable

/** The options that are secrets. */
export type SecretName = {
  [N in keyof OwnTable]: OwnTable[N] extends { readonly secret: true } ? N : never
}[keyof OwnTable]

type FileName<N extends SecretName> = `${N}-file`
type FileEntry = OptionEntry & { readonly type: 'text' }

/** The option that names the file of a secret. */
export const fileOption = <N extends SecretName>(name: N): FileName<N> => `${name}-file`

export const secretNames = Object.keys(ownTable).filter(isSecret)

/** Whether an option is a secret. */
export function isSecret(name: string): name is SecretName {
  const entry: OptionEntry | undefined = ownTable[name as keyof OwnTable]
  return entry?.secret === true
}

/** Every option; each secret is followed by the option that names its file. */
export const optionTable = Object.fromEntries(
  Object.entries<OptionEntry>(ownTable).flatMap(([name, entry]): [string, OptionEntry][] =>
    isSecret(name) ? [[name, entry], fileEntry(name)] : [[name, entry]],
  ),
) as OwnTable & Readonly<Record<FileName<SecretName>, FileEntry>>

function fileEntry(name: SecretName): [string, OptionEntry] {
  const help = `file that contains the value of --${name}; read again when it changes`
  return [fileOption(name), { type: 'text', value: 'FILE', help }]
}

export type OptionName = keyof typeof optionTable

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

/** The defaults as text: `none for extract, subgraph for run`. Empty when commands do not differ. */
export function defaultsText({ defaults = {} }: OptionEntry): string {
  return Object.entries(defaults)
    .map(([command, value]) => `${value} for ${command}`)
    .join(', ')
}

/** The values of all options; undefined when none is given and there is no default. */
export type Options = {
  readonly [N in OptionName]: (typeof optionTable)[N] extends { readonly default: unknown }
    ? ValueOf<(typeof optionTable)[N]>
    : ValueOf<(typeof optionTable)[N]> | undefined
}
