// Every error that graphmill raises on purpose, in one table: its code, whether a retry can succeed, and what the operator can do.
// `npm run pages` writes docs/errors.md from this table; a test fails when the page is stale.
import { serverVariables } from './config/models.ts'
import { redact, redactAll } from './redact.ts'

/**
 * When the same attempt may succeed:
 * `never` (the input is at fault), `later` (something is unavailable: retry for as long as that lasts),
 * `operator` (a person must fix something first: `run` logs an error and pauses, a one-shot command ends).
 */
export type Retry = 'never' | 'later' | 'operator'

interface ErrorEntry {
  readonly retry: Retry
  /** What the error ends, unless that is a message: the command (or a configuration change that `run` then refuses), or the document being loaded. */
  readonly ends?: 'command' | 'document'
  /** What the operator can do, in one sentence. */
  readonly remedy: string
}

// One function per kind of error: when a retry can succeed, and what the error ends.
const never = (remedy: string): ErrorEntry => ({ retry: 'never', remedy })
const later = (remedy: string): ErrorEntry => ({ retry: 'later', remedy })
const operator = (remedy: string): ErrorEntry => ({ retry: 'operator', remedy })
const command = (remedy: string): ErrorEntry => ({ retry: 'never', ends: 'command', remedy })
const document = (remedy: string): ErrorEntry => ({ retry: 'never', ends: 'document', remedy })

function variablesOf(...kinds: readonly string[]): string {
  const named = Object.values(serverVariables).filter(({ holds }) => kinds.includes(holds))
  const names = named.map(({ variable }) => variable)
  // Intl.ListFormat would keep 4 MiB of ICU's data in the memory of every process.
  return `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}

const table = {
  // messages
  bytes_undecodable: never(
    'Check which program writes to this topic: the bytes are not an Avro message of the expected type.',
  ),
  schema_unknown: never(
    'Make the writer publish its schema to the schemas topic or the registry, or upgrade this reader.',
  ),
  message_too_large: never('Send messages of less than 700 KiB; `load` splits long documents by itself.'),
  message_invalid: never('Fix the sender: the message does not match its schema.'),
  deadline_exceeded: never(
    'Run `graphmill topics lag` to see whether requests wait for a processor; otherwise send the request again with a later deadline.',
  ),
  message_misplaced: never('Fix the sender: each topic takes one type of message.'),
  message_empty: never(
    'Fix the sender: the record has no value. Only compacted topics use such records, to delete a key.',
  ),
  reply_topic_missing: never(
    'If the client has left, do nothing. Otherwise create the topic that replyTo names, then replay the dead letter.',
  ),
  reply_topic_refused: never(
    'Set replyTo to a response topic of the same workspace and flow, and let this process write to it; then replay the dead letter.',
  ),
  context_too_large: never(
    'Send at most 4 KiB of context (names and values together, in UTF-8); keep the rest in the client.',
  ),
  context_unsigned: never(
    'If one of your processors sent the request, give all its replicas the same --context-key and replay the dead letter. Otherwise check which programs may write requests.',
  ),
  killed_process: never(
    'Find out why processes died while they handled it: see their last log lines, exit code 134 (out of memory, or the watchdog) or 137 (the memory limit of the container, or the liveness probe). Then replay the dead letter.',
  ),
  registry_unavailable: later('Check that the schema registry is up and that --schema-registry names it.'),
  registry_refused: operator(
    'See the message of the registry: its compatibility rules or its permissions refuse this process.',
  ),
  // connections
  certificate_refused: operator(
    'Do what the message suggests: trust the authority with NODE_EXTRA_CA_CERTS=file.pem (for the broker: --tls-ca), renew the certificate, or use the address that it names.',
  ),
  tls_failed: operator(
    'Check that the port speaks TLS (if it does not, write http instead of https, or leave --tls out), and whether the server asks for a client certificate.',
  ),
  proxy_refused: operator(
    'Check the user and password in HTTPS_PROXY or HTTP_PROXY and which hosts the proxy allows, or name the host in NO_PROXY.',
  ),
  proxy_failed: later(
    'Check that the proxy in HTTPS_PROXY or HTTP_PROXY reaches the server, or name the host in NO_PROXY.',
  ),
  // broker
  broker_unavailable: later('Check that the broker is up and that --broker names it.'),
  broker_url_invalid: command(
    'Use kafka://host:port[,host:port], pulsar://host:port or pulsar+ws://host:port.',
  ),
  pulsar_client_missing: command(
    'Install it with `npm install pulsar-client`, or use pulsar+ws://host:port, which needs no module.',
  ),
  broker_refused: operator(
    'Check the credentials and permissions for the broker, or what else the message names.',
  ),
  topic_refused: operator(
    'Give this process its permissions on the topic (on Pulsar: or the namespace) that the message names; docs/permissions.md lists them.',
  ),
  topic_missing: never('Create the topic with `graphmill topics create`.'),
  flow_unknown: command(
    'Name an existing flow with --workspace and --flow; `graphmill topics create` creates the topics of a new one.',
  ),
  topic_name_invalid: command(
    'Use only a-z, 0-9, _ and - in the parts of a topic name. Kafka treats two names that differ only in . and _ as the same.',
  ),
  // prompts
  prompt_unknown: never('Name a prompt that `graphmill check` lists.'),
  prompt_invalid: command('Fix the prompt file; `graphmill check` shows where.'),
  prompt_render_failed: never('Send every term that the template uses.'),
  reply_unfit: never(
    'In the prompt of an extractor, set response-type to jsonl, or to json for an array of items.',
  ),
  terms_invalid: never('Send every term as JSON text; a plain string needs quotes.'),
  schema_invalid: command('Fix the JSON Schema at the place that the message names.'),
  gold_invalid: command(
    'Fix the line of the gold file that the message names; docs/evaluation.md describes the format.',
  ),
  report_unfit: command(
    'Give --compare the output of `graphmill eval --format json` for the same gold files.',
  ),
  row_schema_invalid: command('Fix the row schema file; `graphmill check` shows where.'),
  row_schema_unknown: never('Add the row schema with --schemas again, then replay the dead letter.'),
  reply_not_json: never(
    'Ask for JSON more clearly in the prompt, or use a model that follows instructions better.',
  ),
  repetition: never(
    'Use another model, or set a repetition or frequency penalty; the same request would loop again.',
  ),
  reply_schema_failed: never('Show the schema to the model in the prompt, or relax the schema.'),
  // model
  llm_unavailable: later(
    `Check that the model server is up and that its variable names it: ${variablesOf('address')}.`,
  ),
  llm_rate_limited: later('Lower --concurrency, or ask the provider for a higher limit.'),
  budget_exhausted: later(
    'Wait for the next day or month, or restart all processes with a larger --budget. Calls go on by themselves.',
  ),
  llm_model_loading: later('Wait until the server has loaded the model.'),
  llm_authentication: operator(`Set the key of the server to one that it accepts: ${variablesOf('secret')}.`),
  llm_model_unknown: operator('Name a model that the server has, with --model.'),
  llm_address_wrong: operator(
    'Set OPENAI_BASE_URL to the part of the address before /chat/completions, which often ends in /v1; set OLLAMA_HOST to host and port only, ANTHROPIC_BASE_URL to the part before /v1/messages, GEMINI_BASE_URL to the part before /models, and AZURE_OPENAI_ENDPOINT to https://NAME.openai.azure.com.',
  ),
  llm_quota_exhausted: operator('Add credit to the account, or use another key.'),
  llm_request_invalid: never('See the message of the server, which refused the request.'),
  llm_prompt_blocked: never(
    "Read the text that the provider's filter blocked. Use other filter settings or another model, or leave the text out.",
  ),
  llm_call_too_long: never(
    'Raise --llm-call-timeout, lower max-tokens of the prompt, or use smaller chunks (--chunk-size).',
  ),
  reply_too_large: never('Use another model or server: no legitimate reply is this large.'),
  llm_response_invalid: never('Check that the address belongs to a server of the kind that --llm names.'),
  context_overflow: never(
    'Use smaller chunks (--chunk-size) or a model with a larger context. Only the text of a jsonl prompt is split.',
  ),
  item_too_long: never('Raise max-tokens of the prompt, or use a model that can write longer replies.'),
  reasoning_too_long: never('Raise max-tokens of the prompt, or make the model reason less.'),
  calls_exhausted: never('Use smaller chunks (--chunk-size), or allow more calls per run with --max-calls.'),
  cost_limit_reached: never('Raise --max-cost and run again with --resume.'),
  offline_unsupported: never('Use a real model for this prompt: set OPENAI_BASE_URL and OPENAI_API_KEY.'),
  llm_not_configured: {
    ...operator(
      `Set the address or key of a model server (${variablesOf('address', 'secret')}), and name a model with --model; or choose --llm offline.`,
    ),
    ends: 'command',
  },
  // ontologies
  ontology_invalid: command(
    'Fix the ontology at the place that the message names; `graphmill check` lists every problem.',
  ),
  ontology_too_large: command(
    'If you trust the file, raise the option that the message names; otherwise leave the file out.',
  ),
  ontology_context_remote: command(
    'Include the JSON-LD context in the file: graphmill never fetches a context.',
  ),
  ontology_not_configured: operator('Name the ontology files with --ontologies.'),
  version_gone: never(
    'Replay the dead letter while that version of the ontologies is loaded, or extract the document again.',
  ),
  embeddings_unavailable: later('Check that the embeddings server is up and that --embeddings names it.'),
  embeddings_refused: operator(
    'Check --embeddings, --embeddings-model and the key; without --embeddings, elements are selected by comparing words.',
  ),
  // formats
  record_invalid: command('Fix the input at the line that the message names.'),
  // documents
  document_unreadable: document('Check that the file or URL exists and that this user may read it.'),
  document_broken: document(
    'Open the file in the program that made it and save it again, or load another copy.',
  ),
  document_too_large: document(
    'If you trust the file, raise the option that the message names; otherwise leave the file out: a small file that needs this much may be an attack.',
  ),
  document_not_utf8: document('Convert the file to UTF-8.'),
  document_encrypted: document('Save a copy without a password, and load the copy.'),
  document_scanned: document('Run text recognition (OCR) on the file first: its pages are images.'),
  document_unsupported: document('Convert the file to text, Markdown, HTML or PDF.'),
  document_unknown: command(
    'Name a document that `graphmill status` lists. The processor `ledger` must run for documents to be listed.',
  ),
  erasure_refused: command(
    'Look at what would go with `graphmill erase --dry-run`, then repeat the command with --with-others.',
  ),
  document_empty: document('Load a document that contains text.'),
  // everything else
  configuration_invalid: { ...operator('Fix the option or file that the message names.'), ends: 'command' },
  configuration_unavailable: later(
    'Check that the configuration service of TrustGraph runs, and that this process may use its topics.',
  ),
  usage: { ...operator('See `graphmill --help`, or `graphmill <command> --help`.'), ends: 'command' },
  store_refused: operator(
    'Check the address in --store, its credentials, and that --store-protocol matches the endpoint.',
  ),
  store_cannot_withdraw: never(
    'Keep the triples in files, or in a SPARQL store with --store-protocol update. Then load the document again, or replay the dead letter.',
  ),
  store_failed: later('Check the disk that --out or standard output writes to, or the store in --store.'),
  output_failed: command('Check where standard output goes: the disk may be full.'),
  aborted: later('Run the command again to continue. `run` repeats the work by itself.'),
  extraction_incomplete: command(
    'See the events `failed`, and what the summary of the error says of its documents and units: it names what is missing and why.',
  ),
  unexpected: never('Report the error with its cause: this is a defect in graphmill.'),
} satisfies Record<string, ErrorEntry>

/** The code of an error; docs/errors.md lists them all. */
export type ErrorCode = keyof typeof table

/** The whole table, for `docs/errors.md` and its test. */
export const errorTable: Readonly<Record<ErrorCode, ErrorEntry>> = table

/** What else is known of an error. */
export interface GraphmillErrorOptions {
  readonly cause?: unknown
  /** For rate limits: how long the server asks the client to wait, in milliseconds. */
  readonly retryAfterMs?: number | undefined
  /** The circuit that this error opens: `llm:<provider> <destination> <model>` or `topic:<name>`. */
  readonly circuit?: string | undefined
  /** Further facts, such as a category, a place or the verbatim reply. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** An error with a code from the table. `message` is one sentence without the remedy. Secrets are removed from it and from its causes. */
export class GraphmillError extends Error {
  readonly code: ErrorCode
  readonly retryAfterMs: number | undefined
  readonly circuit: string | undefined
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: GraphmillErrorOptions = {}) {
    super(redact(message), options.cause === undefined ? undefined : { cause: redactAll(options.cause) })
    this.name = 'GraphmillError'
    this.code = code
    this.retryAfterMs = options.retryAfterMs
    this.circuit = options.circuit
    this.details = redactAll(options.details ?? {})
  }

  get retry(): Retry {
    return errorTable[this.code].retry
  }

  get remedy(): string {
    return errorTable[this.code].remedy
  }
}

/** Converts anything thrown to a GraphmillError: a GraphmillError is returned as it is, an abort becomes `aborted`, the rest `unexpected`. */
export function toGraphmillError(thrown: unknown): GraphmillError {
  if (thrown instanceof GraphmillError) return thrown
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  const aborted = thrown instanceof Error && (thrown.name === 'AbortError' || thrown.name === 'TimeoutError')
  return new GraphmillError(aborted ? 'aborted' : 'unexpected', message, { cause: thrown })
}
