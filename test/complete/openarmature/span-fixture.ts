// The spans of model calls that OpenArmature's fixtures of observability state. Only those with one node that makes one call are run:
// the node, its graph and the spans around the call are not graphmill's, nor are Langfuse, typed events and metrics.
import { expect } from 'vitest'
import { createOpenAiProvider } from '../../../src/complete/openai/openai.ts'
import type { ProviderRequest, Response } from '../../../src/complete/provider.ts'
import type { ProviderError } from '../../../src/llm/provider-error.ts'
import { type Scripted, startRecordingServer } from '../../support/recording-server.ts'
import { configOf, defined, type Fields, known, list, mapping, messageOf, read, text } from './fixture.ts'
import { type SeenSpan, statedUsage } from './runner.ts'

export interface SpanFixture {
  readonly name: string
  /** Why it is not run. */
  readonly skipped?: string
  readonly document: Fields
}

const spanName = 'openarmature.llm.complete'

/** The cases of a document that state something about the span of a model call. */
export function readSpanFixtures(file: string, document: unknown): SpanFixture[] {
  const { cases = [document] } = mapping(document, file)
  return list(cases).flatMap((each) => {
    const fields = mapping(each, file)
    const { name = '', expected = {}, nodes = {} } = fields
    const states = JSON.stringify(expected)
    if (!states.includes(spanName) && !states.includes('llm_span_attributes')) return []
    const [node, ...others] = Object.values(nodes as Fields) as Fields[]
    const isOne = others.length === 0 && node?.['calls_llm'] !== undefined && Object.keys(node).length === 1
    const isSpan = /"(span_tree|llm_span_attributes\w*)"/.test(states)
    const skipped = isOne
      ? isSpan
        ? undefined
        : 'it states Langfuse, not spans'
      : 'it needs more than one call: graphs or prompts'
    return [
      { name: `${file} ${String(name)}`, document: fields, ...(skipped === undefined ? {} : { skipped }) },
    ]
  })
}

export async function runSpanFixture(
  { name, document }: SpanFixture,
  takeSpans: () => SeenSpan[],
): Promise<void> {
  await read(document, name, async (take) => {
    for (const around of [
      'name',
      'description',
      'state',
      'entry',
      'edges',
      'initial_state',
      'typed_observers',
    ])
      take(around)
    const answers = answersOf(take('mock_llm'), take('mock_llm_stream'))
    const { genai_system: system } = known(take('provider') ?? {}, ['type', 'genai_system'])
    const error = known(take('expected_error') ?? {}, ['category', 'raised_from'])
    const trace = {
      payload: take('disable_provider_payload') === false,
      genAi: take('disable_genai_semconv') !== true,
    }
    const node = Object.values(mapping(take('nodes'), 'nodes'))[0]
    const expected = take('expected')
    const { request, stream, model } = callOf(mapping(node, 'node')['calls_llm'], answers)
    await using server = await startRecordingServer(answers)
    const options = {
      baseUrl: server.url,
      model: model ?? 'test-model',
      ...(system === undefined ? {} : { system: text(system) }),
    }
    const provider = createOpenAiProvider(options)
    takeSpans()
    const outcome = await provider.complete(request, { trace, stream }).catch((thrown: unknown) => thrown)
    if (error['category'] === undefined) {
      if (outcome instanceof Error) throw outcome
    } else expect((outcome as ProviderError).category).toBe(error['category'])
    checkExpected(expected, { spans: takeSpans(), outcome, request })
  })
}

interface Outcome {
  readonly spans: readonly SeenSpan[]
  readonly outcome: unknown
  readonly request: ProviderRequest
}

function answersOf(whole: unknown, streamed: unknown): Scripted[] {
  const events = streamed === undefined ? [] : list(streamed)
  return [
    ...list(whole ?? []).map((each) => known(each, ['status', 'headers', 'body']) as Scripted),
    ...events.map((each) => ({ events: [...list(each), '[DONE]'] })),
  ]
}

function callOf(value: unknown, answers: readonly Scripted[]) {
  return read(value, 'calls_llm', (take) => {
    take('stores_response_in')
    const config = take('config')
    const request = defined({
      messages: list(take('messages')).map((message) => messageOf(filled(message))),
      responseSchema: take('response_schema'),
      config: config === undefined ? undefined : configOf(config),
      // The fixtures name no tools where the model calls some: then they are any.
      tools: calledTools(answers),
    })
    const streamModel = answers.some(({ events }) => events) ? 'gpt-test' : undefined
    const model = (take('model') as string | undefined) ?? streamModel ?? modelOf(answers)
    return { request: request as unknown as ProviderRequest, stream: take('stream') === true, model }
  })
}

/** The bound model, where the fixture does not name it: that of the answer without what a server adds to it. */
function modelOf([answer]: readonly Scripted[]): string | undefined {
  const model = (answer?.body as Fields | undefined)?.['model']
  return typeof model === 'string' ? model.replace(/-\d{4}-\d\d-\d\d$/, '') : undefined
}

function calledTools(answers: readonly Scripted[]): unknown[] | undefined {
  const names = JSON.stringify(answers).matchAll(/"function":\{"name":"(\w+)"/g)
  const tools = [...names].map(([, name]) => ({ name, description: '', parameters: { type: 'object' } }))
  return tools.length > 0 ? tools : undefined
}

/** Long texts and images stand for their size. */
function filled(message: unknown): unknown {
  return JSON.parse(JSON.stringify(message), (key, value: Fields) => {
    if (value?.['content_repeat']) {
      const { content_repeat: repeat, ...rest } = value
      const { char, bytes } = repeat as { char: string; bytes: number }
      return { ...rest, content: char.repeat(bytes) }
    }
    if (key === 'source' && value['base64_data_synthetic']) {
      const { bytes } = value['base64_data_synthetic'] as { bytes: number }
      return { type: value['type'], base64_data: synthetic.repeat(bytes / synthetic.length) }
    }
    return value
  })
}

const synthetic = 'c3ludGhldGlj'.slice(0, 8)

function checkExpected(value: unknown, seen: Outcome): void {
  read(value, 'expected', (take) => {
    // They say in words what the attributes below state.
    take('invariants')
    take('observers')
    const usage = take('response_usage')
    if (usage !== undefined) {
      const counts = statedUsage((seen.outcome as Response).usage)
      for (const [name, count] of Object.entries(mapping(usage, 'usage')))
        expect(counts[name] ?? null).toBe(count)
    }
    const tree = take('span_tree')
    const direct = {
      attributes: take('llm_span_attributes'),
      attributes_absent: take('llm_span_attributes_absent'),
    }
    const stated = tree === undefined ? [{ name: spanName, ...defined(direct) }] : callsIn(tree)
    expect(seen.spans).toHaveLength(stated.length)
    stated.forEach((each, index) => {
      checkSpan(each, seen.spans[index]!, seen.request)
    })
  })
}

function callsIn(tree: unknown): Fields[] {
  return list(tree).flatMap((each) => {
    const span = mapping(each, 'a span')
    return span['name'] === spanName ? [span] : callsIn(span['children'] ?? [])
  })
}

function checkSpan(stated: Fields, span: SeenSpan, { messages }: ProviderRequest): void {
  const { attributes } = span
  const textOf = (name: string) => String(attributes[name])
  read(stated, 'a span', (take) => {
    take('name')
    expect(take('children') ?? []).toEqual([])
    const status = take('status')
    if (status !== undefined) expect(span.status).toBe(status)
    const description = take('status_description')
    if (description !== undefined) expect(span.description).toBe(description)
    if (take('exception_recorded')) expect(span.events).toContain('exception')
    for (const [name, value] of entries(take('attributes')))
      expect(attributes[name], name).toStrictEqual(value)
    for (const name of list(take('attributes_absent') ?? []))
      expect(attributes).not.toHaveProperty([text(name)])
    for (const name of list(take('attributes_present') ?? [])) expect(attributes).toHaveProperty([text(name)])
    for (const [name, value] of [
      ...entries(take('attribute_parses_as_messages')),
      ...entries(take('attribute_parses_as_object')),
    ])
      expect(JSON.parse(textOf(name))).toStrictEqual(value)
    for (const [name, rule] of entries(take('attribute_does_not_contain'))) {
      expect(rule).toEqual({ forbidden_substring_kind: 'synthetic_base64_prefix' })
      expect(textOf(name)).not.toContain(synthetic)
    }
    for (const [name, rule] of entries(take('attribute_truncation')))
      read(rule, 'a truncation', (key) => {
        const value = textOf(name)
        expect(Buffer.byteLength(value)).toBeLessThanOrEqual(key('max_bytes') as number)
        expect(value).toMatch(new RegExp(text(key('marker_pattern'))))
        if (key('utf8_valid')) expect(value.isWellFormed()).toBe(true)
        const [begin = ''] = value.split('…')
        if (key('prefix_of_full_serialization')) expect(sortedJson(messages).startsWith(begin)).toBe(true)
      })
  })
}

function entries(value: unknown): [string, unknown][] {
  return Object.entries(mapping(value ?? {}, 'attributes'))
}

/** The fixtures' messages have no deeper objects than themselves. */
function sortedJson(messages: ProviderRequest['messages']): string {
  return JSON.stringify(messages.map(({ content, role }) => ({ content, role })))
}
