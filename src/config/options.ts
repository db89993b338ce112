// Every option of graphmill in one table. An option is a flag, an environment variable (GRAPHMILL_ and the name in capitals)
// and a key of the configuration file. A flag overrides the environment, which overrides the file, which overrides the default.
import { answerModes, configuredOrLocal, localProvider, modeHints, providerNames } from './models.ts'
import type { Secret } from './secret.ts'

export interface OptionEntry {
  readonly type: 'text' | 'count' | 'number' | 'flag' | 'list'
  /** The placeholder after the flag in the help. */
  readonly value?: string
  readonly help: string
  readonly default?: string | number | boolean | readonly string[]
  /** The default by command, when commands differ. Without `default`, the value is undefined unless one is given. */
  readonly defaults?: Readonly<Record<string, string>>
  readonly choices?: readonly string[]
  /** What the error says about a value that is no choice, beginning with a space. Default: the most similar choice. */
  readonly hints?: Readonly<Record<string, string>>
  /**
   * Never shown, neither by `graphmill config` nor in logs. Every secret also has the option `<name>-file`, which names a
   * file that contains it; that option needs no entry here.
   */
  readonly secret?: true
  /** An address that may contain credentials, as in `http://user:password@host`; they are not shown either. */
  readonly address?: true
  /** For a secret: it may contain characters that an HTTP header does not allow. */
  readonly anyText?: true
  /** For a list: an item may contain commas, because the option is repeated for each. */
  readonly repeated?: true
  /** The smallest count. Default 1. */
  readonly least?: number
  /** The largest count. Default: no limit. */
  readonly most?: number
}

/** A week in seconds. Node's timers take 24 days at most and treat a longer time as 1 ms. */
export const longestWait = 604_800

type Extra = Partial<Omit<OptionEntry, 'type' | 'value' | 'help'>>

/** Makes the entries of one type. The literal types of `extra` decide the type of the option's value. */
const entryOf =
  <T extends OptionEntry['type']>(type: T) =>
  <const E extends Extra = Record<never, never>>(value: string, help: string, extra?: E) =>
    ({ type, value, help, ...extra }) as {
      readonly type: T
      readonly value: string
      readonly help: string
    } & E

const text = entryOf('text')
const count = entryOf('count')
const number = entryOf('number')
const list = entryOf('list')
const flag = (help: string) => ({ type: 'flag', help, default: false }) as const
const secret = <const E extends Extra = Record<never, never>>(value: string, help: string, extra?: E) =>
  text(value, help, { ...(extra as E), secret: true as const })

const ownTable = {
  config: text('FILE', 'configuration file (YAML or JSON); graphmill.yaml if it exists'),
  // broker and topics
  broker: text('URL', 'kafka://host:port[,host:port], pulsar://host:port or pulsar+ws://host:port', {
    address: true,
  }),
  space: text('NAME', 'first part of all topic names', { default: 'gm' }),
  workspace: text('NAME', 'workspace', { default: 'default' }),
  flow: text('NAME', 'flow', { default: 'default' }),
  collection: text('NAME', 'collection of the triples', { default: 'default' }),
  tls: flag('use TLS to Kafka with the system certificates'),
  'tls-ca': text('FILE', 'certificate authority of the broker (PEM); implies --tls'),
  'tls-cert': text('FILE', 'client certificate (PEM)'),
  'tls-key': text('FILE', 'client key (PEM)'),
  'sasl-mechanism': text('NAME', 'SASL mechanism for Kafka', {
    choices: ['plain', 'scram-sha-256', 'scram-sha-512'],
  }),
  'sasl-username': text('NAME', 'SASL user name'),
  'sasl-password': secret('TEXT', 'SASL password; prefer GRAPHMILL_SASL_PASSWORD', { anyText: true }),
  'session-timeout': count(
    'SECONDS',
    'Kafka gives the work of a process without heartbeats to others after this time',
    {
      default: 8,
      least: 6,
      most: 1800,
    },
  ),
  'group-instance-id': text(
    'NAME',
    "Kafka's group.instance.id: a process that is killed and started again with it within --session-timeout gets its partitions back at once; each process needs its own",
  ),
  'context-key': secret(
    'KEY[,KEY]',
    'keys for the requests of extractors: the first one signs, all are accepted; `unsigned` also accepts requests without a signature',
    { anyText: true },
  ),
  'schema-registry': text(
    'URL',
    "schema registry with Confluent's API; messages are then written in Confluent's format",
    { address: true },
  ),
  'pulsar-token': secret('TEXT', 'token for Pulsar; prefer GRAPHMILL_PULSAR_TOKEN'),
  'pulsar-admin': text(
    'URL',
    'admin API of Pulsar for pulsar:// and pulsar+ssl://; by default port 8080 of the same host, and 8443 with TLS',
    { address: true },
  ),
  'pulsar-oauth-issuer': text('URL', 'OAuth2 server that gives Pulsar tokens for client credentials', {
    address: true,
  }),
  'pulsar-oauth-client-id': text('NAME', 'OAuth2 client'),
  'pulsar-oauth-client-secret': secret(
    'TEXT',
    'OAuth2 client secret; prefer GRAPHMILL_PULSAR_OAUTH_CLIENT_SECRET',
    { anyText: true },
  ),
  'pulsar-oauth-audience': text('TEXT', 'OAuth2 audience, if the server wants one'),
  'pulsar-oauth-scope': text('TEXT', 'OAuth2 scope, if the server wants one'),
  // model
  llm: text(
    'PROVIDER',
    `model provider; \`${configuredOrLocal}\`: the server that is configured, or \`${localProvider}\` when neither a server nor a model is`,
    { choices: [...providerNames, configuredOrLocal] },
  ),
  model: text('NAME', 'model; optional if the server has only one'),
  'llm-timeout': count('SECONDS', 'maximum time without data from the model server', {
    default: 120,
    most: longestWait,
  }),
  'llm-call-timeout': count(
    'SECONDS',
    'maximum time for one model call; a reply that has not ended by then counts as cut off',
    { default: 600, most: longestWait },
  ),
  temperature: number(
    'NUMBER',
    'sampling temperature, unless the prompt sets its own; not sent if neither does',
  ),
  'num-ctx': count('TOKENS', 'context length to request from Ollama', { default: 8192 }),
  'output-mode': text(
    'MODE',
    'how to ask the model for JSON, unless the prompt says so; by default chosen for the server',
    { choices: answerModes, hints: modeHints },
  ),
  concurrency: count('N', 'maximum concurrent model calls', { default: 64 }),
  'requests-per-minute': count('N', 'maximum model calls per minute'),
  'tokens-per-minute': count('N', 'maximum tokens per minute, prompts and replies together'),
  'limit-scope': text(
    'SCOPE',
    'what shares these limits, those of them that are set: each replica has its own, or all replicas of a workspace, or all',
    { choices: ['replica', 'workspace', 'all'], default: 'replica' },
  ),
  budget: text(
    'AMOUNT/PERIOD',
    'most that calls may cost in a day or month (UTC), by --prices, as in `20/day`, or in tokens, as in `5000000tokens/month`; needs --limit-scope',
  ),
  prompts: list('FILE|DIR', 'prompts that override the built-in ones; may be repeated', { default: [] }),
  ontologies: list('FILE|DIR', 'ontologies in Turtle, RDF/XML, JSON-LD or JSON; may be repeated', {
    default: [],
  }),
  'ontology-budget': count('TOKENS', 'maximum tokens of a prompt for ontologies', { default: 2000 }),
  embeddings: text(
    'URL',
    'embeddings endpoint (/v1/embeddings or /api/embed) for selecting ontology elements; without it, words are compared',
    { address: true },
  ),
  'embeddings-model': text('NAME', 'model of the embeddings endpoint'),
  'embeddings-key': secret('TEXT', 'key for the embeddings endpoint; prefer GRAPHMILL_EMBEDDINGS_KEY'),
  'cache-dir': text('DIR', "folder of the caches; by default the system's cache folder"),
  'no-cache': flag('ask the model again even if its reply is cached'),
  'cache-size': count('MIB', 'maximum size of the reply cache', { default: 1024 }),
  'cache-days': count('N', 'days that replies stay in the cache', { default: 30 }),
  'max-continuations': count('N', 'maximum continuations of a reply that stopped at the token limit', {
    default: 3,
    least: 0,
  }),
  'max-calls': count('N', 'maximum model calls for one prompt', { default: 8 }),
  prices: list(
    'MODEL=IN/OUT',
    'prices of a model per million prompt tokens and per million reply tokens; may be repeated',
    { default: [] },
  ),
  'dry-run': flag(
    'only print what would be done: the chunks, estimated tokens and estimated cost of `extract`, the documents of `remove`, the messages of `erase`',
  ),
  resume: flag('use cached replies and ask the model only for the rest'),
  'max-cost': text('AMOUNT', 'stop before the cost, by --prices, exceeds this amount'),
  // extraction
  extractors: list('A,B', 'what to extract', {
    default: ['definitions', 'relationships', 'topics'],
    defaults: { eval: 'those for the kinds in the gold files' },
  }),
  schemas: list('FILE|DIR', 'row schemas, one for each table to extract; may be repeated', { default: [] }),
  provenance: text(
    'HOW',
    'whether to add triples that say where facts come from; with an HTML page, by default `subgraph`',
    {
      choices: ['none', 'subgraph'],
      defaults: { extract: 'none', run: 'subgraph' },
    },
  ),
  ungrounded: text('HOW', 'whether facts that do not stand in the text are kept and marked, or rejected', {
    choices: ['keep', 'reject'],
    default: 'keep',
  }),
  'chunk-size': count('N', 'characters per chunk', { default: 2000 }),
  'chunk-overlap': count('N', 'characters that neighbouring chunks share', { default: 100, least: 0 }),
  'document-timeout': count(
    'SECONDS',
    'maximum time to read one PDF or HTML file, to fetch a URL, or to read the ontologies',
    {
      default: 60,
      most: longestWait,
    },
  ),
  'document-memory': count('MIB', 'maximum memory for reading one PDF or HTML file, or the ontologies', {
    default: 1024,
    least: 128,
  }),
  base: text(
    'FOLDER',
    'folder below which the path of a file is its id; by default the folder that was named, or that of the file',
  ),
  'text-retention': count(
    'DAYS',
    'how long the topics with texts and facts, and their dead letters, keep messages; for topics that are created. By default forever, replies for 7 days',
    { most: 36_500 },
  ),
  replace: text('WHEN', 'when a new version of a document replaces the one before', {
    choices: ['done', 'partial'],
    default: 'done',
  }),
  'follow-links': flag('also read files that links in a folder point to outside of it'),
  // output
  format: text(
    'FORMAT',
    'file format of the output; by default that of the extension of --out. jsonld, dot and html, a page with a drawing, are for extract',
    {
      choices: ['nquads', 'trig', 'turtle', 'jsonl', 'jsonld', 'dot', 'html'],
      default: 'nquads',
    },
  ),
  out: list(
    'PATH',
    'where to write triples: for extract a file, may be repeated (default: standard output), for run a folder',
    { repeated: true, defaults: { run: 'triples', 'prompts import': 'prompts' } },
  ),
  rows: text('DIR', 'folder for rows: one file for each table; `run` appends to them'),
  'rows-format': text('FORMAT', 'format of the files of rows', {
    choices: ['csv', 'jsonl'],
    default: 'csv',
  }),
  summary: text('FILE', 'where `extract` writes its summary as JSON'),
  'rdf-star': flag('write quoted triples to files as RDF 1.2 triple terms instead of reification'),
  store: text('URL', 'SPARQL endpoint to write triples to instead of files; may contain user:password@', {
    address: true,
  }),
  'store-protocol': text('NAME', 'protocol of the endpoint: SPARQL 1.1 Update or the Graph Store Protocol', {
    choices: ['update', 'graph-store'],
    default: 'update',
  }),
  'store-token': secret('TEXT', 'bearer token for the endpoint; prefer GRAPHMILL_STORE_TOKEN'),
  limit: count('N', 'extract only the first N chunks'),
  json: flag('print JSON instead of text: one object per line, for `extract` the summary, besides its text'),
  'strict-exit': flag('exit with 3 if any item was rejected'),
  // operation
  flows: text('FILE', 'file that lists the workspaces and flows; read again when it changes'),
  http: text(
    'HOST:PORT',
    'address that serves /healthz, /readyz, /metrics and /status.json; `off` to serve none',
    { default: '127.0.0.1:8000' },
  ),
  'http-names': list(
    'NAME',
    'host names accepted in HTTP requests, besides localhost and IP addresses; may be repeated',
    { default: [] },
  ),
  watchdog: count('SECONDS', 'end the process when its main thread is blocked for this long; 0 for never', {
    default: 60,
    least: 0,
    most: longestWait,
  }),
  drain: text('HOW', 'on SIGTERM: finish work in flight, or abort it', {
    choices: ['graceful', 'now'],
    default: 'graceful',
  }),
  'trace-payload': flag('record prompts and replies in the spans of model calls, up to 64 KiB each'),
  'log-level': text('LEVEL', 'minimum level of log messages', {
    choices: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    defaults: { extract: 'silent', eval: 'silent', run: 'info' },
  }),
} satisfies Record<string, OptionEntry>

/** The headings of the options in the help of a command: each stands before the option of its name and those after it in the table. */
const headings: Readonly<Record<string, string>> = {
  config: 'Options',
  broker: 'Broker',
  llm: 'Model',
  extractors: 'Extraction',
  format: 'Output',
  flows: 'Operation',
}

/** The heading of an option in the help. */
export function headingOf(name: OptionName): string {
  const own = name.replace(/-file$/, '')
  const names = Object.keys(ownTable)
  const before = names.slice(0, names.indexOf(Object.hasOwn(ownTable, name) ? name : own) + 1)
  return headings[before.findLast((each) => Object.hasOwn(headings, each)) ?? ''] ?? 'Options'
}

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
