// Every error that graphmill raises on purpose, in one table: its code, when to try again and what the operator can do.
// docs/errors.md lists the same codes; a test compares them.
import { redact, redactAll } from './redact.ts'

/**
 * When the same attempt may succeed:
 * `never` (the input is at fault), `later` (something is away: try again for as long as it lasts),
 * `operator` (a person must mend something first: pause loudly under `run`, end a one-shot command).
 */
export type Retry = 'never' | 'later' | 'operator'

interface Entry {
  readonly retry: Retry
  /** What it ends, where that is no message: the command (or the change that a `run` would take up), or a document on its way in. */
  readonly ends?: 'command' | 'document'
  /** One sentence: what the operator can do. */
  readonly remedy: string
}

const table = {
  // messages
  bytes_undecodable: {
    retry: 'never',
    remedy: 'See who writes to this topic: the bytes are not an Avro message of the expected type.',
  },
  schema_unknown: {
    retry: 'never',
    remedy: 'Let the writer publish its schema to the schemas topic or the registry, or upgrade this reader.',
  },
  message_too_large: {
    retry: 'never',
    remedy: 'Send less than 700 KiB a message; `load` cuts long documents by itself.',
  },
  message_invalid: { retry: 'never', remedy: 'Mend the sender: the message does not fit its schema.' },
  deadline_exceeded: {
    retry: 'never',
    remedy:
      'See with `graphmill topics lag` whether requests wait for a processor; else send it again with a later deadline.',
  },
  message_misplaced: {
    retry: 'never',
    remedy: 'Fix the sender: each topic takes one type of message.',
  },
  message_empty: {
    retry: 'never',
    remedy:
      'Fix the sender: the record has no value, which removes a key from a compacted topic and nothing else.',
  },
  reply_topic_missing: {
    retry: 'never',
    remedy:
      'Nothing, if its client has left; else make the topic that replyTo names, then replay the dead letter.',
  },
  reply_topic_refused: {
    retry: 'never',
    remedy:
      'Use a response topic of the same workspace and flow as replyTo, and let this process write to it; then replay the dead letter.',
  },
  context_too_large: {
    retry: 'never',
    remedy:
      'Send at most 4 KiB of context, its names and values together in UTF-8; keep the rest where the request comes from.',
  },
  context_unsigned: {
    retry: 'never',
    remedy:
      'When a processor has asked it, give all its replicas the same --context-key and replay the dead letter; else see who may write requests.',
  },
  killed_process: {
    retry: 'never',
    remedy:
      'See why processes died with it: their last log lines, exit code 134 (out of memory, or the watchdog) or 137 (the memory limit of the container). Then replay the dead letter.',
  },
  registry_unavailable: {
    retry: 'later',
    remedy: 'Check that the schema registry is up and that --schema-registry names it.',
  },
  registry_refused: {
    retry: 'operator',
    remedy: 'See the message of the registry: its compatibility rules or its permissions refuse us.',
  },
  // connections
  certificate_refused: {
    retry: 'operator',
    remedy:
      'As the message says: trust its authority with NODE_EXTRA_CA_CERTS=file.pem (for the broker --tls-ca), renew the certificate, or use the address that it names.',
  },
  tls_failed: {
    retry: 'operator',
    remedy:
      'Check that the port speaks TLS (else write http instead of https, or leave --tls out), and whether the server asks for a certificate of this client.',
  },
  proxy_refused: {
    retry: 'operator',
    remedy:
      'Check user and password in HTTPS_PROXY or HTTP_PROXY and what the proxy lets through, or name the host in NO_PROXY.',
  },
  proxy_failed: {
    retry: 'later',
    remedy:
      'Check that the proxy that HTTPS_PROXY or HTTP_PROXY names reaches the server, or name the host in NO_PROXY.',
  },
  // broker
  broker_unavailable: { retry: 'later', remedy: 'Check that the broker is up and that --broker names it.' },
  broker_url_invalid: {
    retry: 'never',
    ends: 'command',
    remedy: 'Use kafka://host:port[,host:port] or pulsar+ws://host:port.',
  },
  broker_refused: { retry: 'operator', remedy: 'Check the credentials and permissions for the broker.' },
  topic_refused: {
    retry: 'operator',
    remedy:
      'Give this process its permissions on the topic (or, on Pulsar, the namespace) that the message names; docs/permissions.md lists them.',
  },
  topic_missing: { retry: 'never', remedy: 'Create the topic with `graphmill topics create`.' },
  flow_unknown: {
    retry: 'never',
    ends: 'command',
    remedy: 'Name one with --workspace and --flow; `graphmill topics create` makes the topics of a new one.',
  },
  topic_name_invalid: {
    retry: 'never',
    ends: 'command',
    remedy:
      'Use only a-z, 0-9, _ and - in the parts of a topic name; to Kafka two names that differ only in . and _ are one.',
  },
  // prompts
  prompt_unknown: { retry: 'never', remedy: 'Name a prompt that `graphmill check` lists.' },
  prompt_invalid: {
    retry: 'never',
    ends: 'command',
    remedy: 'Mend the prompt file; `graphmill check` shows the place.',
  },
  prompt_render_failed: { retry: 'never', remedy: 'Give every term that the template names.' },
  reply_unfit: {
    retry: 'never',
    remedy: 'Give the prompt of an extractor the response-type jsonl, or json for an array of items.',
  },
  terms_invalid: { retry: 'never', remedy: 'Send every term as JSON text; a plain string needs quotes.' },
  schema_invalid: { retry: 'never', ends: 'command', remedy: 'Mend the JSON Schema at the place named.' },
  row_schema_invalid: {
    retry: 'never',
    ends: 'command',
    remedy: 'Mend the row schema file; `graphmill check` shows the place.',
  },
  row_schema_unknown: {
    retry: 'never',
    remedy: 'Configure the row schema again with --schemas, then replay the dead letter.',
  },
  reply_not_json: {
    retry: 'never',
    remedy: 'Ask for JSON more plainly in the prompt, or use a model that follows instructions.',
  },
  reply_schema_failed: {
    retry: 'never',
    remedy: 'Show the model the schema in the prompt, or loosen the schema.',
  },
  // model
  llm_unavailable: {
    retry: 'later',
    remedy: 'Check that the model server is up and that OPENAI_BASE_URL (or OLLAMA_HOST) names it.',
  },
  llm_rate_limited: {
    retry: 'later',
    remedy: 'Lower --concurrency, or ask the provider for a higher limit.',
  },
  llm_model_loading: { retry: 'later', remedy: 'Wait until the server has loaded the model.' },
  llm_authentication: { retry: 'operator', remedy: 'Set OPENAI_API_KEY to a key that the server accepts.' },
  llm_model_unknown: { retry: 'operator', remedy: 'Name a model that the server has, with --model.' },
  llm_address_wrong: {
    retry: 'operator',
    remedy:
      'Set OPENAI_BASE_URL to what stands before /chat/completions, which often ends in /v1; OLLAMA_HOST to host and port only.',
  },
  llm_quota_exhausted: { retry: 'operator', remedy: 'Add credit to the account, or use another key.' },
  llm_request_invalid: { retry: 'never', remedy: 'See the message of the server: it refused the request.' },
  llm_call_too_long: {
    retry: 'never',
    remedy: 'Raise --llm-call-timeout, lower max-tokens of the prompt, or use smaller chunks (--chunk-size).',
  },
  reply_too_large: {
    retry: 'never',
    remedy: 'Use another model or server: no honest reply is so large.',
  },
  llm_response_invalid: {
    retry: 'never',
    remedy: 'Check that the address is that of an OpenAI-compatible server.',
  },
  context_overflow: {
    retry: 'never',
    remedy:
      'Use smaller chunks (--chunk-size) or a model with a larger context; only a jsonl prompt has its text split.',
  },
  item_too_long: {
    retry: 'never',
    remedy: 'Raise max-tokens of the prompt, or use a model that may write longer replies.',
  },
  reasoning_too_long: {
    retry: 'never',
    remedy: 'Raise max-tokens of the prompt, or let the model think less.',
  },
  calls_exhausted: {
    retry: 'never',
    remedy: 'Use smaller chunks (--chunk-size), or allow more calls a run with --max-calls.',
  },
  cost_limit_reached: { retry: 'never', remedy: 'Raise --max-cost and run again with --resume.' },
  offline_unsupported: {
    retry: 'never',
    remedy: 'Use a real model for this prompt: set OPENAI_BASE_URL and OPENAI_API_KEY.',
  },
  llm_not_configured: {
    retry: 'operator',
    ends: 'command',
    remedy:
      'Set OPENAI_BASE_URL (and OPENAI_API_KEY) or OLLAMA_HOST, and name a model with --model; or choose --llm offline.',
  },
  // ontologies
  ontology_invalid: {
    retry: 'never',
    ends: 'command',
    remedy: 'Mend the ontology at the place named; `graphmill check` shows all that is wrong.',
  },
  ontology_too_large: {
    retry: 'never',
    ends: 'command',
    remedy: 'If you trust the file, raise the option that the message names; else leave it out.',
  },
  ontology_context_remote: {
    retry: 'never',
    ends: 'command',
    remedy: 'Write the JSON-LD context into the file: no context is ever fetched.',
  },
  ontology_not_configured: { retry: 'operator', remedy: 'Name the ontology files with --ontologies.' },
  version_gone: {
    retry: 'never',
    remedy:
      'Replay the dead letter where that version of the ontologies is loaded, or extract the document again.',
  },
  embeddings_unavailable: {
    retry: 'later',
    remedy: 'Check that the embeddings server is up and that --embeddings names it.',
  },
  embeddings_refused: {
    retry: 'operator',
    remedy:
      'Check --embeddings, --embeddings-model and the key; without --embeddings words are compared instead.',
  },
  // formats
  record_invalid: {
    retry: 'never',
    ends: 'command',
    remedy: 'Mend the input at the line that the message names.',
  },
  // documents
  document_unreadable: {
    retry: 'never',
    ends: 'document',
    remedy: 'Check that the file exists and may be read.',
  },
  document_broken: {
    retry: 'never',
    ends: 'document',
    remedy: 'Open it in the program that made it and save it anew, or load another copy.',
  },
  document_too_large: {
    retry: 'never',
    ends: 'document',
    remedy:
      'If you trust the file, raise the option that the message names; else leave it out: small files that take so much are attacks.',
  },
  document_not_utf8: { retry: 'never', ends: 'document', remedy: 'Convert the file to UTF-8.' },
  document_encrypted: {
    retry: 'never',
    ends: 'document',
    remedy: 'Save a copy without a password, and load that.',
  },
  document_scanned: {
    retry: 'never',
    ends: 'document',
    remedy: 'Run text recognition (OCR) over it first: its pages are pictures.',
  },
  document_unsupported: {
    retry: 'never',
    ends: 'document',
    remedy: 'Convert it to text, Markdown, HTML or PDF.',
  },
  document_unknown: {
    retry: 'never',
    ends: 'command',
    remedy: 'Name a document that `graphmill status` lists; the processor `ledger` must run to know any.',
  },
  document_empty: { retry: 'never', ends: 'document', remedy: 'Give a document that holds text.' },
  // everything else
  configuration_invalid: {
    retry: 'operator',
    ends: 'command',
    remedy: 'Mend the option or file that the message names.',
  },
  usage: {
    retry: 'operator',
    ends: 'command',
    remedy: 'See `graphmill --help`, or `--help` behind the command.',
  },
  store_refused: {
    retry: 'operator',
    remedy: 'Check the address in --store, its credentials, and whether --store-protocol is what it takes.',
  },
  store_failed: {
    retry: 'later',
    remedy: 'Check the disk that --out or standard output leads to, or the store that --store names.',
  },
  output_failed: {
    retry: 'never',
    ends: 'command',
    remedy: 'Check where standard output goes to: its disk may be full.',
  },
  aborted: {
    retry: 'later',
    remedy: 'Run the command again to go on; under `run` the work is done again by itself.',
  },
  unexpected: { retry: 'never', remedy: 'Report it, with the cause: this is a defect in graphmill.' },
} as const satisfies Record<string, Entry>

export type ErrorCode = keyof typeof table

/** The whole table, for `docs/errors.md` and its test. */
export const errorTable: Readonly<Record<ErrorCode, Entry>> = table

export interface GraphmillErrorOptions {
  readonly cause?: unknown
  /** For rate limits: how long the server asks us to wait, in milliseconds. */
  readonly retryAfterMs?: number
  /** What is down, for the circuits: `llm:<provider> <model>` or `topic:<name>`. */
  readonly circuit?: string
  /** Facts for the reader of the error, such as a category, a place or a verbatim reply. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** An error with a code from the table. `message` is one sentence without the remedy. No secret stands in it, nor in its causes. */
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

/** Anything thrown, as a GraphmillError: coded errors as they are, aborts as `aborted`, the rest as `unexpected`. */
export function toGraphmillError(thrown: unknown): GraphmillError {
  if (thrown instanceof GraphmillError) return thrown
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  const aborted = thrown instanceof Error && (thrown.name === 'AbortError' || thrown.name === 'TimeoutError')
  return new GraphmillError(aborted ? 'aborted' : 'unexpected', message, { cause: thrown })
}
