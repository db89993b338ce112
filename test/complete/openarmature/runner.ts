// Runs a group of a fixture's calls against a recording server over HTTP, and compares what was sent and what came back with what
// the fixture states, literally. Throws at the first difference.
import { expect } from 'vitest'
import type { CallOptions, Message, Provider, Response, TokenEvent } from '../../../src/complete/provider.ts'
import { ProviderError } from '../../../src/llm/provider-error.ts'
import { StructuredOutputInvalid } from '../../../src/llm/structured-output/invalid-error.ts'
import { type Recorded, type Scripted, startRecordingServer } from '../../support/recording-server.ts'
import { frozen } from '../harness.ts'
import type { Expected, Fields, Group, MockServer, Raised, SentAttempt, StatedSpan, Step } from './fixture.ts'
import { checkInvariants } from './invariants.ts'
import { type Mapping, mappings } from './mappings.ts'

/** A finished span of a model call. */
export interface SeenSpan {
  readonly attributes: Fields
  /** `OK`, `ERROR` or `UNSET`. */
  readonly status: string | undefined
  readonly description: string | undefined
  /** The names of its events. */
  readonly events: readonly string[]
}

/** What happened in one step. */
export interface Run {
  readonly step: Step
  readonly mapping: Mapping
  readonly before: Step['request']
  /** Those of this step. */
  readonly requests: readonly Recorded[]
  /** The bodies of the server's answers to them; those of all events for a stream. */
  readonly answered: readonly Fields[]
  readonly response: Response | undefined
  readonly error: unknown
  readonly tokens: readonly TokenEvent[]
  /** How often the backoff was asked. */
  readonly waits: number
  readonly spans: readonly SeenSpan[]
  /** The same call without a stream, answered with the response's `raw`. */
  readonly whole: () => Promise<Response>
}

/** `takeSpans` gives the spans that ended since it was last called. */
export async function runGroup(group: Group, takeSpans: () => SeenSpan[]): Promise<void> {
  const mapping = mappings[group.mapping]
  if (!mapping) throw new Error(`There is no provider for the mapping ${group.mapping}.`)
  const { answers, health, native } = group.server
  const tooMany = { status: 599, body: 'a call too many' }
  const scripted = health ? [healthOf(health)] : [...answers.map(withToolName), tooMany, tooMany]
  await using server = await startRecordingServer(scripted)
  const options = { model: modelOf(group, mapping), ...(native === undefined ? {} : { native }) }
  const provider = mapping.provider(server, options)
  takeSpans()
  for (const step of group.steps) {
    const from = server.requests.length
    const before = structuredClone(step.request)
    const seen = await call(provider, step)
    const requests = server.requests.slice(from)
    const given = answers.slice(from, server.requests.length)
    const run: Run = {
      step,
      mapping,
      before,
      requests,
      answered: given.flatMap(({ body, events = [] }) => [body ?? {}, ...events] as Fields[]),
      ...seen,
      spans: takeSpans(),
      whole: () => wholeCall(mapping, options.model, step, seen.response!),
    }
    await check(run)
    takeSpans()
  }
  if (health) expect(server.requests.map(({ path }) => path)).toContain(health.path)
  else expect(server.requests.length, 'a call too many').toBeLessThanOrEqual(answers.length)
  const bytes = group.identical.map((index) => server.requests[index]?.text)
  for (const each of bytes) expect(each).toBe(bytes[0]!)
}

/** Other paths than the probed one are unknown to the server. */
function healthOf({ path, answer: { cut, status, body } }: NonNullable<MockServer['health']>): Scripted {
  return {
    by(response, request) {
      if (request.path !== path) response.writeHead(404).end()
      else if (cut) response.destroy()
      else response.writeHead(status ?? 200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    },
  }
}

async function call(provider: Provider, step: Step) {
  const tokens: TokenEvent[] = []
  let waits = 0
  const { retry, ...others } = step.options
  const { backoff } = retry ?? {}
  const counted = backoff && {
    backoff: (index: number) => {
      waits += 1
      return backoff(index)
    },
  }
  const options: CallOptions = {
    ...others,
    ...(retry && { retry: { ...retry, ...counted } }),
    onToken: (event) => tokens.push(event),
  }
  try {
    if (step.operation === 'ready') await provider.ready()
    const response =
      step.operation === 'ready' ? undefined : await provider.complete(frozen(step.request), options)
    return { response, error: undefined, tokens, waits }
  } catch (error) {
    return { response: undefined, error, tokens, waits }
  }
}

async function wholeCall(mapping: Mapping, model: string, step: Step, { raw }: Response): Promise<Response> {
  await using server = await startRecordingServer([{ body: raw }])
  return await mapping.provider(server, { model }).complete(step.request)
}

/** The model that the fixture's server answers with; what the requests name is compared. */
function modelOf({ server }: Group, { model }: Mapping): string {
  const answered = server.answers.map(({ body }) => (body as Fields | undefined)?.['model'])
  return String(answered.find((each) => each !== undefined) ?? model)
}

/** A tool name `*` in an answer is the name that the request forces. */
function withToolName(answer: Scripted): Scripted {
  const text = JSON.stringify(answer.body ?? {})
  if (!text.includes('"*"')) return answer
  return {
    by(response, { json }) {
      const { name } = (json['tool_choice'] ?? {}) as { name?: string }
      response.setHeader('content-type', 'application/json').end(text.replaceAll('"*"', JSON.stringify(name)))
    },
  }
}

async function check(run: Run): Promise<void> {
  const { step, requests, error, response, spans, tokens, before } = run
  const { expected } = step
  checkRaised(expected.raises, step, error)
  if (expected.response) checkResponse(expected, run, response!)
  if (expected.success) expect(step.operation).toBe('ready')
  checkWire(expected, run)
  if (expected.attempts) checkAttempts(expected.attempts, run)
  if (expected.spans) checkSpans(expected.spans, spans)
  if (expected.calls !== undefined) expect(requests).toHaveLength(expected.calls)
  if (expected.noTokens) expect(tokens).toHaveLength(0)
  expect(step.request).toStrictEqual(before)
  if (!expected.response && !expected.raises && !expected.success)
    throw new Error('The fixture states no outcome.')
  await checkInvariants(run)
}

function checkRaised(raises: Raised | undefined, { request }: Step, error: unknown): void {
  if (!raises) {
    if (error !== undefined) throw error
    return
  }
  if (!(error instanceof ProviderError)) throw new Error(`It did not raise ${raises.category}: ${error}`)
  expect(error.category).toBe(raises.category)
  if (raises.message !== undefined) expect(error.details['server']).toBe(raises.message)
  if (raises.retryAfter !== undefined) expect(error.retryAfter).toBe(raises.retryAfter)
  const { carries } = raises
  if (!carries) return
  if (!(error instanceof StructuredOutputInvalid)) throw new Error(`It carries nothing: ${error}`)
  expect(error.errorMessage).not.toBe('')
  if (carries['response_schema_present']) expect(error.responseSchema).toStrictEqual(request.responseSchema)
  const mentioned = carries['error_message_mentions']
  if (mentioned !== undefined) expect(error.errorMessage).toContain(mentioned)
  if ('output_content' in carries) expect(error.outputContent).toBe(carries['output_content'])
  if ('finish_reason' in carries) expect(error.finishReason).toBe(carries['finish_reason'])
  if ('usage' in carries) expect(statedUsage(error.usage)).toStrictEqual(carries['usage'])
}

function checkResponse({ response: stated = {}, rawKeys }: Expected, run: Run, response: Response): void {
  const { message, finishReason, parsed, raw, usage } = response
  if ('finish_reason' in stated) expect(finishReason).toBe(stated['finish_reason'])
  if ('parsed' in stated) expect(parsed ?? null).toStrictEqual(stated['parsed'])
  if ('usage' in stated) {
    const counts = statedUsage(usage)
    for (const [name, count] of Object.entries(stated['usage'] as Fields))
      expect(counts[name], name).toBe(count)
  }
  if ('message' in stated) {
    const said = statedMessage(message)
    for (const [name, value] of Object.entries(stated['message'] as Fields))
      expect(said[name], name).toStrictEqual(value)
  }
  for (const key of rawKeys) {
    expect(raw, key).toHaveProperty([key])
    // A stream has no whole body to compare with.
    if (!run.step.options.stream) expect(raw[key], key).toStrictEqual(run.answered.at(-1)![key])
  }
}

export function statedUsage({
  promptTokens,
  completionTokens,
  totalTokens,
  ...cached
}: Response['usage']): Fields {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: totalTokens,
    ...('cachedTokens' in cached && { cached_tokens: cached.cachedTokens }),
    ...('cacheCreationTokens' in cached && { cache_creation_tokens: cached.cacheCreationTokens }),
  }
}

/** A message in the words of the fixtures; without tool calls they are null. */
function statedMessage(message: Message): Fields {
  const { role, content = null } = message
  const { toolCalls = [] } = message as { toolCalls?: readonly unknown[] }
  return { role, content, tool_calls: toolCalls.length > 0 ? toolCalls : null }
}

function checkWire({ wire, absent, namesSchema }: Expected, run: Run): void {
  const { requests, mapping, step } = run
  const bodies = requests.map(({ json }) => json)
  for (const key of absent) for (const body of bodies) expect(body).not.toHaveProperty([key])
  if (namesSchema) checkDirective(bodies[0]!, step)
  if (!wire) return
  expect(requests).toHaveLength(1)
  const { body = ({ json }: Recorded) => json, normal = (value: Fields) => value } = mapping
  const sent = body(requests[0]!)
  expect(normal(sent)).toStrictEqual(withWildcards(normal(wire)))
  const [choice, tools] = [sent['tool_choice'], sent['tools']] as [Fields | undefined, Fields[] | undefined]
  // A tool that the provider made is the one that it forces.
  if ((wire['tool_choice'] as Fields | undefined)?.['name'] === '*')
    expect(choice!['name']).toBe(tools![0]!['name'])
}

/** The directive says what the schema asks for. */
function checkDirective(body: Fields, { request: { responseSchema } }: Step): void {
  const [first] = body['messages'] as readonly Fields[]
  expect(first!['role']).toBe('system')
  const names = Object.keys((responseSchema!['properties'] ?? {}) as Fields)
  expect(names).not.toHaveLength(0)
  for (const name of names) expect(first!['content']).toContain(JSON.stringify(name))
}

/** The text `*` stands for any text that is not empty. */
function withWildcards(value: unknown): unknown {
  if (value === '*') return expect.stringMatching(/./s)
  if (Array.isArray(value)) return value.map(withWildcards)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, withWildcards(child)]))
}

const samplingKeys = [
  'temperature',
  'max_tokens',
  'top_p',
  'seed',
  'frequency_penalty',
  'presence_penalty',
  'stop',
]

function checkAttempts(attempts: readonly SentAttempt[], { requests, step }: Run): void {
  expect(requests).toHaveLength(attempts.length)
  const own = step.request.messages.length
  attempts.forEach(({ sampling, appended }, index) => {
    const { json } = requests[index]!
    const sent = Object.entries(json).filter(([key]) => samplingKeys.includes(key))
    if (sampling) expect(Object.fromEntries(sent)).toStrictEqual(sampling)
    const messages = json['messages'] as readonly Fields[]
    expect(messages.slice(0, own)).toStrictEqual(requests[0]!.json['messages'])
    const added = messages.slice(own)
    expect(added).toHaveLength(appended.length)
    appended.forEach(({ content_contains: parts, ...stated }, place) => {
      const { content, ...rest } = added[place]!
      expect({ ...rest, ...('content' in stated && { content }) }).toStrictEqual(stated)
      for (const part of (parts ?? []) as string[]) expect(content).toContain(part)
    })
  })
}

function checkSpans(stated: readonly StatedSpan[], spans: readonly SeenSpan[]): void {
  expect(spans).toHaveLength(stated.length)
  stated.forEach(({ index: attempt, attributes, absent, category }, index) => {
    const span = spans[index]!
    expect(span.attributes['openarmature.llm.attempt_index']).toBe(attempt)
    for (const [name, value] of Object.entries(attributes))
      expect(span.attributes[name], name).toStrictEqual(value)
    for (const name of absent) expect(span.attributes).not.toHaveProperty([name])
    expect(span.status).toBe(category === null ? 'OK' : 'ERROR')
    expect(span.attributes['openarmature.error.category'] ?? null).toBe(category)
  })
}
