// OpenArmature's published fixtures 021-028 (018-025 in the proposal), 054 and 055, and what this project decides beside them:
// the strict rule, the name, the order of keys, the two paths.
import { describe, expect, it } from 'vitest'
import { wireSchema } from '../../src/llm/cache/canonical.ts'
import { isStrict, responseFormat, schemaName } from '../../src/llm/openai/response-format.ts'
import type { StructuredOutputInvalid } from '../../src/llm/structured-output/invalid-error.ts'
import {
  calling,
  completion,
  counted,
  failure,
  frozen,
  hi,
  P,
  type Setup,
  setup,
  turned,
  V,
  weather,
} from './harness.ts'

const ask = frozen({ messages: [{ role: 'user', content: 'Generate a person record.' }] as const })
const refusal = (message: string, param?: string) => ({ status: 400, body: { error: { message, param } } })
const unsupported = refusal("'response_format' of type 'json_schema' is not supported", 'response_format')

describe('021 (proposal: 018) structured output', () => {
  it('is asked for natively and comes parsed beside the verbatim content', async () => {
    const content = '{"name":"Alice","age":30}'
    await using test = await setup(completion(content))
    const response = await test.provider.complete(frozen({ ...ask, responseSchema: P }))
    expect(test.wire()[0]).toEqual({
      model: 'test-model',
      messages: ask.messages,
      response_format: {
        type: 'json_schema',
        json_schema: { name: expect.stringMatching(/^[A-Za-z0-9_-]{1,64}$/), schema: P, strict: true },
      },
    })
    expect(response.parsed).toEqual({ name: 'Alice', age: 30 })
    expect(response.message.content).toBe(content)
    expect(response.outputMode).toBe('native')
  })

  it('keeps the content as it was written', async () => {
    const content = ' {\n "age" : 3.0e1,\t"name":"\\u0041lice" }\n'
    await using test = await setup(completion(content))
    const response = await test.provider.complete({ ...ask, responseSchema: P })
    expect(response.message.content).toBe(content)
    expect(response.parsed).toEqual({ name: 'Alice', age: 30 })
  })
})

describe('022 (proposal: 019) content that is not JSON', () => {
  it('raises with the schema, the output, the message, the reason and the usage', async () => {
    const content = '{"name": "Alice" "age": 30}'
    await using test = await setup(completion(content, {}, counted(20, 8, 28)))
    const thrown = await failure<StructuredOutputInvalid>(
      test.provider,
      { ...ask, responseSchema: P },
      'structured_output_invalid',
    )
    expect(thrown).toMatchObject({
      responseSchema: P,
      outputContent: content,
      errorMessage: expect.stringMatching(/./),
      finishReason: 'stop',
      usage: { promptTokens: 20, completionTokens: 8, totalTokens: 28 },
      cause: expect.any(SyntaxError),
    })
  })
})

describe('023 (proposal: 020) content that fails the schema', () => {
  it('raises with a message that names the key', async () => {
    await using test = await setup(completion('{"name":"Alice"}', {}, counted(20, 6, 26)))
    const thrown = await failure<StructuredOutputInvalid>(
      test.provider,
      { ...ask, responseSchema: P },
      'structured_output_invalid',
    )
    expect(thrown.errorMessage).toContain('age')
    expect(thrown.usage).toEqual({ promptTokens: 20, completionTokens: 6, totalTokens: 26 })
  })

  it('marks a reply that was cut off by its finish reason', async () => {
    await using test = await setup(completion('{"name":"Al', { finish_reason: 'length' }))
    const thrown = await failure<StructuredOutputInvalid>(
      test.provider,
      { ...ask, responseSchema: P },
      'structured_output_invalid',
    )
    expect(thrown.finishReason).toBe('length')
  })
})

describe('024 (proposal: 021) is not transient', () => {
  it('calls once under a policy of three attempts and the default classifier', async () => {
    await using test = await setup([completion('{"name":"Alice"}'), completion('{"name":"Alice","age":1}')])
    const retry = { maxAttempts: 3, backoff: () => 0 }
    await failure(test.provider, { ...ask, responseSchema: P }, 'structured_output_invalid', { retry })
    expect(test.server.requests).toHaveLength(1)
  })
})

describe('025 (proposal: 022) with tools', () => {
  const responseSchema = { type: 'object', properties: { summary: { type: 'string' } } } as const
  it('has no parsed value when the model calls a tool, even beside content', async () => {
    await using test = await setup([
      calling([['c1', '{"city":"x"}']]),
      calling([['c1', '{"city":"x"}']], {
        message: { content: '{"summary":"x"}', tool_calls: undefined },
      }),
    ])
    const first = await test.provider.complete({ ...ask, tools: [weather], responseSchema })
    expect(first).toMatchObject({ finishReason: 'tool_calls', parsed: undefined })
    expect(first.message.toolCalls).toHaveLength(1)
    const second = await test.provider.complete({ ...ask, tools: [weather], responseSchema })
    expect(second).toMatchObject({ finishReason: 'tool_calls', parsed: undefined })
  })
})

describe('026 (proposal: 023) a server that can', () => {
  it('gets response_format', async () => {
    await using test = await setup(completion('{"value":42}'), { native: true })
    const response = await test.provider.complete(frozen({ ...ask, responseSchema: V }))
    expect(test.wire()[0]!['response_format']).toMatchObject({
      type: 'json_schema',
      json_schema: { schema: V, strict: true },
    })
    expect(response).toMatchObject({ parsed: { value: 42 }, outputMode: 'native' })
  })
})

describe('027 (proposal: 024) a server that cannot', () => {
  it('gets a directive with the schema as its first message, and no response_format', async () => {
    await using test = await setup(completion('{"value":42}'), { native: false })
    const response = await test.provider.complete(frozen({ ...ask, responseSchema: V }))
    const { messages, ...rest } = test.wire()[0] as { messages: { role: string; content: string }[] }
    expect(rest).toEqual({ model: 'test-model' })
    expect(messages).toEqual([{ role: 'system', content: expect.any(String) }, ...ask.messages])
    expect(JSON.parse(/\{.*\}$/s.exec(messages[0]!.content)![0])).toEqual(V)
    expect(response).toMatchObject({ parsed: { value: 42 }, outputMode: 'fallback' })
  })

  it('has the directive after the words of a system message', async () => {
    await using test = await setup(completion('{"value":42}'), { native: false })
    const messages = [{ role: 'system', content: 'Be brief.' }, ...hi] as const
    await test.provider.complete(frozen({ messages, responseSchema: V }))
    const sent = test.wire()[0]!['messages'] as { role: string; content: string }[]
    expect(sent.map(({ role }) => role)).toEqual(['system', 'user'])
    expect(sent[0]!.content).toMatch(/^Be brief\.\n\n.*"value"/s)
  })

  it('lets an extra response_format through, which is not managed then', async () => {
    await using test = await setup(completion('{"value":42}'), { native: false })
    const config = { extras: { response_format: { type: 'json_object' } } }
    await test.provider.complete({ ...ask, responseSchema: V, config })
    expect(test.wire()[0]!['response_format']).toEqual({ type: 'json_object' })
  })
})

describe('028 (proposal: 025) without a schema', () => {
  it('has neither response_format nor a parsed value', async () => {
    await using test = await setup(completion('{"this":"is just text"}'))
    const response = await test.provider.complete(ask)
    expect(test.wire()[0]).not.toHaveProperty('response_format')
    expect(response.parsed).toBeUndefined()
    expect(response).not.toHaveProperty('outputMode')
  })
})

describe('054 and 055 wire bytes', () => {
  const tool = {
    name: 'get_weather',
    description: 'Weather lookup.',
    parameters: {
      type: 'object',
      properties: { location: { type: 'string' }, units: { type: 'string', enum: ['c', 'f'] } },
      required: ['location'],
      $defs: { b: { type: 'string' }, a: { const: { z: 1, y: [2] } } },
    },
  } as const
  const request = {
    messages: [
      { role: 'system', content: 'x' },
      { role: 'user', content: [{ type: 'text', text: 'Describe it.' }] },
      {
        role: 'assistant',
        toolCalls: [{ id: 'c1', name: 'get_weather', arguments: { location: 'x', deep: { b: 1, a: 2 } } }],
      },
      { role: 'tool', content: 'y', toolCallId: 'c1' },
    ],
    tools: [tool],
    toolChoice: { type: 'tool', name: 'get_weather' },
    config: { maxTokens: 64, temperature: 0.7, extras: { alpha: { y: 1, x: [{ q: 1, p: 2 }] }, beta: 2 } },
    responseSchema: P,
  } as const

  it.each([true, false])(
    'are the same for the same inputs in another order of keys (native: %s)',
    async (native) => {
      const reply = calling([['c2', '{"location":"x"}']])
      await using test = await setup(reply, { native })
      await test.provider.complete(frozen(request))
      await test.provider.complete(frozen(turned(request)))
      await test.provider.complete(turned(request), { stream: true }).catch(() => {})
      const [first, second, third] = test.server.requests.map(({ text }) => text)
      expect(JSON.stringify(turned(request))).not.toBe(JSON.stringify(request))
      expect(second).toBe(first)
      expect(third).not.toBe(first)
    },
  )

  it('are the same for tools whose properties are in another order', async () => {
    await using test = await setup(completion('Hi.'))
    const properties = { unit: { type: 'string' }, at: { type: 'object', properties: { y: {}, x: {} } } }
    const other = { at: { properties: { x: {}, y: {} }, type: 'object' }, unit: { type: 'string' } }
    for (const each of [properties, other])
      await test.provider.complete({
        messages: hi,
        tools: [{ name: 'f', description: 'F.', parameters: { type: 'object', properties: each } }],
      })
    const [first, second] = test.server.requests.map(({ text }) => text)
    expect(second).toBe(first)
  })

  it('keep the order of properties, the constant one first', async () => {
    const responseSchema = {
      type: 'object',
      properties: {
        reasoning: { type: 'string' },
        nested: {
          type: 'object',
          properties: { zeta: { type: 'string' }, alpha: { type: 'string' }, kind: { const: 'k' } },
        },
        answer: { type: 'string' },
        type: { const: 'verdict' },
      },
      required: ['type', 'reasoning'],
    } as const
    await using test = await setup(
      completion('{"type":"verdict","reasoning":"x","nested":{"kind":"k"},"answer":"y"}'),
    )
    await test.provider.complete({ ...ask, responseSchema })
    const { text } = test.server.requests[0]!
    const order = [...text.matchAll(/"(type|reasoning|nested|answer|zeta|alpha|kind)":\{/g)].map(
      (match) => match[1],
    )
    expect(order).toEqual(['type', 'reasoning', 'nested', 'kind', 'zeta', 'alpha', 'answer'])
  })
})

describe('the properties of a union', () => {
  it.each([
    { oneOf: [{ properties: { kind: { const: 'a' } } }, { properties: { kind: { const: 'b' } } }] },
    { discriminator: { propertyName: 'kind' } },
  ])('begin with the one that tells its kinds apart: %j', (union) => {
    const properties = { zeta: {}, kind: { enum: ['a', 'b'] }, alpha: {} }
    const sent = wireSchema({ type: 'object', properties, ...union }) as typeof P
    expect(Object.keys(sent.properties)).toEqual(['kind', 'zeta', 'alpha'])
  })
})

/** The `strict` of each request; undefined without a schema on the wire. */
const strictOf = (test: Setup) =>
  test
    .wire()
    .map(
      ({ response_format: format }) =>
        (format as { json_schema: { strict: boolean } } | undefined)?.json_schema.strict,
    )

describe('the dynamic fallback', () => {
  it('continues with the directive after the first refusal, and remembers it', async () => {
    await using test = await setup([unsupported, completion('{"value":1}'), completion('{"value":2}')])
    const first = await test.provider.complete({ ...ask, responseSchema: V })
    const second = await test.provider.complete({ ...ask, responseSchema: { ...V, title: 'other' } })
    expect([first.parsed, second.parsed]).toEqual([{ value: 1 }, { value: 2 }])
    expect([first.outputMode, second.outputMode]).toEqual(['fallback', 'fallback'])
    expect(test.wire().map((body) => 'response_format' in body)).toEqual([true, false, false])
    const usage = { promptTokens: 5, completionTokens: 1, totalTokens: 6 }
    expect(first.attempts).toEqual([{ attemptIndex: 0, usage }])
  })

  it('is remembered for one provider, not for the next', async () => {
    await using one = await setup([unsupported, completion('{"value":1}')])
    await one.provider.complete({ ...ask, responseSchema: V })
    await using other = await setup(completion('{"value":1}'))
    expect((await other.provider.complete({ ...ask, responseSchema: V })).outputMode).toBe('native')
  })

  it('is for one schema when the server refuses that schema', async () => {
    const invalid = refusal(
      "Invalid schema for response_format 'x': minimum is not permitted",
      'response_format',
    )
    await using test = await setup([
      invalid,
      invalid,
      completion('{"value":1}'),
      completion('{"name":"A","age":1}'),
      completion('{"value":1}'),
    ])
    const modes = []
    for (const responseSchema of [V, P, V])
      modes.push((await test.provider.complete({ ...ask, responseSchema })).outputMode)
    expect(modes).toEqual(['fallback', 'native', 'fallback'])
    expect(strictOf(test)).toEqual([true, false, undefined, true, undefined])
  })

  it('leaves out `strict` first, for a schema that the server does not take strictly', async () => {
    const invalid = refusal(
      "Invalid schema for response_format 'x': minimum is not permitted",
      'response_format',
    )
    await using test = await setup([invalid, completion('{"value":1}'), completion('{"value":2}')])
    for (const value of [1, 2]) {
      const response = await test.provider.complete({ ...ask, responseSchema: V })
      expect(response).toMatchObject({ parsed: { value }, outputMode: 'native' })
    }
    expect(strictOf(test)).toEqual([true, false, false])
  })

  it('follows a reply that ignores the schema, in the same attempt, and is remembered', async () => {
    for (const prose of ['It is 42.', '```json\n{"value":42}\n```']) {
      await using test = await setup([
        completion(prose),
        completion('{"value":1}'),
        completion('{"value":2}'),
      ])
      for (const [value, totalTokens] of [
        [1, 12],
        [2, 6],
      ] as const) {
        const response = await test.provider.complete(frozen({ ...ask, responseSchema: V }))
        expect(response).toMatchObject({ parsed: { value }, outputMode: 'fallback' })
        // The reply that was discarded was paid too.
        expect(response.attempts).toMatchObject([{ attemptIndex: 0, usage: { totalTokens } }])
        expect(response.usage.totalTokens).toBe(6)
      }
      expect(strictOf(test)).toEqual([true, undefined, undefined])
      expect(JSON.stringify(test.wire()[1])).toContain('JSON Schema')
    }
  })

  it('does not follow a reply that is JSON, broken JSON, cut off or a refusal', async () => {
    for (const reply of [
      completion('{"value": "x"}'),
      completion('{"value": 4 2}'),
      completion(''),
      completion('The', { finish_reason: 'length' }),
      completion(null, { message: { refusal: "I'm sorry, I can't." } }),
    ]) {
      await using test = await setup(reply)
      await failure(test.provider, { ...ask, responseSchema: V }, 'structured_output_invalid')
      await failure(test.provider, { ...ask, responseSchema: V }, 'structured_output_invalid')
      expect(strictOf(test)).toEqual([true, true])
    }
  })

  it('does not follow in a mode that the caller named', async () => {
    await using test = await setup(completion('It is 42.'))
    const how = { outputMode: 'native' } as const
    await failure(test.provider, { ...ask, responseSchema: V }, 'structured_output_invalid', how)
    expect(test.server.requests).toHaveLength(1)
  })

  it('does not hide another refusal', async () => {
    await using test = await setup(refusal('max_tokens is too large'))
    await failure(test.provider, { ...ask, responseSchema: V }, 'provider_invalid_request')
    expect(test.server.requests).toHaveLength(1)
  })

  it('can be overridden for a call, either way', async () => {
    await using test = await setup([unsupported, completion('{"value":1}')])
    await failure(test.provider, { ...ask, responseSchema: V }, 'provider_invalid_request', {
      outputMode: 'native',
    })
    const response = await test.provider.complete({ ...ask, responseSchema: V }, { outputMode: 'fallback' })
    expect(response.outputMode).toBe('fallback')
    expect(test.server.requests).toHaveLength(2)
  })
})

describe('strict', () => {
  it.each([
    ['all required and closed', P, true],
    ['all required, nothing said of further ones', { ...P, additionalProperties: undefined }, false],
    ['open', { ...P, additionalProperties: true }, false],
    ['an object of anything', { type: 'object' }, false],
    ['a closed object without properties', { type: 'object', additionalProperties: false }, true],
    ['a property that may be anything', { ...V, properties: { value: {} } }, false],
    ['a property that may be anything, as a boolean', { ...V, properties: { value: true } }, false],
    ['a list of anything', { ...V, properties: { value: { type: 'array' } } }, false],
    [
      'an untyped list of open objects',
      { ...V, properties: { value: { items: { type: 'object' } } } },
      false,
    ],
    [
      'an open object among other types',
      { ...V, properties: { value: { type: ['null', 'object'] } } },
      false,
    ],
    ['parts that are joined', { ...V, allOf: [P] }, false],
    ['keys of any name', { ...V, patternProperties: { '^x': V } }, false],
    ['a closed branch', { ...V, properties: { value: { anyOf: [{ type: 'null' }, P] } } }, true],
    [
      'a reference to a closed definition',
      { ...V, properties: { value: { $ref: '#/$defs/p' } }, $defs: { p: P } },
      true,
    ],
    ['limits', { ...V, properties: { value: { type: 'integer', minimum: 1 } } }, true],
    ['open to some', { ...P, additionalProperties: { type: 'string' } }, false],
    ['one that is not required', { ...P, required: ['name'] }, false],
    ['nothing required', { type: 'object', properties: { a: {} } }, false],
    [
      'an inner object that is open',
      { ...V, properties: { value: { type: 'object', additionalProperties: true } } },
      false,
    ],
    [
      'an inner list of loose objects',
      { ...V, properties: { value: { type: 'array', items: { type: 'object', properties: { a: {} } } } } },
      false,
    ],
    ['a loose definition', { ...V, $defs: { x: { type: 'object', properties: { a: {} } } } }, false],
    [
      'a loose branch',
      {
        ...V,
        properties: { value: { anyOf: [{ type: 'null' }, { type: 'object', properties: { a: {} } }] } },
      },
      false,
    ],
    [
      'a property that is named properties',
      { ...V, properties: { properties: { type: 'string' } }, required: ['properties'] },
      true,
    ],
    ['words that look like a schema in a default', { ...V, default: { additionalProperties: true } }, true],
  ])('%s', (_, schema, expected) => {
    expect(isStrict(schema)).toBe(expected)
    expect(responseFormat(schema)).toMatchObject({ json_schema: { strict: expected } })
  })
})

describe('the name of a schema', () => {
  it('is its title as far as names allow it, else a hash that does not depend on the order of keys', () => {
    expect(schemaName({ title: 'Person' })).toBe('Person')
    expect(schemaName({ title: 'Ein Mühlenbuch (2.0)' })).toBe('Ein_M_hlenbuch_2_0_')
    expect(schemaName({ title: 'x'.repeat(100) })).toHaveLength(64)
    expect(schemaName({ title: '…' })).toMatch(/^schema_[0-9a-f]{16}$/)
    expect(schemaName(turned(P))).toBe(schemaName(P))
    expect(schemaName(V)).not.toBe(schemaName(P))
  })
})

describe('a schema that cannot be used', () => {
  it.each([
    ['no schema', { type: 'object', properties: { a: { type: 'thing' } } }, '/properties/a/type'],
    ['not an object at its root', { type: 'array', items: {} }, '/type'],
    ['without a type at its root', { properties: {} }, '/type'],
    [
      'a reference to nowhere',
      { type: 'object', properties: { a: { $ref: '#/$defs/gone' } } },
      '/properties/a',
    ],
    [
      'a reference to elsewhere',
      { type: 'object', properties: { a: { $ref: 'https://example.invalid/s' } } },
      '/properties/a',
    ],
    ['an unknown dialect', { $schema: 'https://example.invalid/draft', type: 'object' }, '/$schema'],
    ['a list', [], ''],
    ['text', '{"type":"object"}', ''],
  ])('%s: is refused before anything is sent, with its place', async (_, responseSchema, place) => {
    await using test = await setup(completion('{}'))
    const request = { ...ask, responseSchema: responseSchema as never }
    const thrown = await failure(test.provider, request, 'provider_invalid_request')
    expect(thrown.code).toBe('schema_invalid')
    expect(thrown.details['place']).toBe(place)
    expect(test.server.requests).toHaveLength(0)
  })
})
