// OpenArmature's published fixtures 072-077 and 081: extras that name a field which the mapping manages.
import { describe, expect, it } from 'vitest'
import type { CallOptions, RuntimeConfig } from '../../src/complete/provider.ts'
import { responseFormat } from '../../src/llm/openai/response-format.ts'
import { chunk, completion, failure, frozen, hi, setup, turned, V, weather } from './harness.ts'

const object = { type: 'json_object' }
const streamed = { events: [chunk({ content: '{"value":1}' }, 'stop'), '[DONE]'] }

type More = { readonly responseSchema?: typeof V; readonly tools?: readonly (typeof weather)[] }

async function refuses(config: RuntimeConfig, more: More = {}, options: CallOptions = {}) {
  await using test = await setup(completion('no'))
  await failure(test.provider, { messages: hi, config, ...more }, 'provider_invalid_request', options)
  expect(test.server.requests).toHaveLength(0)
}

async function sends(config: RuntimeConfig, more: More = {}, options: CallOptions = {}) {
  await using test = await setup(options.stream ? streamed : completion('{"value":1}'))
  await test.provider.complete(frozen({ messages: hi, config, ...more }), options)
  return test.wire()[0]!
}

describe('072 response_format', () => {
  it('is refused when it contradicts a schema, and passes without one', async () => {
    await refuses({ extras: { response_format: object } }, { responseSchema: V })
    expect((await sends({ extras: { response_format: object } }))['response_format']).toEqual(object)
  })

  it('is the same in any order of keys', async () => {
    const extras = { response_format: turned(turned(responseFormat(V)), false) }
    const body = await sends({ extras }, { responseSchema: V })
    expect(body['response_format']).toEqual(responseFormat(V))
  })
})

describe('073 stream_options', () => {
  it('is refused while streaming, and passes otherwise', async () => {
    const extras = { stream_options: { include_usage: false } }
    await refuses({ extras }, {}, { stream: true })
    expect((await sends({ extras }))['stream_options']).toEqual({ include_usage: false })
    const same = { extras: { stream_options: { include_usage: true } } }
    expect((await sends(same, {}, { stream: true }))['stream_options']).toEqual({ include_usage: true })
  })
})

describe('074 model and the other structure', () => {
  it.each([
    ['another model', { model: 'other' }, {}],
    ['other messages', { messages: [] }, {}],
    ['other tools', { tools: [] }, { tools: [weather] }],
  ])('%s: is refused', async (_, extras, more) => {
    await refuses({ extras }, more)
  })

  it('is a no-op when it is the same, and passes when it is not managed', async () => {
    expect(await sends({ extras: { model: 'test-model', messages: hi } })).toEqual({
      model: 'test-model',
      messages: hi,
    })
    expect(await sends({ extras: { tools: [1], tool_choice: 'auto' } })).toMatchObject({
      tools: [1],
      tool_choice: 'auto',
    })
  })
})

describe('075 declared scalars', () => {
  it('is refused when they differ, sent once when they are equal', async () => {
    await refuses({ temperature: 0.2, extras: { temperature: 0.7 } })
    await refuses({ temperature: 0.2, extras: { temperature: null } })
    expect(await sends({ temperature: 0.2, extras: { temperature: 0.2 } })).toMatchObject({
      temperature: 0.2,
    })
    expect(await sends({ maxTokens: 1, extras: { max_tokens: 1.0 } })).toMatchObject({ max_tokens: 1 })
    expect(await sends({ extras: { temperature: 0.7 } })).toMatchObject({ temperature: 0.7 })
  })
})

describe('076 and 081 stop', () => {
  it.each([
    ['merged, declared first', ['STOP'], ['END'], ['STOP', 'END']],
    ['each once', ['STOP'], ['STOP'], ['STOP']],
    ['one string', ['STOP'], 'END', ['STOP', 'END']],
    ['more than the server takes', ['1', '2', '3'], ['4', '5'], ['1', '2', '3', '4', '5']],
    ['a list with something else in it, wholly absent', ['STOP'], ['END', 123], ['STOP']],
    ['no list, absent', ['STOP'], 5, ['STOP']],
    ['null, absent', ['STOP'], null, ['STOP']],
    ['none declared, untouched', undefined, 'END', 'END'],
    ['none declared and malformed, untouched', undefined, ['END', 123], ['END', 123]],
  ])('%s', async (_, stopSequences, stop, expected) => {
    expect((await sends({ stopSequences, extras: { stop } }))['stop']).toEqual(expected)
  })
})

describe('077 stream', () => {
  it('is refused when it contradicts the argument, and absorbed when it says the same', async () => {
    await refuses({ extras: { stream: false } }, {}, { stream: true })
    await refuses({ extras: { stream: true } })
    expect(await sends({ extras: { stream: false } })).not.toHaveProperty('stream')
    expect(await sends({ extras: { stream: true } }, {}, { stream: true })).toMatchObject({ stream: true })
  })
})

describe('any other extra', () => {
  it('passes untouched under any name', async () => {
    const extras = JSON.parse('{"grammar":"root ::= x","__proto__":{"a":null},"n":null}') as object
    const body = await sends({ extras: extras as Record<string, unknown> })
    expect(body['grammar']).toBe('root ::= x')
    expect(Object.hasOwn(body, '__proto__')).toBe(true)
    expect(body['n']).toBeNull()
  })

  it('that hides a schema keeps the order of its properties', async () => {
    await using test = await setup(completion('x'))
    const schema = { type: 'object', properties: { z: { type: 'string' }, a: { type: 'string' } } }
    await test.provider.complete({ messages: hi, config: { extras: { guided_json: schema } } })
    expect(test.server.requests[0]!.text).toMatch(/"properties":\{"z":.*"a":/)
  })
})
