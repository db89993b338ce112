// How long a request waits is its caller's to say.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { request } from '../../src/http/request.ts'
import type { Llm } from '../../src/llm/llm.ts'
import { createOllama } from '../../src/llm/ollama/ollama.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'

type Agent = new (limits: { headersTimeout: number; bodyTimeout: number }) => unknown

/** Node's own dispatcher then ends a silent connection after 0.3 s instead of 300. */
async function shortenNodesPatience(): Promise<void> {
  await fetch('data:,')
  const symbol = Symbol.for('undici.globalDispatcher.1')
  const before = Reflect.get(globalThis, symbol) as { constructor: Agent }
  Reflect.set(globalThis, symbol, new before.constructor({ headersTimeout: 300, bodyTimeout: 300 }))
  onTestFinished(() => void Reflect.set(globalThis, symbol, before))
}

/** What Node's fetch would not wait for. */
const impatient = (origin: string, path: string) => fetch(origin + path).then((response) => response.text())

/** Silent before its headers, and again before its body, for as long as Node's fetch has patience. */
async function startSilentServer(): Promise<string> {
  const answer = async ({ url, method }: IncomingMessage, response: ServerResponse) => {
    if (url === '/no-headers') return
    if (url === '/no-body') return response.flushHeaders()
    await expect(impatient(origin, '/no-headers')).rejects.toThrow('fetch failed')
    const isOllama = url === '/api/chat'
    response.setHeader('content-type', isOllama ? 'application/x-ndjson' : 'text/event-stream')
    response.flushHeaders()
    await expect(impatient(origin, '/no-body')).rejects.toThrow('terminated')
    const record = isOllama
      ? '{"message":{"content":"late"},"done":true,"done_reason":"stop"}\n'
      : 'data: {"choices":[{"delta":{"content":"late"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    return response.end(method === 'GET' ? 'late' : record)
  }
  const failed = (response: ServerResponse) => (error: Error) => response.destroy(error)
  const server = createServer((asked, response) => void answer(asked, response).catch(failed(response)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return origin
}

/** What a model says. */
async function saidBy(llm: Llm): Promise<string> {
  let text = ''
  const question = { messages: [{ role: 'user', content: 'x' }] } as const
  for await (const event of llm.stream(question, new AbortController().signal))
    if (event.type === 'delta') text += event.text
  return text
}

// A limit that no timer takes is none of 0 either.
const limits = { timeoutMs: Number.POSITIVE_INFINITY, callTimeoutMs: Number.POSITIVE_INFINITY }

test.each([
  ['a request', async (origin: string) => (await request(origin, {})).text()],
  ['OpenAI', (origin: string) => saidBy(createOpenAi({ baseUrl: origin, model: 'm' }))],
  ['Ollama', (origin: string) => saidBy(createOllama({ host: origin, model: 'm' }))],
  [
    'OpenAI without limits',
    (origin: string) => saidBy(createOpenAi({ baseUrl: origin, model: 'm', ...limits })),
  ],
  [
    'Ollama without limits',
    (origin: string) => saidBy(createOllama({ host: origin, model: 'm', ...limits })),
  ],
])('%s: a server may be silent for longer than the 300 s that Node waits', async (_, ask) => {
  await shortenNodesPatience()
  expect(await ask(await startSilentServer())).toBe('late')
})
