// A server with Gemini's API for tests, on 127.0.0.1 and a free port. It keeps every request, refuses those that break a published
// rule of the wire, and replies as its script says (llm-script.ts), or with the answers of a list.
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { jsonValue } from '../../src/json-value.ts'
import { brokenRule } from './gemini-rules.ts'
import { answerer, type LlmScript, type Reply } from './llm-script.ts'
import {
  type Recorded,
  type RecordingServer,
  type Scripted,
  startRecordingServer,
} from './recording-server.ts'

type Fields = Readonly<Record<string, unknown>>

export interface GeminiScript extends Pick<LlmScript, 'rules' | 'models' | 'apiKey'> {
  /** Answers to the calls for content, in order; those after the last one follow the script. An error is `[status, word, message, details]`. */
  readonly answers?: readonly (Scripted | GoogleError)[]
  /** The model takes no schema, or no system instruction, or no functions, as Gemma does. */
  readonly lacks?: readonly ('schema' | 'instruction' | 'functions')[]
}

export type GoogleError = readonly [
  status: number,
  word: string,
  message: string,
  details?: readonly Fields[],
]

export interface GeminiServer
  extends Pick<RecordingServer, 'origin' | 'requests' | 'close' | 'until'>,
    AsyncDisposable {
  /** The bodies of the calls for content, oldest first. */
  readonly bodies: () => readonly Fields[]
  /** Resolves when the client gave up a call. */
  readonly cancelled: Promise<void>
}

export async function startGeminiServer(script: GeminiScript = {}): Promise<GeminiServer> {
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
    const { apiKey, models = ['test-model'] } = script
    if (apiKey && request.headers['x-goog-api-key'] !== apiKey)
      return refuse(response, [
        400,
        'INVALID_ARGUMENT',
        'API key not valid. Please pass a valid API key.',
        [{ reason: 'API_KEY_INVALID' }],
      ])
    const { pathname } = new URL(request.path, 'http://server')
    const found = /^\/v1beta\/models(?:\/([^:/]+))?(?::(\w+))?$/.exec(pathname)
    if (!found) return refuse(response, undefined)
    const [, model, method] = found
    if (model !== undefined && !models.includes(decodeURIComponent(model)))
      return refuse(response, [
        404,
        'NOT_FOUND',
        `models/${model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models.`,
      ])
    if (method === undefined) return list(response, models, model)
    const broken = brokenRule({ ...request, body: request.json }) ?? lacking(request.json)
    if (broken !== undefined) return refuse(response, [400, 'INVALID_ARGUMENT', broken])
    const byHand = answers.shift()
    if (Array.isArray(byHand)) return refuse(response, byHand as unknown as GoogleError)
    if (byHand) return writeScripted(response, byHand as Scripted)
    const reply = await answer(seen(request.json))
    await write(response, request.json, reply, method === 'streamGenerateContent')
  }

  function lacking(body: Fields): string | undefined {
    const { lacks = [] } = script
    const config = (body['generationConfig'] ?? {}) as Fields
    if (lacks.includes('instruction') && body['systemInstruction'])
      return 'Developer instruction is not enabled for models/test-model'
    if (lacks.includes('functions') && body['tools'])
      return 'Function calling is not enabled for models/test-model'
    if (lacks.includes('schema') && config['responseMimeType'])
      return 'JSON mode is not enabled for models/test-model'
    return undefined
  }

  return {
    ...server,
    bodies: () => server.requests.filter(({ path }) => /:\w+/.test(path)).map(({ json }) => json),
    cancelled: gone.promise,
  }
}

/** Google answers a path that it does not know with a page. */
function refuse(response: ServerResponse, error: GoogleError | undefined): void {
  if (!error)
    return void response
      .writeHead(404, { 'content-type': 'text/html' })
      .end('<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>')
  const [code, status, message, details] = error
  response.writeHead(code, { 'content-type': 'application/json; charset=UTF-8' })
  response.end(JSON.stringify({ error: { code, message, status, ...(details && { details }) } }, null, 2))
}

function list(response: ServerResponse, models: readonly string[], model: string | undefined): void {
  const entry = (name: string) => ({
    name: `models/${name}`,
    inputTokenLimit: 1_000_000,
    supportedGenerationMethods: ['generateContent', 'countTokens'],
  })
  const body =
    model === undefined
      ? {
          models: [
            ...models.map(entry),
            { name: 'models/embedder', supportedGenerationMethods: ['embedContent'] },
          ],
        }
      : entry(model)
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function writeScripted(
  response: ServerResponse,
  { status = 200, headers, body, events, cut }: Scripted,
): void {
  const type = events ? 'text/event-stream' : typeof body === 'string' ? 'text/html' : 'application/json'
  response.writeHead(status, { 'content-type': type, ...headers })
  const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
  const text = events ? events.map((event) => `data: ${asText(event)}\r\n\r\n`).join('') : asText(body ?? {})
  if (Buffer.isBuffer(body)) response.end(body)
  else if (cut) response.write(text, () => response.destroy())
  else response.end(text)
}

/** A chunk of a reply, or a whole one. */
export function chunk(
  parts: readonly Fields[],
  finishReason?: string,
  usage: readonly [number, number] = [4, 3],
): Fields {
  const [promptTokenCount, candidatesTokenCount] = usage
  return {
    candidates: [{ content: { role: 'model', parts }, index: 0, ...(finishReason && { finishReason }) }],
    usageMetadata: {
      promptTokenCount,
      candidatesTokenCount,
      totalTokenCount: promptTokenCount + candidatesTokenCount,
    },
    modelVersion: 'test-model',
    responseId: 'r-1',
  }
}

function seen(body: Fields) {
  const turns = [body['systemInstruction'] ?? {}, ...(body['contents'] as unknown[])] as {
    role?: string
    parts?: { text?: string }[]
  }[]
  const texts = turns.map(({ parts = [] }) => parts.map(({ text = '' }) => text).join('\n'))
  const last = turns.findLastIndex(({ role }) => role === 'user')
  return { prompt: texts[last] ?? '', conversation: texts.filter(Boolean).join('\n\n'), body }
}

/** Lines become the list of items that a schema asks for; in a function they are its arguments. */
function formed(text: string, body: Fields): { text?: string; call?: Fields } {
  const config = (body['generationConfig'] ?? {}) as Fields
  const [tool] = (body['tools'] ?? []) as { functionDeclarations: Fields[] }[]
  const declared = tool?.functionDeclarations[0]
  if (!config['responseJsonSchema'] && !declared) return { text }
  const isWhole = text.startsWith('{') && jsonValue(text.trim()) !== undefined && !text.includes('\n')
  const json = isWhole ? text : `{"items":[${text.trim().split('\n').filter(Boolean).join(',')}]}`
  return declared ? { call: { name: declared['name'], args: JSON.parse(json) } } : { text: json }
}

async function write(response: ServerResponse, body: Fields, reply: Reply, isStream: boolean): Promise<void> {
  const { maxOutputTokens = Number.POSITIVE_INFINITY } = (body['generationConfig'] ?? {}) as {
    maxOutputTokens?: number
  }
  const { text: whole = '', call } = formed(reply.text ?? '', body)
  const tokens = whole.match(/[\s\S]{1,4}/g) ?? []
  const limit = Math.min(maxOutputTokens, reply.truncateAfter ?? Number.POSITIVE_INFINITY)
  const kept = tokens.slice(0, limit)
  const finish = reply.finish ?? (kept.length < tokens.length ? 'MAX_TOKENS' : 'STOP')
  const counts = [Math.ceil(seen(body).conversation.length / 4), kept.length] as const
  const thoughts = reply.reasoning ? [{ text: reply.reasoning, thought: true }] : []
  const parts = call ? [{ functionCall: call }] : undefined
  if (!isStream) {
    const content = [...thoughts, ...(parts ?? [{ text: kept.join('') }])]
    return void response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify(chunk(content, finish, counts)))
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (value: Fields) => response.write(`data: ${JSON.stringify(value)}\r\n\r\n`)
  if (thoughts.length > 0) send(chunk(thoughts, undefined, counts))
  for (const [at, token] of kept.entries()) {
    if (reply.refuse && at === (reply.refuseAfter ?? Math.ceil(kept.length / 2)))
      return spoil(response, reply.refuse)
    if (reply.tokensPerSecond) await pause(1000 / reply.tokensPerSecond)
    if (response.destroyed) return
    if (!send(chunk([{ text: token }], undefined, counts))) await once(response, 'drain')
  }
  send(chunk(parts ?? [{ text: '' }], finish, counts))
  response.end()
}

function spoil(response: ServerResponse, how: NonNullable<Reply['refuse']>): void {
  if (how === 'stream-error')
    response.write(
      `data: ${JSON.stringify({ error: { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' } })}\r\n\r\n`,
    )
  if (how === 'cut') response.write('', () => response.destroy())
  else if (how !== 'stall') response.end()
}
