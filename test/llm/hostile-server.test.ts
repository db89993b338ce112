// Hostile or broken model servers: what they send is bounded, and what they receive goes to no other host.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGzip } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createOpenAiProvider } from '../../src/complete/openai/openai.ts'
import type { GraphmillError } from '../../src/errors.ts'
import { createAnthropic } from '../../src/llm/anthropic/anthropic.ts'
import { createGemini } from '../../src/llm/gemini/gemini.ts'
import type { CompletionEvent, Llm } from '../../src/llm/llm.ts'
import { createOllama } from '../../src/llm/ollama/ollama.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => void

async function startServer(handler: Handler) {
  const server = createServer((request, response) => {
    response.on('error', () => {})
    handler(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface Wire {
  readonly name: string
  open(origin: string, limits?: { readonly callTimeoutMs: number }): Llm
  readonly contentType: string
  /** One delta, as the server sends it. */
  delta(text: string): string
}

const openai: Wire = {
  name: 'openai',
  open: (origin, limits) =>
    createOpenAi({ baseUrl: `${origin}/v1`, model: 'm', apiKey: 'sk-secret', timeoutMs: 20_000, ...limits }),
  contentType: 'text/event-stream',
  delta: (text) => `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`,
}

const ollama: Wire = {
  name: 'ollama',
  open: (origin, limits) => createOllama({ host: origin, model: 'm', timeoutMs: 20_000, ...limits }),
  contentType: 'application/x-ndjson',
  delta: (text) =>
    `${JSON.stringify({ model: 'm', message: { role: 'assistant', content: text }, done: false })}\n`,
}

const gemini: Wire = {
  name: 'gemini',
  open: (origin, limits) =>
    createGemini({ baseUrl: origin, model: 'm', apiKey: 'sk-secret', timeoutMs: 20_000, ...limits }),
  contentType: 'text/event-stream',
  delta: (text) => `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text }] } }] })}\n\n`,
}

const anthropic: Wire = {
  name: 'anthropic',
  open: (origin, limits) =>
    createAnthropic({ baseUrl: origin, model: 'm', apiKey: 'sk-secret', timeoutMs: 20_000, ...limits }),
  contentType: 'text/event-stream',
  delta: (text) =>
    `data: ${JSON.stringify({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })}\n\n`,
}

const request = { messages: [{ role: 'user', content: 'a text that stays here' }] } as const

async function call(llm: Llm) {
  const events: CompletionEvent[] = []
  try {
    for await (const event of llm.stream(request, new AbortController().signal)) events.push(event)
  } catch (thrown) {
    return { events, error: thrown as GraphmillError }
  }
  throw new Error('the call succeeded')
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => {
      throw new Error('it succeeded')
    },
    (thrown: unknown) => thrown as GraphmillError,
  )

/** Writes `piece` until nobody reads. */
function endless(
  response: {
    write(piece: string | Buffer): boolean
    once(event: 'drain', on: () => void): unknown
    readonly destroyed: boolean
  },
  piece: string | Buffer,
): void {
  if (response.destroyed) return
  if (response.write(piece)) setImmediate(endless, response, piece)
  else response.once('drain', () => endless(response, piece))
}

/** An endless body of blanks, compressed a thousandfold. */
function bomb(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
  const gzip = createGzip()
  gzip.pipe(response)
  response.on('close', () => gzip.destroy())
  endless(gzip, Buffer.alloc(1024 * 1024, ' '))
}

describe.each([openai, ollama, gemini, anthropic])('a model server ($name)', (wire) => {
  const { contentType, delta } = wire

  test('that drips for ever is cut off when the call takes too long, and the deltas are kept', async () => {
    const closed = Promise.withResolvers<void>()
    const origin = await startServer((_, response) => {
      response.writeHead(200, { 'content-type': contentType })
      const drip = setInterval(() => response.write(delta('drop ')), 20)
      response.on('close', () => {
        clearInterval(drip)
        closed.resolve()
      })
    })
    const { events, error } = await call(wire.open(origin, { callTimeoutMs: 1000 }))
    expect(events).not.toEqual([])
    expect(error).toMatchObject({ code: 'llm_call_too_long', retry: 'never' })
    expect(error.message).toContain('did not end its reply within 1 s')
    await closed.promise
  })

  test('that sends headers and then nothing is cut off when the call takes too long', async () => {
    const origin = await startServer((_, response) => {
      response.writeHead(200, { 'content-type': contentType })
      response.flushHeaders()
    })
    const { error } = await call(wire.open(origin, { callTimeoutMs: 500 }))
    expect(error.code).toBe('llm_call_too_long')
  })

  test('that streams without end is cut off at the size limit', async () => {
    const piece = delta('x'.repeat(4 * 1024 * 1024))
    const origin = await startServer((_, response) => {
      response.writeHead(200, { 'content-type': contentType })
      endless(response, piece)
    })
    let characters = 0
    const error = await failureOf(
      (async () => {
        for await (const event of wire.open(origin).stream(request, new AbortController().signal))
          if (event.type === 'delta') characters += event.text.length
      })(),
    )
    expect(error).toMatchObject({ code: 'reply_too_large', retry: 'never' })
    expect(characters).toBeLessThan(130 * 1024 * 1024)
  })

  test('that redirects is not followed: neither text nor key goes to another host', async () => {
    const asked: string[] = []
    const other = await startServer(({ url }, response) => {
      asked.push(url ?? '')
      response.end('{}')
    })
    for (const status of [301, 302, 307, 308]) {
      const origin = await startServer(({ url }, response) => {
        response.writeHead(status, { location: `${other}${url}?secret=1` }).end()
      })
      const llm = wire.open(origin)
      for (const error of [
        (await call(llm)).error,
        await failureOf(llm.ready(new AbortController().signal)),
      ]) {
        expect(error).toMatchObject({ code: 'llm_address_wrong', retry: 'operator' })
        expect(error.message).toContain(`it is at ${other}/`)
        expect(error.message).not.toContain('secret')
      }
    }
    expect(asked).toEqual([])
  })

  test('that answers with a body without end, or one that unpacks to gigabytes, costs no more than its limit', async () => {
    const before = process.memoryUsage.rss()
    let most = 0
    const watch = setInterval(() => {
      most = Math.max(most, process.memoryUsage.rss() - before)
    }, 5)
    onTestFinished(() => clearInterval(watch))
    for (const status of [200, 500]) {
      const plain = await startServer((_, response) => {
        response.writeHead(status, { 'content-type': 'application/json' })
        endless(response, ' '.repeat(256 * 1024))
      })
      const packed = await startServer((_, response) => bomb(response, status))
      for (const origin of [plain, packed]) {
        const llm = wire.open(origin)
        const ready = await failureOf(llm.ready(new AbortController().signal))
        expect(ready.code).toBe(status === 200 ? 'reply_too_large' : 'llm_unavailable')
        const { error } = await call(llm)
        expect(error.code).toMatch(
          status === 500 ? /^llm_unavailable$/ : /^(reply_too_large|llm_response_invalid)$/,
        )
      }
    }
    expect(most).toBeLessThan(500 * 1024 * 1024)
  })

  test('whose JSON is nested too deeply is refused before it is parsed', async () => {
    const deep = `${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`
    const origin = await startServer((_, response) => {
      response.writeHead(200, { 'content-type': contentType })
      response.end(
        contentType === 'text/event-stream' ? `data: {"choices":${deep}}\n\n` : `{"message":${deep}}\n`,
      )
    })
    expect((await call(wire.open(origin))).error.code).toBe('llm_response_invalid')
  })

  test('whose line has no end is refused', async () => {
    const origin = await startServer((_, response) => {
      response.writeHead(200, { 'content-type': contentType })
      response.write('data: "')
      endless(response, 'x'.repeat(1024 * 1024))
    })
    expect((await call(wire.open(origin))).error.code).toMatch(/^(llm_response_invalid|reply_too_large)$/)
  })

  test('whose headers have no end is refused', async () => {
    const origin = await startServer((_, response) => {
      response.socket!.write('HTTP/1.1 200 OK\r\n')
      endless(response.socket!, `x-more: ${'x'.repeat(1024)}\r\n`)
    })
    expect((await call(wire.open(origin))).error.code).toBe('llm_unavailable')
  })
})

test('complete() holds a call to the same limits', async () => {
  const origin = await startServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const drip = setInterval(() => response.write(' '), 20)
    response.on('close', () => clearInterval(drip))
  })
  const provider = createOpenAiProvider({ baseUrl: `${origin}/v1`, model: 'm', callTimeoutMs: 500 })
  const error = await failureOf(provider.complete(request))
  expect(error).toMatchObject({ code: 'llm_call_too_long', category: 'provider_invalid_response' })
})
