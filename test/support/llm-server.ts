// An OpenAI-compatible model server for tests and benches, on 127.0.0.1 and a free port: it says what its script says,
// and is slow, wrong, cut off or away on request. It speaks real HTTP; nothing of the client is replaced.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { refusals } from './llm-refusals.ts'
import { answerer, type Knobs, type LlmScript, type Refusal, type Reply } from './llm-script.ts'
import { type ChatBody, tokensOf, writeStream, writeWhole } from './llm-writer.ts'

export interface RecordedRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** The body as it came. */
  readonly text: string
  /** The body as JSON, or undefined. */
  readonly body: ChatBody | undefined
  /** Milliseconds since the server started. */
  readonly at: number
}

export interface Counts {
  /** Chat calls that arrived, whatever became of them. */
  calls: number
  /** Answered to the end. */
  completed: number
  /** Answered with an error, or with a spoiled reply. */
  refused: number
  /** Given up by the client before the end. */
  cancelled: number
  /** In work now. */
  concurrent: number
  /** The most that ever were in work at once. */
  maxConcurrent: number
  /** Connections that clients opened. */
  connections: number
}

export interface LlmServer {
  /** What goes into OPENAI_BASE_URL. */
  readonly url: string
  readonly port: number
  readonly counts: Counts
  /** The latest 10,000 requests, oldest first. */
  readonly requests: readonly RecordedRequest[]
  /** Changes knobs from now on; those not named stay; undefined takes one back. */
  set(knobs: { readonly [K in keyof LlmScript]?: LlmScript[K] | undefined }): void
  /** Gone: connections are cut and refused (`refuse`), or answered with 503 (`503`), until `back()`. */
  away(how: 'refuse' | '503'): Promise<void>
  back(): Promise<void>
  /** Resolves when `condition` holds; it is looked at whenever a count changes. */
  until(condition: (counts: Counts) => boolean): Promise<void>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const recordLimit = 10_000

export async function startLlmServer(script: LlmScript = {}, port = 0): Promise<LlmServer> {
  let current = script
  let answer = answerer(script)
  let busy = false
  const started = performance.now()
  const counts: Counts = {
    calls: 0,
    completed: 0,
    refused: 0,
    cancelled: 0,
    concurrent: 0,
    maxConcurrent: 0,
    connections: 0,
  }
  const requests: RecordedRequest[] = []
  const windows = { requests: slidingWindow(), tokens: slidingWindow() }
  const waiting = new Set<{ condition: (counts: Counts) => boolean; resolve: () => void }>()
  const changed = () => {
    for (const wait of waiting) {
      if (!wait.condition(counts)) continue
      waiting.delete(wait)
      wait.resolve()
    }
  }

  const server = createServer({ keepAliveTimeout: 30_000 }, (request, response) => {
    serve(request, response).catch(() => response.destroy())
  })

  server.on('connection', () => {
    counts.connections += 1
  })

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = new URL(request.url ?? '/', 'http://server').pathname
    const text = await textOf(request)
    const body = asJson(text) as ChatBody | undefined
    requests.push({
      method: request.method ?? '',
      path,
      headers: request.headers,
      text,
      body,
      at: performance.now() - started,
    })
    if (requests.length > recordLimit) requests.shift()
    if (path.startsWith('/control/')) return control(path, body, response)
    if (busy) return refusals.loading(response, current)
    if (current.apiKey && request.headers.authorization !== `Bearer ${current.apiKey}`)
      return refusals.unauthorized(response, current)
    if (path === '/v1/models') return listModels(response, current)
    if (path === '/v1/chat/completions' && request.method === 'POST') return chat(body, response)
    send(response, 404, { error: { message: `no route ${path}`, type: 'not_found', code: 404 } })
  }

  async function chat(body: ChatBody | undefined, response: ServerResponse): Promise<void> {
    const gone = new AbortController()
    let outcome: 'completed' | 'refused' = 'completed'
    counts.calls += 1
    counts.concurrent += 1
    counts.maxConcurrent = Math.max(counts.maxConcurrent, counts.concurrent)
    const number = counts.calls
    let inWork = true
    /** The last byte is written, or the client is gone: for the limit of calls at once this one is over. */
    const leave = () => {
      if (inWork) counts.concurrent -= 1
      inWork = false
    }
    response.once('close', () => {
      leave()
      if (outcome === 'refused') counts.refused += 1
      else if (response.writableFinished) counts.completed += 1
      else counts.cancelled += 1
      gone.abort()
      changed()
    })
    changed()
    const refuse = (kind: Refusal) => {
      outcome = 'refused'
      refusals[kind](response, current, body)
      if (response.writableEnded) leave()
    }
    if (!body || !Array.isArray(body.messages)) return refuse('invalid')
    const refusal = atTheDoor(body, number)
    if (refusal === 'unsupported') {
      outcome = 'refused'
      return
    }
    if (refusal && !spoils(refusal)) return refuse(refusal)
    const reply: Reply = { ...(await answer(seen(body))), ...(refusal ? { refuse: refusal } : {}) }
    windows.tokens.add(tokensOf(body, reply), current.windowMs ?? 60_000)
    const latency = reply.latencyMs ?? current.latencyMs ?? 0
    if (latency > 0) await pause(latency, undefined, { signal: gone.signal })
    if (reply.refuse && !spoils(reply.refuse)) return refuse(reply.refuse)
    if (reply.refuse) outcome = 'refused'
    const pace = reply.tokensPerSecond ?? current.tokensPerSecond
    const write = body.stream ? writeStream : writeWhole
    await write({ body, reply, response, signal: gone.signal, ...(pace ? { tokensPerSecond: pace } : {}) })
    if (response.writableEnded) leave()

    function atTheDoor(asked: ChatBody, call: number): Refusal | 'unsupported' | undefined {
      const { refuse: knob, maxConcurrent, maxRequests, maxTokens, windowMs = 60_000, models } = current
      if (maxConcurrent !== undefined && counts.concurrent > maxConcurrent) return 'rate-limit'
      if (maxRequests !== undefined && windows.requests.sum(windowMs) >= maxRequests) return 'rate-limit'
      if (maxTokens !== undefined && windows.tokens.sum(windowMs) >= maxTokens) return 'rate-limit'
      windows.requests.add(1, windowMs)
      if (models && !models.includes(asked.model ?? '')) return 'model-unknown'
      const parameter = current.unsupported?.find((name) => name in asked)
      if (parameter) {
        sendUnsupported(response, parameter)
        return 'unsupported'
      }
      if (current.contextTokens !== undefined && promptTokens(asked) > current.contextTokens) return 'context'
      if (!knob) return undefined
      if (knob.first !== undefined) return call <= knob.first ? knob.kind : undefined
      if (knob.every !== undefined) return call % knob.every === 0 ? knob.kind : undefined
      return knob.kind
    }
  }

  /** For a server that is a process of its own: POST /control/set, /control/away {how, ms}, GET /control/counts, /control/requests. */
  async function control(path: string, body: unknown, response: ServerResponse): Promise<void> {
    if (path === '/control/set') handle.set(body as Knobs)
    if (path === '/control/counts') return send(response, 200, counts)
    if (path === '/control/requests') return send(response, 200, requests)
    send(response, 200, {})
    if (path !== '/control/away') return
    const { how, ms } = body as { how: 'refuse' | '503'; ms: number }
    await once(response, 'close')
    await handle.away(how)
    setTimeout(() => void handle.back(), ms)
  }

  const listen = async (on: number) => {
    server.listen(on, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }
  const shut = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  const used = await listen(port)

  const handle: LlmServer = {
    url: `http://127.0.0.1:${used}/v1`,
    port: used,
    counts,
    requests,
    set(knobs) {
      current = { ...current, ...knobs } as LlmScript
      if ('rules' in knobs || 'chunk' in knobs) answer = answerer(current)
    },
    async away(how) {
      if (how === '503') busy = true
      else await shut()
    },
    async back() {
      busy = false
      if (!server.listening) await listen(used)
    },
    until(condition) {
      return new Promise((resolve) => {
        waiting.add({ condition, resolve })
        changed()
      })
    },
    close: shut,
    [Symbol.asyncDispose]: shut,
  }
  return handle
}

/** Refusals that come after a part of the reply. */
function spoils(kind: Refusal): boolean {
  return kind === 'cut' || kind === 'eof' || kind === 'stall' || kind === 'stream-error'
}

function seen(body: ChatBody): {
  prompt: string
  conversation: string
  body: Readonly<Record<string, unknown>>
} {
  const texts = body.messages.map(({ content }) =>
    typeof content === 'string' ? content : JSON.stringify(content),
  )
  const last = body.messages.findLastIndex(({ role }) => role === 'user')
  return { prompt: texts[last] ?? '', conversation: texts.join('\n\n'), body }
}

function promptTokens(body: ChatBody): number {
  return Math.ceil(seen(body).conversation.length / 4)
}

/** Sums of what was added in the last while. */
function slidingWindow() {
  const entries: { at: number; amount: number }[] = []
  let total = 0
  let head = 0
  const forget = (windowMs: number) => {
    const since = performance.now() - windowMs
    while (head < entries.length && entries[head]!.at <= since) total -= entries[head++]!.amount
    if (head > 1024) entries.splice(0, head)
    if (head > 1024) head = 0
  }
  return {
    add(amount: number, windowMs: number) {
      forget(windowMs)
      entries.push({ at: performance.now(), amount })
      total += amount
    },
    sum(windowMs: number) {
      forget(windowMs)
      return total
    },
  }
}

function listModels(response: ServerResponse, knobs: Knobs): void {
  const data = (knobs.models ?? ['test-model']).map((id) => ({
    id,
    object: 'model',
    created: 0,
    owned_by: 'test',
  }))
  send(response, 200, { object: 'list', data })
}

function sendUnsupported(response: ServerResponse, parameter: string): void {
  const instead = parameter === 'max_tokens' ? " Use 'max_completion_tokens' instead." : ''
  send(response, 400, {
    error: {
      message: `Unsupported parameter: '${parameter}' is not supported with this model.${instead}`,
      type: 'invalid_request_error',
      param: parameter,
      code: 'unsupported_parameter',
    },
  })
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return Buffer.concat(parts).toString('utf8')
}

function asJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
