// Ollama's own API for tests, on 127.0.0.1 and a free port, written from what its server was seen to do. It answers by itself,
// or exactly the bytes that a test scripts, in exactly these packets. It speaks real HTTP; nothing of the client is replaced.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface OllamaRequest {
  readonly method: string
  readonly path: string
  readonly contentType: string | undefined
  /** The body as JSON, or undefined. */
  readonly body: OllamaRequestBody | undefined
}

export interface OllamaRequestBody {
  readonly model?: string
  readonly messages?: readonly { readonly role: string; readonly content: string }[]
  readonly prompt?: string
  readonly system?: string
  readonly stream?: boolean
  readonly truncate?: boolean
  readonly options?: Readonly<Record<string, unknown>>
  readonly [name: string]: unknown
}

/** An answer, byte for byte. */
export interface OllamaAnswer {
  /** Default 200. */
  readonly status?: number
  /** Default `application/x-ndjson`, and `application/json` for a status that is not 200. */
  readonly contentType?: string
  /** Each is one chunk of the body. */
  readonly chunks: readonly (string | Uint8Array)[]
  /** Behind the last chunk: the end of the body, a cut connection, or silence. Default `end`. */
  readonly close?: 'end' | 'cut' | 'silence'
}

export interface OllamaScript {
  /** The models that there are. Default: `test-model:latest`. */
  readonly models?: readonly string[]
  /** What the model says. Default `Hello.` */
  readonly text?: string
  /** What it thinks first. Default: nothing. */
  readonly thinking?: string
  /** Knows `truncate: false`, and refuses a prompt that does not fit; others cut it in silence. Default false. */
  readonly refusesOverflow?: boolean
  /** Answers in place of the server. */
  readonly answer?: OllamaAnswer | ((request: OllamaRequest) => OllamaAnswer | undefined)
}

export interface OllamaServer {
  /** As OLLAMA_HOST is written: `127.0.0.1:port`. */
  readonly host: string
  readonly url: string
  readonly requests: readonly OllamaRequest[]
  /** Calls that the client gave up before the end. */
  readonly cancelled: number
  set(script: OllamaScript): void
  /** Resolves when the client has given up so many calls. */
  untilCancelled(calls: number): Promise<void>
  close(): Promise<void>
}

export async function startOllamaServer(script: OllamaScript = {}): Promise<OllamaServer> {
  let current = script
  let cancelled = 0
  const requests: OllamaRequest[] = []
  const waiting = new Set<() => void>()

  const server = createServer((request, response) => {
    response.once('close', () => {
      if (!response.writableFinished) cancelled++
      for (const look of waiting) look()
    })
    serve(request, response).catch(() => response.destroy())
  })

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await read(incoming)
    requests.push(request)
    const { answer } = current
    const scripted = typeof answer === 'function' ? answer(request) : answer
    await write(response, scripted ?? answerOf(request, current))
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    host,
    url: `http://${host}`,
    requests,
    get cancelled() {
      return cancelled
    },
    set(next) {
      current = next
    },
    untilCancelled(calls) {
      return new Promise((resolve) => {
        const look = () => {
          if (cancelled < calls) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      })
    },
    async close() {
      if (!server.listening) return
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

async function read(incoming: IncomingMessage): Promise<OllamaRequest> {
  const parts: Buffer[] = []
  for await (const part of incoming) parts.push(part as Buffer)
  let body: OllamaRequestBody | undefined
  try {
    body = JSON.parse(Buffer.concat(parts).toString()) as OllamaRequestBody
  } catch {
    // Answered with 400 where a body is due.
  }
  const { method = '', url = '/', headers } = incoming
  return { method, path: url, contentType: headers['content-type'], body }
}

async function write(
  response: ServerResponse,
  { status = 200, chunks, ...answer }: OllamaAnswer,
): Promise<void> {
  const type = answer.contentType ?? (status === 200 ? 'application/x-ndjson' : 'application/json')
  response.writeHead(status, { 'content-type': type })
  response.flushHeaders()
  for (const chunk of chunks) {
    const flushed = response.write(chunk)
    if (!flushed && !response.destroyed)
      await Promise.race([once(response, 'drain'), once(response, 'close')])
    if (response.destroyed) return
  }
  if (answer.close === 'cut') response.write('', () => response.destroy())
  else if (answer.close !== 'silence') response.end()
}

function answerOf({ method, path, body }: OllamaRequest, script: OllamaScript): OllamaAnswer {
  const { models = ['test-model:latest'] } = script
  if (method === 'GET' && path === '/api/tags')
    return json({ models: models.map((name) => ({ name, model: name })) })
  if (!['/api/chat', '/api/generate', '/api/show'].includes(path)) return refusal(404, '404 page not found')
  if (!body) return refusal(400, 'invalid character')
  const { model = '' } = body
  if (!models.some((name) => name === model || name === `${model}:latest`))
    return refusal(404, `model '${model}' not found`)
  if (path === '/api/show') return json({ details: { family: 'test' } })
  return reply(body, script, path === '/api/chat' ? chatFields : generateFields)
}

function reply(body: OllamaRequestBody, script: OllamaScript, fields: typeof chatFields): OllamaAnswer {
  const { text = 'Hello.', thinking = '' } = script
  const { num_ctx = 4096, num_predict = Number.POSITIVE_INFINITY } = body.options ?? {}
  const asked = body.messages
    ? body.messages.map(({ content }) => content).join('')
    : `${body.system ?? ''}${body.prompt}`
  const promptTokens = tokens(asked).length
  if (promptTokens > Number(num_ctx) && script.refusesOverflow && body.truncate === false)
    return refusal(400, 'the input length exceeds the context length')
  const written = tokens(text).slice(0, Number(num_predict))
  const records = [
    ...tokens(thinking).map((token) => fields('', token)),
    ...written.map((token) => fields(token)),
    {
      ...fields(''),
      done: true,
      done_reason: written.length < tokens(text).length ? 'length' : 'stop',
      total_duration: 5_000_000,
      ...(promptTokens > 0 && { prompt_eval_count: Math.min(promptTokens, Number(num_ctx)) }),
      ...(written.length > 0 && { eval_count: written.length, eval_duration: 1_000_000 }),
    },
  ]
  const head = { model: body.model, created_at: '2026-01-01T00:00:00.3255Z' }
  return { chunks: records.map((record) => line({ ...head, ...record })) }
}

function chatFields(content: string, thinking = ''): object {
  return { message: { role: 'assistant', content, ...(thinking && { thinking }) }, done: false }
}

function generateFields(response: string, thinking = ''): object {
  return { response, ...(thinking && { thinking }), done: false }
}

/** Four characters are a token. */
function tokens(text: string): string[] {
  return text.match(/.{1,4}/gsu) ?? []
}

/** A record as it stands in a stream. */
export function line(record: object): string {
  return `${JSON.stringify(record)}\n`
}

function json(body: object): OllamaAnswer {
  return { contentType: 'application/json', chunks: [JSON.stringify(body)] }
}

/** What Ollama answers before the first byte of a reply. */
export function refusal(status: number, error: string): OllamaAnswer {
  return { status, chunks: [JSON.stringify({ error })] }
}
