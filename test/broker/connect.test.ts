// Which URLs name a broker, and that a Pulsar URL reaches the server, tenant and namespace that it names.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { connect } from '../../src/broker/connect.ts'
import { freePorts } from '../support/ports.ts'

const servers: Server[] = []

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server[Symbol.asyncDispose]()))
})

/** A server that answers every question with an empty list, and notes the questions. */
async function noteQuestions(): Promise<{
  readonly host: string
  readonly questions: readonly IncomingMessage[]
}> {
  const questions: IncomingMessage[] = []
  const server = createServer((request, response) => {
    questions.push(request)
    response.end('[]')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  servers.push(server)
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, questions }
}

test.each([
  '',
  'localhost:9092',
  'http://localhost:8080',
  'amqp://localhost:5672',
  'kafka://',
  'kafka://localhost',
  'kafka://localhost:9092,',
  'kafka://localhost:9092,other',
  'kafka://localhost:99999',
  'kafka://localhost:9092/topic',
  'pulsar+ws://localhost',
  'pulsar+ws://localhost:8080/only-a-tenant',
  'pulsar+ws://a:1,',
  'pulsar://localhost',
  'pulsar+ssl://localhost:6651/only-a-tenant',
  'pulsar://localhost:6650/acme/extraction?x=1',
  'pulsar://localhost:6650?x=1',
  'pulsar+http://localhost:8080',
])('refuses %j and says what it takes', async (url) => {
  await expect(connect(url)).rejects.toMatchObject({
    name: 'GraphmillError',
    code: 'broker_url_invalid',
    message: expect.stringMatching(/kafka:\/\/host:port.*pulsar:\/\/host:port.*pulsar\+ws:\/\/host:port/),
  })
})

test.each([
  'pulsar://a:6650,b:6650',
  'pulsar+ssl://a:6651,[::1]:6651/acme/extraction',
  'pulsar+ws://a:1,b:2',
])('says of %j that one host is enough', async (url) => {
  const text = /names no broker: name one host of Pulsar/
  await expect(connect(url)).rejects.toMatchObject({
    code: 'broker_url_invalid',
    message: expect.stringMatching(text),
  })
})

test('keeps a password in a URL out of the error', async () => {
  const error: unknown = await connect('pulsar+ws://me:s3cret@localhost:8080').catch((thrown) => thrown)
  expect(error).toMatchObject({ code: 'broker_url_invalid' })
  expect(String(error)).not.toContain('s3cret')
})

test.each(['kafka://127.0.0.1:', 'kafka://[::1]:9,127.0.0.1:', 'pulsar+ws://127.0.0.1:'])(
  'tells that nobody is at %j and a port',
  async (begin) => {
    const [port] = await freePorts(1)
    await expect(connect(`${begin}${port}`)).rejects.toMatchObject({ code: 'broker_unavailable' })
  },
)

test('asks the default namespace of a Pulsar server, with the token', async () => {
  const { host, questions } = await noteQuestions()
  const broker = await connect(`pulsar+ws://${host}`, { token: 'abc' })
  expect(await broker.listTopics('')).toEqual([])
  for (const { url, headers } of questions) {
    expect(url).toMatch(/^\/admin\/v2\/persistent\/public\/default(\/|$)/)
    expect(headers.authorization).toBe('Bearer abc')
  }
  expect(questions).toHaveLength(2)
  await broker.close()
})

test('asks the tenant and namespace that a Pulsar URL names', async () => {
  const { host, questions } = await noteQuestions()
  const broker = await connect(`pulsar+ws://${host}/acme/extraction`)
  expect(await broker.listTopics('')).toEqual([])
  expect(questions.map(({ url }) => url)).toContain('/admin/v2/persistent/acme/extraction')
  expect(questions[0]?.headers.authorization).toBeUndefined()
  await broker.close()
})

test('speaks TLS, and nothing else, to pulsar+wss', async () => {
  const { host, questions } = await noteQuestions()
  await expect(connect(`pulsar+wss://${host}`)).rejects.toMatchObject({ code: 'tls_failed' })
  expect(questions).toEqual([])
})

test.each(['kafka', 'pulsar+ws'])(
  'a server that takes connections and says nothing is no broker (%s)',
  {
    timeout: 60_000,
  },
  async (scheme) => {
    const sockets = new Set<Socket>()
    const mute = createTcpServer((socket) => sockets.add(socket)).listen(0, '127.0.0.1')
    await once(mute, 'listening')
    const { port } = mute.address() as AddressInfo
    await expect(connect(`${scheme}://127.0.0.1:${port}`)).rejects.toMatchObject({
      code: 'broker_unavailable',
    })
    for (const socket of sockets) socket.destroy()
    await mute[Symbol.asyncDispose]()
  },
)
