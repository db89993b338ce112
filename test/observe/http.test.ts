import { connect } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { type HttpOptions, type HttpServer, type Readiness, serveHttp } from '../../src/observe/http.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { keepSecret } from '../../src/redact.ts'

const servers: HttpServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close()
})

let state: Readiness = 'ready'
const serve = async (address = '127.0.0.1:0', insist = true, more: Partial<HttpOptions> = {}) => {
  const server = await serveHttp({
    address,
    insist,
    registry: createMetrics().registry,
    state: () => state,
    details: () => ({ unavailable: ['llm:x'] }),
    status: async () => ({ flows: ['a/b'] }),
    ...more,
  })
  servers.push(server)
  return server.url
}

test('reports that it is alive, and whether it is ready, with details', async () => {
  const url = await serve()
  const get = async (path: string) => {
    const response = await fetch(`${url}${path}`)
    return [response.status, await response.json()]
  }
  expect(await get('/healthz')).toEqual([200, { status: 'alive' }])
  expect(await get('/readyz')).toEqual([200, { status: 'ready', unavailable: ['llm:x'] }])
  expect(await get('/status.json')).toEqual([200, { flows: ['a/b'] }])
  for (state of ['starting', 'unavailable', 'stopping'] as const)
    expect(await get('/readyz')).toEqual([503, { status: state, unavailable: ['llm:x'] }])
  state = 'ready'
})

test('serves metrics in Prometheus’ format', async () => {
  const response = await fetch(`${await serve()}/metrics`)
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  const text = await response.text()
  expect(text).toMatch(/^graphmill_build_info\{version="[^"]+",node="[^"]+"\} 1$/m)
  expect(text).toMatch(/^process_cpu_seconds_total /m)
})

test('answers HEAD without a body, and knows no other method and no other page', async () => {
  const url = await serve()
  const status = async (path: string, method: string) => (await fetch(`${url}${path}`, { method })).status
  const head = await fetch(`${url}/readyz`, { method: 'HEAD' })
  expect([head.status, await head.text()]).toEqual([200, ''])
  expect(await status('/healthz', 'POST')).toBe(404)
  expect(await status('/', 'GET')).toBe(404)
  expect(await status('/toString', 'GET')).toBe(404)
  expect(await status('/healthz?probe=1', 'GET')).toBe(200)
})

test('a page that fails says why, without secrets', async () => {
  keepSecret('a-password-of-the-broker', 'a test')
  const failing = async () => {
    throw new Error('broker.example refused a-password-of-the-broker')
  }
  const response = await fetch(`${await serve('127.0.0.1:0', true, { status: failing })}/status.json`)
  const text = await response.text()
  expect(response.status).toBe(500)
  expect(text).toContain('broker.example')
  expect(text).not.toContain('a-password')
})

test('a port in use is an error when the operator chose it; otherwise another port is taken', async () => {
  const address = (await serve()).slice('http://'.length)
  await expect(serve(address)).rejects.toMatchObject({ code: 'configuration_invalid' })
  expect(await serve(address, false)).not.toContain(address)
})

test('an invalid address is refused', async () => {
  await expect(serve('8000')).rejects.toThrow(GraphmillError)
})

const portOf = (url: string) => Number(new URL(url).port)

/** A raw request; gives the first line of the answer once the connection is over. */
function ask(url: string, request: string): Promise<string> {
  return new Promise((done) => {
    const socket = connect(portOf(url), '127.0.0.1', () => socket.write(request))
    let answer = ''
    socket.on('data', (text) => {
      answer += text
    })
    socket.once('error', () => {}).once('close', () => done(answer.split('\r\n')[0]!))
  })
}

describe('the host of a request', () => {
  test.each([
    ['127.0.0.1:8000', 200],
    ['10.1.2.3:8000', 200],
    ['[::1]:8000', 200],
    ['[fd00::7]', 200],
    ['localhost:8000', 200],
    ['LOCALHOST', 200],
    ['graphmill:8000', 200],
    ['evil.example:8000', 421],
    ['127.0.0.1.evil.example', 421],
    ['localhost.evil.example', 421],
    ['[evil.example]:80', 421],
    ['', 421],
  ])('%s is answered with %i', async (host, status) => {
    const url = await serve('127.0.0.1:0', true, { names: ['graphmill'] })
    for (const path of ['/healthz', '/metrics', '/nothing'])
      expect(await ask(url, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)).toContain(
        `HTTP/1.1 ${status === 200 && path === '/nothing' ? 404 : status} `,
      )
  })

  test('may be missing only in HTTP/1.0', async () => {
    const url = await serve()
    expect(await ask(url, 'GET /healthz HTTP/1.0\r\n\r\n')).toContain(' 200 ')
    expect(await ask(url, 'GET /healthz HTTP/1.1\r\n\r\n')).toContain(' 400 ')
  })
})

test('an address in brackets is an IPv6 address', async () => {
  expect(await serve('[::1]:0')).toMatch(/^http:\/\/\[::1\]:\d+$/)
})

describe('connections', () => {
  const limits = {
    headersTimeout: 200,
    requestTimeout: 400,
    idleTimeout: 600,
    connectionsCheckingInterval: 50,
  }
  const probe = 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n'

  test('that send nothing, half a header, half a body or no further request are closed', async () => {
    const url = await serve('127.0.0.1:0', true, { limits })
    const answers = await Promise.all([
      ask(url, ''),
      ask(url, probe),
      ask(url, `${probe}Content-Length: 10\r\n\r\nhalf`),
      ask(url, `${probe}\r\n`),
    ])
    expect(answers[3]).toContain(' 200 ')
  })

  test('are bounded: the oldest is closed for a new one, and a probe gets through', async () => {
    const url = await serve('127.0.0.1:0', true, { limits: { connections: 50 } })
    let closed = 0
    const sockets = Array.from({ length: 200 }, () =>
      connect(portOf(url), '127.0.0.1')
        .on('error', () => {})
        .on('close', () => closed++),
    )
    await expect.poll(() => closed).toBe(150)
    expect(await ask(url, `${probe}Connection: close\r\n\r\n`)).toContain(' 200 ')
    for (const socket of sockets) socket.destroy()
  })

  test('in the middle of a request are closed with the server', async () => {
    const url = await serve()
    const server = servers.pop()!
    const halves = [ask(url, probe), ask(url, `${probe}Content-Length: 10\r\n\r\nhalf`), ask(url, '')]
    await ask(url, `${probe}Connection: close\r\n\r\n`)
    const start = performance.now()
    await server.close()
    await Promise.all(halves)
    expect(performance.now() - start).toBeLessThan(3000)
  })

  test('with large headers or bodies are refused', async () => {
    const url = await serve()
    const large = 'x'.repeat(20_000)
    expect(await ask(url, `${probe}X: ${large}\r\n\r\n`)).toContain(' 431 ')
    const post = `POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n`
    expect(await ask(url, `${post}Content-Length: ${large.length}\r\n\r\n${large}`)).toMatch(/ 4\d\d /)
  })
})
