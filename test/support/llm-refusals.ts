// The ways in which the scripted model server refuses a call before the first token, as real servers word them.
import type { ServerResponse } from 'node:http'
import type { Knobs, Refusal } from './llm-script.ts'
import type { ChatBody } from './llm-writer.ts'

type Refuse = (response: ServerResponse, knobs: Knobs, body?: ChatBody) => void

function json(status: number, error: (body?: ChatBody) => Readonly<Record<string, unknown>>): Refuse {
  return (response, knobs, body) => {
    const retryAfter = status === 429 ? { 'retry-after': String(knobs.retryAfter ?? 1) } : {}
    response.writeHead(status, { 'content-type': 'application/json', ...retryAfter })
    response.end(JSON.stringify({ error: error(body) }))
  }
}

const invalidKey = {
  message: 'Incorrect API key provided.',
  type: 'invalid_request_error',
  code: 'invalid_api_key',
}

const nothing: Refuse = () => {}

export const refusals: Readonly<Record<Refusal, Refuse>> = {
  unauthorized: json(401, () => invalidKey),
  forbidden: json(403, () => ({ message: 'This key may not use this model.', type: 'permission_error' })),
  'model-unknown': json(404, (body) => ({
    message: `The model \`${body?.model}\` does not exist or you do not have access to it.`,
    type: 'invalid_request_error',
    param: null,
    code: 'model_not_found',
  })),
  'rate-limit': json(429, () => ({
    message: 'Rate limit reached.',
    type: 'requests',
    code: 'rate_limit_exceeded',
  })),
  // Says Retry-After as well, which is no reason to wait for it.
  quota: json(429, () => ({
    message: 'You exceeded your current quota, please check your plan and billing details.',
    type: 'insufficient_quota',
    code: 'insufficient_quota',
  })),
  'server-error': json(500, () => ({ message: 'The server had an error.', type: 'server_error' })),
  loading: json(503, () => ({ message: 'Loading model', type: 'unavailable_error', code: 503 })),
  context: json(400, () => ({
    message: "This model's maximum context length is 8192 tokens. However, your messages resulted in more.",
    type: 'invalid_request_error',
    param: 'messages',
    code: 'context_length_exceeded',
  })),
  invalid: json(400, () => ({
    message: "Invalid type for 'messages': expected an array of objects.",
    type: 'invalid_request_error',
    param: 'messages',
    code: 'invalid_type',
  })),
  hang: nothing,
  reset: (response) => response.destroy(),
  html: (response) => {
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end('<!doctype html><html><body><h1>Welcome to the gateway</h1></body></html>')
  },
  malformed: (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end('data: {"choices": [{"delta": {"content": "Hel\n\ndata: nonsense\n\n')
  },
  // These come after a part of the reply: llm-writer.ts.
  'stream-error': nothing,
  cut: nothing,
  eof: nothing,
  stall: nothing,
}
