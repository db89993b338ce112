// OpenArmature's published fixtures of the llm-provider capability, as they are read from a checkout of the specification. Every key
// must be known: a key that is not read is an error, so that no check of a fixture is dropped in silence.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { CallOptions, ProviderRequest } from '../../../src/complete/provider.ts'
import type { ReaskContext } from '../../../src/llm/structured-output/attempts.ts'
import type { Scripted } from '../../support/recording-server.ts'

export type Fields = Readonly<Record<string, unknown>>

export interface Fixture {
  /** The number and the rest of the file's name. */
  readonly name: string
  readonly groups: readonly Group[]
}

/** Calls to one provider on one server. */
export interface Group {
  readonly name: string
  /** The wire; without one in the fixture it is OpenAI's. */
  readonly mapping: string
  readonly server: MockServer
  readonly steps: readonly Step[]
  /** The indexes of the calls that must have sent the same bytes. */
  readonly identical: readonly number[]
}

export interface MockServer {
  readonly answers: readonly Scripted[]
  /** The answer to a probe of this path. */
  readonly health: { readonly path: string; readonly answer: Scripted } | undefined
  /** Undefined when the fixture leaves it open. */
  readonly native: boolean | undefined
}

/** One call and what is stated about it. */
export interface Step {
  readonly operation: 'complete' | 'ready'
  readonly request: ProviderRequest
  readonly options: CallOptions
  readonly expected: Expected
}

export interface Expected {
  readonly wire: Fields | undefined
  /** Keys that the body must not have. */
  readonly absent: readonly string[]
  readonly namesSchema: boolean
  readonly success: boolean
  readonly response: Fields | undefined
  readonly rawKeys: readonly string[]
  readonly raises: Raised | undefined
  readonly attempts: readonly SentAttempt[] | undefined
  readonly spans: readonly StatedSpan[] | undefined
  readonly calls: number | undefined
  readonly noTokens: boolean
  readonly invariants: readonly string[]
}

export interface Raised {
  readonly category: unknown
  /** What the server said. */
  readonly message: unknown
  readonly retryAfter: unknown
  readonly carries: Fields | undefined
}

export interface SentAttempt {
  readonly sampling: Fields | undefined
  readonly appended: readonly Fields[]
}

export interface StatedSpan {
  readonly index: unknown
  readonly attributes: Fields
  readonly absent: readonly string[]
  /** Null for a span without an error. */
  readonly category: unknown
}

/** The names and documents of the fixtures of a capability, in order of their numbers. */
export function readDocuments(checkout: string, capability: string): [string, unknown][] {
  const folder = join(checkout, 'spec', capability, 'conformance')
  const names = readdirSync(folder).filter((name) => name.endsWith('.yaml'))
  return names.sort().map((name) => [name.slice(0, -5), parse(readFileSync(join(folder, name), 'utf8'))])
}

export function readFixture(name: string, document: unknown): Fixture {
  const groups = read(document, name, (take) => {
    const mapping = text(take('mapping') ?? 'openai')
    const shared = take('mock_provider')
    const cases = take('cases')
    const calls = take('calls')
    const identical = take('expected_wire_bytes_identical')
    const whole = { call: take('call'), expected: take('expected') }
    if (cases !== undefined)
      return list(cases).map((each) => caseOf(each, { name, mapping, shared: shared ?? {} }))
    const steps =
      calls === undefined ? [stepOf(whole.call, whole.expected, {}, name)] : list(calls).map(callStep)
    const same =
      identical === undefined ? [] : read(identical, 'identical bytes', (key) => list(key('calls')))
    return [{ name, mapping, server: serverOf(shared), steps, identical: same as number[] }]
  })
  return { name, groups }
}

/** Gives a mapping's keys to `body`, and throws for those that it did not take. */
export function read<T>(value: unknown, where: string, body: (take: (key: string) => unknown) => T): T {
  const fields = mapping(value, where)
  const left = new Set(Object.keys(fields))
  const result = body((key) => {
    left.delete(key)
    return fields[key]
  })
  if (left.size > 0)
    throw new Error(`${where} has keys that this runner does not know: ${[...left].join(', ')}`)
  return result
}

interface Surroundings {
  readonly name: string
  readonly mapping: string
  readonly shared: unknown
}

function caseOf(value: unknown, { name: fixture, mapping, shared }: Surroundings): Group {
  return read(value, `${fixture}, a case`, (take) => {
    take('description')
    const name = `${fixture} ${text(take('name'))}`
    const sent = sentOf(take)
    const step = stepOf(take('call'), take('expected'), sent, name)
    return { name, mapping, server: serverOf(take('mock_provider') ?? shared), steps: [step], identical: [] }
  })
}

function callStep(value: unknown, index: number): Step {
  const where = `call ${index + 1}`
  const { expected, expected_wire_request: wire, ...rest } = mapping(value, where)
  const { expected_wire_request_checks: checks, expected_wire_request_absent_keys: absent, ...call } = rest
  const stated: Fields = {
    expected_wire_request: wire,
    expected_wire_request_checks: checks,
    expected_wire_request_absent_keys: absent,
  }
  return stepOf(
    call,
    expected,
    sentOf((key) => stated[key]),
    where,
  )
}

function sentOf(take: (key: string) => unknown): Partial<Expected> {
  const wire = take('expected_wire_request')
  const checks = Object.entries(mapping(take('expected_wire_request_checks') ?? {}, 'checks'))
  const absent = list(take('expected_wire_request_absent_keys') ?? []).map(text)
  const schemaCheck = 'system_message_content_references_schema'
  for (const [name, value] of checks) {
    if (value !== true)
      throw new Error(`The check ${name} is ${String(value)}, and this runner knows only true.`)
    if (name.endsWith('_absent')) absent.push(name.slice(0, -'_absent'.length))
    else if (name !== schemaCheck) throw new Error(`This runner does not know the check ${name}.`)
  }
  const namesSchema = checks.some(([name]) => name === schemaCheck)
  return {
    wire: wire === undefined ? undefined : mapping(wire, 'expected_wire_request'),
    absent,
    namesSchema,
  }
}

function stepOf(call: unknown, expected: unknown, sent: Partial<Expected>, where: string): Step {
  return read(call, `${where}, the call`, (take) => {
    const operation = take('operation')
    if (operation !== 'complete' && operation !== 'ready')
      throw new Error(`${where}: this runner does not know the operation ${String(operation)}.`)
    const config = take('config')
    const request = {
      messages: list(take('messages') ?? []).map(messageOf),
      tools: take('tools'),
      toolChoice: take('tool_choice'),
      responseSchema: take('response_schema'),
      config: config === undefined ? undefined : configOf(config),
    }
    // What is asked may be malformed on purpose.
    return {
      operation,
      request: defined(request) as unknown as ProviderRequest,
      options: defined({
        retry: retryOf(take('retry'), take('retry_middleware')),
        stream: take('stream'),
      }) as CallOptions,
      expected: expectedOf(expected, sent, where),
    }
  })
}

export function messageOf(value: unknown): Fields {
  return read(value, 'a message', (take) => {
    const content = take('content')
    const calls = take('tool_calls')
    return defined({
      role: take('role'),
      content: Array.isArray(content) ? content.map(blockOf) : content,
      toolCalls: Array.isArray(calls) ? calls.map(toolCallOf) : calls,
      toolCallId: take('tool_call_id'),
    })
  })
}

function toolCallOf(value: unknown): Fields {
  return read(value, 'a tool call', (take) =>
    defined({
      id: take('id'),
      name: take('name'),
      arguments: take('arguments'),
      signature: take('signature'),
    }),
  )
}

function blockOf(value: unknown): Fields {
  return read(value, 'a content block', (take) => {
    const source = take('source')
    return defined({
      type: take('type'),
      text: take('text'),
      data: take('data'),
      signature: take('signature'),
      mediaType: take('media_type'),
      detail: take('detail'),
      source:
        source === undefined
          ? undefined
          : read(source, 'an image source', (of) =>
              defined({ type: of('type'), url: of('url'), base64Data: of('base64_data') }),
            ),
    })
  })
}

export function configOf(value: unknown): Fields {
  return read(value, 'a config', (take) =>
    defined({
      temperature: take('temperature'),
      maxTokens: take('max_tokens'),
      topP: take('top_p'),
      seed: take('seed'),
      frequencyPenalty: take('frequency_penalty'),
      presencePenalty: take('presence_penalty'),
      stopSequences: take('stop_sequences'),
      extras: take('extras'),
    }),
  )
}

/** The retry middleware with its default classifier is the loop of a call. */
function retryOf(own: unknown, middleware: unknown): CallOptions['retry'] {
  if (middleware !== undefined)
    return read(middleware, 'a retry middleware', (take) => {
      if (take('classifier') !== 'default') throw new Error('This runner knows only the default classifier.')
      return { maxAttempts: take('max_attempts') as number }
    })
  if (own === undefined) return undefined
  return read(own, 'a retry', (take) => {
    const overrides = take('per_attempt_override')
    const reask = take('reask')
    return {
      maxAttempts: take('max_attempts') as number,
      ...backoffOf(take('backoff')),
      ...(overrides === undefined ? {} : { perAttemptOverride: list(overrides).map(configOf) }),
      ...(reask === undefined ? {} : { reask: reaskOf(reask) }),
    }
  })
}

function backoffOf(value: unknown): { readonly backoff?: () => number } {
  if (value === undefined) return {}
  return read(value, 'a backoff', (take) => {
    const [type, seconds] = [take('type'), take('seconds')]
    if (type !== 'deterministic') throw new Error(`This runner does not know the backoff ${String(type)}.`)
    return { backoff: () => seconds as number }
  })
}

function reaskOf(value: unknown): (context: ReaskContext) => string {
  const template = read(value, 'a reask', (take) => text(take('template')))
  return ({ outputContent, errorMessage }) =>
    template.replaceAll(/\{output_content\}|\{error_message\}/g, (name) =>
      name === '{output_content}' ? outputContent : errorMessage,
    )
}

function expectedOf(value: unknown, sent: Partial<Expected>, where: string): Expected {
  return read(value, `${where}, what is expected`, (take) => {
    const response = take('response')
    const raises = take('raises')
    const attempts = take('wire_requests')
    const spans = take('llm_spans')
    const isUnmodified = trueOnly(take('caller_messages_unmodified'), 'caller_messages_unmodified')
    const invariants = mapping(take('invariants') ?? {}, `${where}, the invariants`)
    for (const [name, held] of Object.entries(invariants)) trueOnly(held, name)
    return {
      wire: undefined,
      absent: [],
      namesSchema: false,
      ...sent,
      success: trueOnly(take('success'), 'success'),
      ...responseOf(response),
      raises: raises === undefined ? undefined : raisedOf(raises),
      attempts: attempts === undefined ? undefined : list(attempts).map(attemptOf),
      spans: spans === undefined ? undefined : list(spans).map(spanOf),
      calls: take('provider_call_count') as number | undefined,
      noTokens: trueOnly(take('no_token_events_emitted'), 'no_token_events_emitted'),
      invariants: [...Object.keys(invariants), ...(isUnmodified ? ['caller_messages_unmutated'] : [])],
    }
  })
}

function responseOf(value: unknown): Pick<Expected, 'response' | 'rawKeys'> {
  if (value === undefined) return { response: undefined, rawKeys: [] }
  return read(value, 'a response', (take) => {
    const check = take('raw_check')
    const usage = take('usage')
    const message = take('message')
    return {
      rawKeys:
        check === undefined ? [] : read(check, 'raw_check', (key) => list(key('required_keys')).map(text)),
      response: defined({
        finish_reason: take('finish_reason'),
        parsed: take('parsed'),
        usage: usage === undefined ? undefined : known(usage, usageKeys),
        message: message === undefined ? undefined : known(message, ['role', 'content', 'tool_calls']),
      }),
    }
  })
}

function raisedOf(value: unknown): Raised {
  return read(value, 'raises', (take) => {
    const carries = take('carries')
    return {
      category: take('category'),
      message: take('message'),
      retryAfter: take('retry_after_seconds'),
      carries: carries === undefined ? undefined : carriedOf(carries),
    }
  })
}

function carriedOf(value: unknown): Fields {
  const carries = known(value, carried)
  for (const name of carried) if (name.endsWith('_present')) trueOnly(carries[name], name)
  return carries
}

const usageKeys = [
  'prompt_tokens',
  'completion_tokens',
  'total_tokens',
  'cached_tokens',
  'cache_creation_tokens',
]
const carried = [
  'response_schema_present',
  'output_content',
  'error_message_present',
  'error_message_mentions',
  'finish_reason',
  'usage',
]

function attemptOf(value: unknown): SentAttempt {
  return read(value, 'a sent attempt', (take) => {
    const sampling = take('sampling')
    const appended = list(take('appended_messages') ?? [])
    return {
      sampling: sampling === undefined ? undefined : mapping(sampling, 'sampling'),
      appended: appended.map((each) => known(each, ['role', 'content', 'content_contains'])),
    }
  })
}

function spanOf(value: unknown): StatedSpan {
  return read(value, 'a span', (take) => ({
    index: take('attempt_index'),
    attributes: mapping(take('attributes') ?? {}, 'attributes'),
    absent: list(take('attributes_absent') ?? []).map(text),
    category: take('error_category'),
  }))
}

function serverOf(value: unknown): MockServer {
  return read(value, 'mock_provider', (take) => {
    const health = take('health_endpoint')
    const capabilities = known(take('capabilities') ?? {}, [
      'supports_image_input',
      'supports_native_response_format',
      'supports_native_structured_output',
    ])
    const native =
      capabilities['supports_native_response_format'] ?? capabilities['supports_native_structured_output']
    return {
      answers: list(take('responses') ?? []).map(answerOf),
      health:
        health === undefined
          ? undefined
          : { path: text(mapping(health, 'health')['path']), answer: answerOf(without(health, 'path')) },
      native: native as boolean | undefined,
    }
  })
}

function answerOf(value: unknown): Scripted {
  return read(value, 'a response of the server', (take) => {
    const events = take('stream_body')
    const answer = {
      status: take('status') ?? 200,
      headers: take('headers'),
      body: take('body'),
      events: events === undefined ? undefined : list(events),
      cut: take('connection_failure'),
    }
    return defined(answer) as unknown as Scripted
  })
}

/** A mapping whose keys are all among `keys`. */
export function known(value: unknown, keys: readonly string[]): Fields {
  return read(value, `One of ${keys.join(', ')}`, (take) =>
    defined(Object.fromEntries(keys.map((key) => [key, take(key)]))),
  )
}

function without(value: unknown, key: string): Fields {
  return Object.fromEntries(Object.entries(mapping(value, key)).filter(([name]) => name !== key))
}

export function defined<T extends Fields>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
}

function trueOnly(value: unknown, name: string): boolean {
  if (value !== undefined && value !== true)
    throw new Error(`${name} is ${String(value)}: only true is known.`)
  return value === true
}

export function mapping(value: unknown, where: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error(`${where} is not a mapping.`)
  return value as Fields
}

export function list(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new Error(`${JSON.stringify(value)} is not a list.`)
  return value
}

export function text(value: unknown): string {
  if (typeof value !== 'string') throw new Error(`${JSON.stringify(value)} is not text.`)
  return value
}
