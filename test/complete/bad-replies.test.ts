// Replies that no one asked for: each is a typed error with the text, whole or streamed.
import { describe, expect, it } from 'vitest'
import type { Scripted } from '../support/recording-server.ts'
import { chunk, completion, failure, hi, P, setup } from './harness.ts'

const html = '<!DOCTYPE html><html><body>Welcome to the portal</body></html>'
const json = { 'content-type': 'application/json' }
const request = { messages: hi, responseSchema: P }

describe.each([
  ['whole', {}],
  ['streamed', { stream: true }],
])('%s', (_, options) => {
  it.each([
    ['HTML instead of JSON', { headers: { 'content-type': 'text/html' }, body: html }],
    ['HTML that says it is JSON', { headers: json, body: html }],
    ['a list', { headers: json, body: '[1,2]' }],
    ['choices without a message', { body: { choices: [{}] } }],
    ['choices that are none', { body: { choices: [] } }],
  ])('%s: is an invalid response', async (_, answer: Scripted) => {
    await using test = await setup(answer)
    await failure(test.provider, request, 'provider_invalid_response', options)
  })

  it('HTML is shown in the error', async () => {
    await using test = await setup({ headers: json, body: html })
    const thrown = await failure(test.provider, request, 'provider_invalid_response', options)
    expect(thrown.message).toContain('Welcome to the portal')
    expect(thrown.details['text']).toContain('<!DOCTYPE html>')
    expect(thrown.code).toBe('llm_address_wrong')
  })

  it("a proxy's 502 is unavailable, with its text", async () => {
    await using test = await setup({
      status: 502,
      headers: { 'content-type': 'text/html' },
      body: 'Bad Gateway: nginx',
    })
    const thrown = await failure(test.provider, request, 'provider_unavailable', options)
    expect(thrown.message).toContain('nginx')
  })

  it('invalid UTF-8 is an invalid response, with what could be read', async () => {
    const whole = JSON.stringify(completion('caf#').body)
    const event = `data: ${JSON.stringify(chunk({ content: 'caf#' }, 'stop'))}\n\ndata: [DONE]\n\n`
    const bytes = Buffer.from('stream' in options ? event : whole)
    bytes[bytes.indexOf('#')] = 0xe9
    const type = 'stream' in options ? 'text/event-stream' : 'application/json'
    await using test = await setup({ headers: { 'content-type': type }, body: bytes })
    const thrown = await failure(test.provider, { messages: hi }, 'provider_invalid_response', options)
    expect(thrown.message).toContain('UTF-8')
    expect(thrown.details['text']).toContain('caf')
  })

  it('a key that the server repeats is not shown', async () => {
    await using test = await setup({ headers: json, body: 'your key sk-secret is' }, { apiKey: 'sk-secret' })
    const thrown = await failure(test.provider, request, 'provider_invalid_response', options)
    expect(JSON.stringify([thrown.message, thrown.details])).not.toContain('sk-secret')
  })

  it('a line of 9 MB is read, and a reply above the limit is not', async () => {
    const long = 'x'.repeat(9 * 1024 * 1024)
    const answer = (content: string): Scripted =>
      'stream' in options ? { events: [chunk({ content }, 'stop'), '[DONE]'] } : completion(content)
    await using test = await setup([answer(long), answer(long + long)])
    const response = await test.provider.complete({ messages: hi }, options)
    expect(response.message.content).toHaveLength(long.length)
    await failure(test.provider, { messages: hi }, 'provider_invalid_response', options)
  })

  it('endless white space is an error', async () => {
    const space = ' '.repeat(1024 * 1024)
    await using test = await setup({
      by: (response) => {
        response.setHeader('content-type', 'stream' in options ? 'text/event-stream' : 'application/json')
        const more = () => {
          while (!response.destroyed && response.write(space));
          if (!response.destroyed) response.once('drain', more)
        }
        more()
      },
    })
    const thrown = await failure(test.provider, request, 'provider_invalid_response', options)
    expect(thrown.message).toMatch(/no completion/)
  })
})

describe('a value', () => {
  it('that is nested too deeply to be checked is invalid, not a crash', async () => {
    const responseSchema = {
      type: 'object',
      properties: { next: { $ref: '#' } },
      required: ['next'],
    } as const
    const depth = 20_000
    await using test = await setup(completion(`${'{"next":'.repeat(depth)}0${'}'.repeat(depth)}`))
    await failure(test.provider, { messages: hi, responseSchema }, 'structured_output_invalid')
  })

  it('with a __proto__ of its own pollutes nothing', async () => {
    await using test = await setup(completion('{"__proto__":{"polluted":1}}'))
    const response = await test.provider.complete({ messages: hi, responseSchema: { type: 'object' } })
    expect(Object.keys(response.parsed as object)).toEqual(['__proto__'])
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
  })

  it('is checked in linear time, with any pattern', async () => {
    const responseSchema = {
      type: 'object',
      properties: { a: { type: 'string', pattern: '^(a+)+$' } },
      required: ['a'],
    } as const
    await using test = await setup(completion(JSON.stringify({ a: `${'a'.repeat(50_000)}!` })))
    await failure(test.provider, { messages: hi, responseSchema }, 'structured_output_invalid')
  })
})
