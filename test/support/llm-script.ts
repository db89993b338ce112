// What the scripted model server says: rules matched in order against the prompt, and the knobs of the server.
// The same form comes from YAML, from JSON or as an object; only an object may hold functions and regular expressions.
import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { type ExtractionKind, extractionReply, guessExtraction } from './llm-extraction.ts'

/** How a call can be refused, or a reply spoiled. */
export type Refusal =
  | 'unauthorized' // 401
  | 'forbidden' // 403
  | 'model-unknown' // 404, model_not_found
  | 'rate-limit' // 429 with Retry-After
  | 'quota' // 429, insufficient_quota
  | 'server-error' // 500
  | 'loading' // 503, the model is being loaded
  | 'context' // 400, context_length_exceeded
  | 'invalid' // 400
  | 'hang' // nothing is ever answered
  | 'reset' // the connection is cut before the first byte
  | 'html' // 200 with a page of HTML
  | 'malformed' // 200, an event stream whose events are no JSON
  | 'stream-error' // an error inside the event stream, after half of the reply
  | 'cut' // the connection is cut after half of the reply
  | 'eof' // the event stream ends properly after half of the reply, without finish_reason and [DONE]
  | 'stall' // silence after half of the reply

export interface Reply {
  readonly text?: string
  /** `text` is written this many times. Default 1. */
  readonly repeat?: number
  /** The deltas, exactly. Default: `text` in tokens of 4 characters. */
  readonly pieces?: readonly string[]
  /** Sent before the content, as deltas of `reasoning_content`. */
  readonly reasoning?: string
  /** Default `stop`, or `length` where the reply was cut. */
  readonly finish?: string
  /** Cut the reply after this many tokens, with finish_reason `length`. */
  readonly truncateAfter?: number
  readonly refuse?: Refusal
  /** Refuse (cut, eof, stall, stream-error) after this many tokens. Default: half of them. */
  readonly refuseAfter?: number
  /** Sent verbatim as usage; false: none is reported. Default: what was counted. */
  readonly usage?: unknown
  readonly latencyMs?: number
  readonly tokensPerSecond?: number
}

/** What a rule, or a function of a test, sees of a call. */
export interface Call {
  /** 1 for the first call that this rule answers. */
  readonly number: number
  /** The text of the last user message. */
  readonly prompt: string
  /** All messages, joined by blank lines. */
  readonly conversation: string
  readonly body: Readonly<Record<string, unknown>>
}

export type Answer = string | Reply

export interface Rule {
  /** A substring, `/a regular expression/flags`, or a RegExp. Default: every call. */
  readonly match?: string | RegExp
  /** Where `match` looks: the last user message, or all messages. Default `last`. */
  readonly in?: 'last' | 'all'
  /** One reply for every call, or a list for the 1st, 2nd, … of them, the last one for all that follow. */
  readonly reply?: Answer | readonly Answer[] | ((call: Call) => Answer | Promise<Answer>)
  /** Reply with `extractionReply` of this kind. */
  readonly extract?: ExtractionKind
  /** The rule answers only this many calls. Default: all. */
  readonly times?: number
}

/** The default for every call; all can be changed while the server is up. */
export interface Knobs {
  /** Milliseconds before the first byte. Default 0. */
  readonly latencyMs?: number
  /** Default: all at once. */
  readonly tokensPerSecond?: number
  /** Refuse calls whatever the rules say: the first N of them, each Nth, or all. */
  readonly refuse?: { readonly kind: Refusal; readonly first?: number; readonly every?: number }
  /** What `rate-limit` and the limits below say in Retry-After, in seconds; a string is sent verbatim. Default 1. */
  readonly retryAfter?: number | string
  /** Parameters refused with a 400 that names them. */
  readonly unsupported?: readonly string[]
  /** The key that must be sent. Default: any, or none. */
  readonly apiKey?: string
  /** The models listed; when given, others are refused. Default: `test-model` is listed, any is taken. */
  readonly models?: readonly string[]
  /** Prompts of more tokens than this are refused with 400. */
  readonly contextTokens?: number
  /** More calls at once than this are refused with 429. */
  readonly maxConcurrent?: number
  /** Calls and tokens (prompt and reply) per window; over them 429. The window slides. */
  readonly maxRequests?: number
  readonly maxTokens?: number
  /** Default 60,000. */
  readonly windowMs?: number
  /** Where the chunk's text is found in a prompt: a regular expression whose group 1 is the text. Default: see `chunkOf`. */
  readonly chunk?: string
}

export interface LlmScript extends Knobs {
  readonly rules?: readonly Rule[]
}

/** A script from a YAML or JSON file. */
export async function readScript(path: string): Promise<LlmScript> {
  return (parse(await readFile(path, 'utf8')) ?? {}) as LlmScript
}

function pattern(match: string | RegExp): RegExp | string {
  if (match instanceof RegExp) return match
  const written = /^\/(.*)\/([a-z]*)$/s.exec(match)
  return written ? new RegExp(written[1]!, written[2]) : match
}

function matches(where: string, match: RegExp | string): boolean {
  return typeof match === 'string' ? where.includes(match) : where.search(match) >= 0
}

/** Gives the answer to a call: that of the first rule that matches, else an extraction, else `OK`. */
export function answerer(script: LlmScript): (call: Omit<Call, 'number'>) => Promise<Reply> {
  const rules = (script.rules ?? []).map((rule) => ({
    rule,
    calls: 0,
    match: rule.match === undefined ? '' : pattern(rule.match),
  }))
  return async (call) => {
    const found = rules.find(
      ({ rule, calls, match }) =>
        calls < (rule.times ?? Number.POSITIVE_INFINITY) &&
        matches(rule.in === 'all' ? call.conversation : call.prompt, match),
    )
    if (!found) return { text: byDefault(call.prompt, script.chunk) }
    found.calls += 1
    const { reply, extract } = found.rule
    if (extract) return { text: extractionReply(extract, chunkOf(call.prompt, script.chunk)) }
    return asReply(await pick(reply ?? 'OK', { ...call, number: found.calls }))
  }
}

function pick(reply: NonNullable<Rule['reply']>, call: Call): Answer | Promise<Answer> {
  if (typeof reply === 'function') return reply(call)
  if (!Array.isArray(reply)) return reply as Answer
  return (reply as readonly Answer[])[Math.min(call.number, reply.length) - 1] ?? ''
}

function asReply(answer: Answer): Reply {
  return typeof answer === 'string' ? { text: answer } : answer
}

function byDefault(prompt: string, chunk: string | undefined): string {
  const text = chunkOf(prompt, chunk)
  const kind = guessExtraction(text === prompt.trim() ? prompt : prompt.replace(text, () => ''))
  return kind ? extractionReply(kind, text) : 'OK'
}

/** The text that a prompt speaks of: group 1 of `chunk`, what `<text>` holds, what follows `Text:`, or the whole prompt. */
export function chunkOf(prompt: string, chunk?: string): string {
  const found = chunk
    ? new RegExp(chunk, 's').exec(prompt)
    : (/<text>\s*(.*)<\/text>/s.exec(prompt) ?? /(?:^|\n)text:\s*(.*)/is.exec(prompt))
  return (found?.[1] ?? prompt).trim()
}
