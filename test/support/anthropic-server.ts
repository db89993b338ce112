// A server with Anthropic's Messages API for tests, on 127.0.0.1 and a free port. It keeps every request, refuses those that break a
// published rule of the wire, and replies as its script says (llm-script.ts), or with the answers of a list.
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { brokenRule, type ModelRules } from './anthropic-rules.ts'
import { answerer, type LlmScript, type Reply } from './llm-script.ts'
import {
  type Recorded,
  type RecordingServer,
  type Scripted,
  startRecordingServer,
} from './recording-server.ts'

type Fields = Readonly<Record<string, unknown>>

export interface AnthropicScript extends Pick<LlmScript, 'rules' | 'models' | 'apiKey'>, Partial<ModelRules> {
  /** Answers to the calls for a message, in order; those after the last one follow the script. */
  readonly answers?: readonly (Scripted | AnthropicError)[]
}

/** `headers` may have `retry-after`. */
export type AnthropicError = readonly [
  status: number,
  type: string,
  message: string,
  headers?: Readonly<Record<string, string>>,
]

export interface AnthropicRecording
  extends Pick<RecordingServer, 'origin' | 'requests' | 'close' | 'until'>,
    AsyncDisposable {
  /** The bodies of the calls for a message, oldest first. */
  readonly bodies: () => readonly Fields[]
  /** Resolves when the client gave up a call. */
  readonly cancelled: Promise<void>
}

export async function startAnthropicServer(script: AnthropicScript = {}): Promise<AnthropicRecording> {
  const { apiKey, models = ['test-model'], mostTokens = 64_000, lacks = [] } = script
  const answer = answerer(script)
  const answers = [...(script.answers ?? [])]
  const gone = Promise.withResolvers<void>()
  const by = (response: ServerResponse, request: Recorded) => {
    response.on('close', () => {
      if (!response.writableFinished) gone.resolve()
    })
    serve(response, request).catch(() => response.destroy())
  }
  const server = await startRecordingServer([{ by }])

  async function serve(response: ServerResponse, request: Recorded): Promise<void> {
    const { json: body, headers } = request
    if (apiKey && headers['x-api-key'] !== apiKey)
      return refuse(response, [401, 'authentication_error', 'invalid x-api-key'])
    const { pathname } = new URL(request.path, 'http://server')
    if (pathname.startsWith('/v1/models')) return list(response, pathname.slice('/v1/models/'.length))
    if (pathname !== '/v1/messages') return refuse(response, [404, 'not_found_error', 'Not Found'])
    if (!models.includes(String(body['model'])))
      return refuse(response, [404, 'not_found_error', `model: ${body['model']}`])
    const broken = brokenRule(request, { mostTokens, lacks })
    if (broken !== undefined) return refuse(response, [400, 'invalid_request_error', broken])
    const byHand = answers.shift()
    if (Array.isArray(byHand)) return refuse(response, byHand as unknown as AnthropicError)
    const scripted = byHand as Scripted | undefined
    if (scripted?.by) return scripted.by(response, request)
    if (scripted) return writeScripted(response, scripted)
    const reply = await answer(seen(body))
    await (body['stream'] ? writeStream : writeWhole)(response, body, reply)
  }

  function list(response: ServerResponse, name: string): void {
    const id = decodeURIComponent(name)
    if (id !== '' && !models.includes(id))
      return void refuse(response, [404, 'not_found_error', `model: ${id}`])
    const entry = (model: string) => ({
      type: 'model',
      id: model,
      display_name: model,
      created_at: '2026-01-01T00:00:00Z',
      max_input_tokens: 200_000,
      max_tokens: mostTokens,
      capabilities: { structured_outputs: { supported: !lacks.includes('format') } },
    })
    send(response, 200, id === '' ? { data: models.map(entry), has_more: false } : entry(id))
  }

  return {
    ...server,
    bodies: () => server.requests.filter(({ path }) => path === '/v1/messages').map(({ json }) => json),
    cancelled: gone.promise,
  }
}

function send(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

function refuse(response: ServerResponse, [status, type, message, headers]: AnthropicError): void {
  send(response, status, { type: 'error', error: { type, message }, request_id: 'req_test' }, headers)
}

/** An event of a stream, with its name. */
export function eventText(event: unknown): string {
  if (typeof event === 'string') return `data: ${event}\n\n`
  return `event: ${(event as Fields)['type']}\ndata: ${JSON.stringify(event)}\n\n`
}

function writeScripted(
  response: ServerResponse,
  { status = 200, headers, body, events, cut }: Scripted,
): void {
  const type = events ? 'text/event-stream' : typeof body === 'string' ? 'text/html' : 'application/json'
  response.writeHead(status, { 'content-type': type, ...headers })
  const text = events
    ? events.map(eventText).join('')
    : typeof body === 'string'
      ? body
      : JSON.stringify(body ?? {})
  if (cut) response.write(text, () => response.destroy())
  else response.end(text)
}

function textIn(content: unknown): string {
  if (typeof content === 'string') return content
  return (content as Fields[]).map(({ text = '' }) => String(text)).join('\n')
}

function seen(body: Fields) {
  const turns = body['messages'] as { role: string; content: unknown }[]
  const system = body['system'] === undefined ? [] : [String(body['system'])]
  const texts = turns.map(({ content }) => textIn(content))
  const last = turns.findLastIndex(({ role }) => role === 'user')
  return { prompt: texts[last] ?? '', conversation: [...system, ...texts].join('\n\n'), body }
}

/** The deltas of a block: text, or the input of the tool that must be called. Lines become the list of items that is asked for. */
function written(body: Fields, text: string) {
  const { output_config: config, tool_choice: choice } = body as Readonly<Record<string, Fields | undefined>>
  const tool = choice?.['type'] === 'tool' ? choice['name'] : undefined
  const isConstrained = tool !== undefined || config?.['format'] !== undefined
  const lines = () => text.trim().split('\n').filter(Boolean).join(',')
  const json =
    isConstrained && !/^\s*\{"items"/.test(text) && text.includes('\n') ? `{"items":[${lines()}]}` : text
  return { tool, tokens: json.match(/[\s\S]{1,4}/gu) ?? [] }
}

function prepared(body: Fields, reply: Reply) {
  const { tool, tokens } = written(body, reply.text ?? '')
  const limit = Math.min(Number(body['max_tokens']), reply.truncateAfter ?? Number.POSITIVE_INFINITY)
  const kept = tokens.slice(0, limit)
  const whole = tool === undefined ? 'end_turn' : 'tool_use'
  const stop = reply.finish ?? (kept.length < tokens.length ? 'max_tokens' : whole)
  const prompt = Math.ceil(seen(body).conversation.length / 4)
  return { tool, kept, stop, prompt }
}

async function writeStream(response: ServerResponse, body: Fields, reply: Reply): Promise<void> {
  const { tool, kept, stop, prompt } = prepared(body, reply)
  const { reasoning, refuse: spoiling, refuseAfter = Math.ceil(kept.length / 2), tokensPerSecond } = reply
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  const write = (event: Fields) => response.write(eventText(event))
  write({
    type: 'message_start',
    message: { ...message(body, [], null), usage: { input_tokens: prompt, output_tokens: 1 } },
  })
  let index = 0
  if (reasoning) {
    write({
      type: 'content_block_start',
      index,
      content_block: { type: 'thinking', thinking: '', signature: '' },
    })
    write({ type: 'ping' })
    write({ type: 'content_block_delta', index, delta: { type: 'thinking_delta', thinking: reasoning } })
    write({ type: 'content_block_delta', index, delta: { type: 'signature_delta', signature: 'c2ln' } })
    write({ type: 'content_block_stop', index: index++ })
  }
  const block =
    tool === undefined
      ? { type: 'text', text: '' }
      : { type: 'tool_use', id: 'toolu_1', name: tool, input: {} }
  write({ type: 'content_block_start', index, content_block: block })
  write({ type: 'ping' })
  for (const [at, token] of kept.entries()) {
    if (spoiling && at === refuseAfter) return spoil(response, spoiling)
    if (tokensPerSecond) await pause(1000 / tokensPerSecond)
    if (response.destroyed) return
    const delta =
      tool === undefined
        ? { type: 'text_delta', text: token }
        : { type: 'input_json_delta', partial_json: token }
    if (!write({ type: 'content_block_delta', index, delta })) await once(response, 'drain')
  }
  write({ type: 'content_block_stop', index })
  write({
    type: 'message_delta',
    delta: { stop_reason: stop, stop_sequence: null },
    usage: { output_tokens: kept.length },
  })
  write({ type: 'message_stop' })
  response.end()
}

function writeWhole(response: ServerResponse, body: Fields, reply: Reply): void {
  const { tool, kept, stop, prompt } = prepared(body, reply)
  const text = kept.join('')
  const answer =
    tool === undefined
      ? { type: 'text', text }
      : { type: 'tool_use', id: 'toolu_1', name: tool, input: JSON.parse(text) }
  const thoughts = reply.reasoning ? [{ type: 'thinking', thinking: reply.reasoning, signature: 'c2ln' }] : []
  const usage = { input_tokens: prompt, output_tokens: kept.length }
  send(response, 200, { ...message(body, [...thoughts, answer], stop), usage })
}

function message(body: Fields, content: readonly Fields[], stop: string | null): Fields {
  return {
    id: 'msg_test',
    type: 'message',
    role: 'assistant',
    model: body['model'],
    content,
    stop_reason: stop,
    stop_sequence: null,
  }
}

function spoil(response: ServerResponse, how: NonNullable<Reply['refuse']>): void {
  if (how === 'stream-error')
    response.write(eventText({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }))
  if (how === 'cut') response.write('', () => response.destroy())
  else if (how !== 'stall') response.end()
}
