// What refusals mean, in the words of real servers.
import { describe, expect, it } from 'vitest'
import { embeddedError, refusalError, retryAfter } from '../../src/llm/provider-error.ts'
import { isOutputRefusal } from '../../src/llm/structured-output/schema-refusal.ts'

const refusal = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  refusalError({
    status,
    headers: new Headers(headers),
    text: typeof body === 'string' ? body : JSON.stringify(body),
    destination: 'http://server/v1',
    circuit: 'llm:openai',
  })

describe('a refusal', () => {
  it.each([
    [
      'OpenAI, wrong key',
      401,
      { error: { message: 'Incorrect API key provided', code: 'invalid_api_key' } },
      'llm_authentication',
    ],
    [
      'OpenAI, no such model',
      404,
      { error: { message: 'The model `x` does not exist', code: 'model_not_found' } },
      'llm_model_unknown',
    ],
    [
      'Ollama, no such model',
      404,
      { error: { message: 'model "x" not found, try pulling it first' } },
      'llm_model_unknown',
    ],
    [
      'vLLM, no such model',
      404,
      { object: 'error', message: 'The model `x` does not exist.', code: 404 },
      'llm_model_unknown',
    ],
    ['a path that is not there', 404, '404 page not found', 'llm_address_wrong'],
    ['a path with another method', 405, { detail: 'Method Not Allowed' }, 'llm_address_wrong'],
    [
      'Azure, no such deployment',
      404,
      {
        error: {
          code: 'DeploymentNotFound',
          message: 'The API deployment for this resource does not exist.',
        },
      },
      'llm_model_unknown',
    ],
    [
      'OpenAI, quota',
      429,
      { error: { code: 'insufficient_quota', message: 'You exceeded your current quota' } },
      'llm_quota_exhausted',
    ],
    [
      'Gemini, a limit per minute called quota',
      429,
      { error: { message: 'You exceeded your current quota', status: 'RESOURCE_EXHAUSTED' } },
      'llm_rate_limited',
    ],
    ['DeepSeek, no balance', 402, { error: { message: 'Insufficient Balance' } }, 'llm_quota_exhausted'],
    [
      'llama.cpp, loading',
      503,
      { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } },
      'llm_model_loading',
    ],
    ['a proxy, no upstream', 503, '<html>Service Temporarily Unavailable</html>', 'llm_unavailable'],
    ['a proxy, bad gateway', 502, '<html>Bad Gateway</html>', 'llm_unavailable'],
    ['overloaded', 529, '', 'llm_unavailable'],
    ['a request that took too long', 408, '', 'llm_unavailable'],
    [
      'OpenAI, context',
      400,
      { error: { code: 'context_length_exceeded', message: 'too long' } },
      'context_overflow',
    ],
    [
      'llama.cpp, context',
      400,
      {
        error: {
          code: 400,
          type: 'exceed_context_size_error',
          message: 'the request exceeds the available context size',
        },
      },
      'context_overflow',
    ],
    [
      'vLLM, context',
      400,
      { object: 'error', message: "This model's maximum context length is 4096 tokens." },
      'context_overflow',
    ],
    [
      'FastAPI',
      422,
      { detail: [{ loc: ['body', 'seed'], msg: 'Extra inputs are not permitted' }] },
      'llm_request_invalid',
    ],
    ['text', 400, 'no', 'llm_request_invalid'],
    ['nothing', 418, '', 'llm_request_invalid'],
  ])('of %s', (_, status, body, code) => {
    expect(refusal(status as number, body).code).toBe(code)
  })

  it('quotes any form of error body in one line', () => {
    expect(refusal(400, { error: 'just\ntext' }).message).toBe(
      'http://server/v1 refused the request (400): just text',
    )
    expect(refusal(400, { message: 'bare' }).message).toContain(': bare')
    expect(refusal(400, { detail: [{ msg: 'not permitted' }] }).message).toContain('not permitted')
    expect(refusal(500, 'x'.repeat(10_000)).message.length).toBeLessThan(600)
    expect(refusal(500, '').message).toBe('http://server/v1 had an error (500).')
  })

  it('of a path may be about the requested form of reply', () => {
    const words = 'No endpoints found that support the parameter response_format'
    expect(isOutputRefusal(refusal(404, { error: { message: words, code: 404 } }))).toBe(true)
    expect(isOutputRefusal(refusal(404, '404 page not found'))).toBe(false)
  })

  it('inside a reply is that of an unavailable server, unless it says what it is', () => {
    const code = (error: unknown) =>
      embeddedError(error, { destination: 'http://server/v1', circuit: 'c' }).code
    expect(code({ message: 'boom', code: 500 })).toBe('llm_unavailable')
    expect(code('boom')).toBe('llm_unavailable')
    expect(code({ code: 'context_length_exceeded' })).toBe('context_overflow')
    expect(code({ code: 429, message: 'slow down' })).toBe('llm_rate_limited')
    expect(code({ code: 'insufficient_quota' })).toBe('llm_quota_exhausted')
  })
})

describe('the wait that a server asks for', () => {
  const now = Date.parse('Wed, 21 Oct 2026 07:28:00 GMT')
  it.each([
    [{ 'retry-after': '30' }, 30_000],
    [{ 'retry-after': '0.5' }, 500],
    [{ 'retry-after': 'Wed, 21 Oct 2026 07:28:05 GMT' }, 5000],
    [{ 'retry-after': 'Wed, 21 Oct 2026 07:27:00 GMT' }, 0],
    [{ 'retry-after-ms': '250', 'retry-after': '30' }, 250],
    [{ 'retry-after': '-3' }, 0],
    [{ 'retry-after': 'soon' }, undefined],
    [{ 'retry-after': 'Infinity' }, undefined],
    [{ 'retry-after': '' }, undefined],
    [{}, undefined],
  ])('of %j', (headers, expected) => {
    expect(retryAfter(new Headers(headers as Record<string, string>), now)).toBe(expected)
  })
})
