// The HTTP server over a raw socket: whatever bytes come, the answers are HTTP, and the next probe is served.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { type HttpServer, serveHttp } from '../../src/observe/http.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { below, chance, many, mutated, pick, type Rng, size, text } from './random.ts'
import type { FuzzTarget } from './target.ts'

let server: Promise<HttpServer> | undefined

export const http: FuzzTarget = {
  name: 'http',
  async once(rng) {
    server ??= serveHttp({
      address: '127.0.0.1:0',
      insist: true,
      registry: createMetrics().registry,
      state: () => 'ready',
      details: () => ({ flows: [] }),
      status: async () => ({ flows: [] }),
    })
    const { url } = await server
    const request = requestOf(rng)
    const pieces = chance(rng, 0.7) ? [request] : cutAnywhere(rng, request)
    const answer = await exchange(Number(new URL(url).port), pieces)
    assert.ok(answer === '' || /^HTTP\/1\.[01] \d{3} /.test(answer), `no HTTP: ${answer.slice(0, 80)}`)
    assert.ok(!/ at .*\.[jt]s:\d/.test(answer), `a stack trace: ${answer}`)
    const probe = await fetch(`${url}/healthz`)
    assert.equal(probe.status, 200)
    assert.deepEqual(await probe.json(), { status: 'alive' })
  },
}

/** Longer than this no answer takes, however the request ends. */
const patienceMs = 5000

/** Sends the pieces, ends its side, and gives all that came back. */
function exchange(port: number, pieces: readonly Buffer[]): Promise<string> {
  return new Promise((done, failed) => {
    const socket = connect(port, '127.0.0.1')
    let answer = ''
    const timer = setTimeout(() => {
      socket.destroy()
      failed(new Error(`the connection is still open ${patienceMs} ms after our end of it`))
    }, patienceMs)
    const over = () => {
      clearTimeout(timer)
      done(answer)
    }
    socket.setEncoding('latin1').setNoDelay(true)
    socket.on('data', (text: Buffer | string) => {
      answer += text
    })
    // a reset: the server had enough
    socket.once('error', over).once('close', over)
    for (const piece of pieces) socket.write(piece)
    socket.end()
  })
}

const paths = [
  '/healthz',
  '/readyz',
  '/metrics',
  '/status.json',
  '/',
  '/x',
  '*',
  '//',
  '/%',
  '/%00',
  '/healthz?x=',
  '/../',
]
const methods = ['GET', 'GET', 'GET', 'HEAD', 'POST', 'PUT', 'OPTIONS', 'TRACE', 'CONNECT', 'PRI', 'get', '']
const lines = [
  'Host: 127.0.0.1',
  'Host: evil.example',
  'Host:',
  'Connection: close',
  'Connection: Upgrade\r\nUpgrade: websocket',
  'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c',
  'Content-Length: 3',
  'Content-Length: 99999999999999999999',
  'Content-Length: -1',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: gzip, chunked',
  'Content-Type: application/json',
  'Expect: 100-continue',
  'Accept-Encoding: gzip',
] as const

function requestOf(rng: Rng): Buffer {
  const requests = many(1 + size(rng, 3), () => {
    const target = chance(rng, 0.85) ? pick(rng, paths) : text(rng, size(rng, 4000))
    const head = [
      `${pick(rng, methods)} ${target} ${pick(rng, ['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', ''])}`,
      ...many(below(rng, 6), () =>
        chance(rng, 0.8) ? pick(rng, lines) : `${text(rng, size(rng, 30))}: ${text(rng, size(rng, 20_000))}`,
      ),
    ]
    const body = pick(rng, [
      '',
      '',
      '{}',
      '3\r\nabc\r\n0\r\n\r\n',
      'ffffffff\r\n',
      text(rng, size(rng, 2000)),
    ])
    return `${head.join('\r\n')}\r\n${chance(rng, 0.9) ? '\r\n' : ''}${body}`
  })
  const request = Buffer.from(requests.join(''), 'latin1')
  return chance(rng, 0.3) ? mutated(rng, request) : request
}

function cutAnywhere(rng: Rng, request: Buffer): Buffer[] {
  const at = below(rng, request.length + 1)
  return [request.subarray(0, at), request.subarray(at)]
}
