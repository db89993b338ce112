// Certificates and proxies in the way of every kind of server: real TLS servers, and a real proxy for CONNECT.
import { once } from 'node:events'
import { createServer, setGlobalProxyFromEnv } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/broker/connect.ts'
import type { GraphmillError } from '../../src/errors.ts'
import { connectionFault } from '../../src/http/connection-fault.ts'
import { createOllama } from '../../src/llm/ollama/ollama.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import { createSchemaRegistry } from '../../src/messages/schema-registry.ts'
import { createEmbed } from '../../src/ontology/embeddings.ts'
import { openSparqlStore } from '../../src/rdf/sparql-store.ts'
import { type CertificateFlaw, makeCertificate, type ServerCertificate } from '../support/certificate.ts'

const never = new AbortController().signal
const request = { messages: [{ role: 'user', content: 'x' }] } as const

/** What asks a server at `origin`, as the flow does. */
const peers = {
  async 'an OpenAI-compatible model'(origin: string) {
    for await (const _ of createOpenAi({ baseUrl: `${origin}/v1`, model: 'm' }).stream(request, never));
  },
  'its list of models': (origin: string) =>
    createOpenAi({ baseUrl: `${origin}/v1`, model: 'm' }).ready(never),
  async 'a model of Ollama'(origin: string) {
    for await (const _ of createOllama({ host: origin, model: 'm' }).stream(request, never));
  },
  'a SPARQL store': (origin: string) =>
    openSparqlStore({ url: `${origin}/update` }).write([], { workspace: 'w', flow: 'f' }),
  'a schema registry': (origin: string) => createSchemaRegistry(origin).find(1, never),
  'an embeddings server': (origin: string) =>
    createEmbed({ url: origin, model: 'm', apiKey: undefined, timeoutMs: 20_000 })(['mill']),
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => {
      throw new Error('it succeeded')
    },
    (thrown: unknown) => thrown as GraphmillError,
  )

const originOf = (server: { address(): unknown }, scheme: string) =>
  `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`

async function startTlsServer(certificate: ServerCertificate) {
  const server = createTlsServer({ ...certificate, ca: undefined }, (_, response) => response.end('{}'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return originOf(server, 'https')
}

const flaws = {
  'signed by itself': undefined,
  expired: 'expired',
  'of another host': 'of another host',
  'of an unknown authority': 'of an unknown authority',
} as const satisfies Record<string, CertificateFlaw | undefined>

const certificates = new Map<string, ServerCertificate>()

beforeAll(async () => {
  for (const [name, flaw] of Object.entries(flaws)) certificates.set(name, await makeCertificate(flaw))
}, 120_000)

describe.each(Object.entries(peers))('%s', (_, ask) => {
  test.each([
    ['signed by itself', 'is self-signed, and not trusted here (DEPTH_ZERO_SELF_SIGNED_CERT)'],
    [
      'of an unknown authority',
      'is signed by an authority that is not trusted here (SELF_SIGNED_CERT_IN_CHAIN)',
    ],
  ])('with a certificate that is %s waits for its operator', async (flaw, why) => {
    const origin = await startTlsServer(certificates.get(flaw)!)
    const error = await failureOf(ask(origin))
    expect(error).toMatchObject({ code: 'certificate_refused', retry: 'operator' })
    expect(error.message).toBe(`The certificate of ${new URL(origin).host} ${why}.`)
    expect(error.remedy).toContain('NODE_EXTRA_CA_CERTS')
  })

  test('behind a port without TLS says so', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const error = await failureOf(ask(originOf(server, 'https')))
    expect(error).toMatchObject({ code: 'tls_failed', retry: 'operator' })
    expect(error.message).toContain('does not speak TLS')
  })

  test.each([
    [407, 'proxy_refused', 'operator', 'asks for other credentials'],
    [403, 'proxy_refused', 'operator', 'lets no connection through to models.example (403)'],
    [502, 'proxy_failed', 'later', 'could not reach models.example (502)'],
  ])('behind a proxy that answers CONNECT with %s', async (status, code, retry, why) => {
    const asked: string[] = []
    const proxy = createServer().on('connect', ({ url }, socket) => {
      asked.push(url ?? '')
      socket.end(`HTTP/1.1 ${status} No\r\n\r\n`)
    })
    proxy.listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    const restore = setGlobalProxyFromEnv({ https_proxy: originOf(proxy, 'http') })
    onTestFinished(() => {
      restore()
      proxy.close()
    })
    const error = await failureOf(ask('https://models.example'))
    expect(error).toMatchObject({ code, retry })
    expect(error.message).toContain(why)
    expect(asked).toEqual(['models.example:443'])
  })
})

describe.each([
  [
    'Kafka',
    (host: string) => connect(`kafka://${host}`, { tls: {} }),
    (host: string) => `the broker ${host}`,
  ],
  ['Pulsar', (host: string) => connect(`pulsar+wss://${host}`), (host: string) => `Pulsar at ${host}`],
] as const)('a broker, %s,', (_, open, nameOf) => {
  test('with a certificate that nobody trusts waits for its operator', async () => {
    const { host } = new URL(await startTlsServer(certificates.get('signed by itself')!))
    const error = await failureOf(open(host))
    expect(error).toMatchObject({ code: 'certificate_refused', retry: 'operator' })
    expect(error.message).toContain(`The certificate of ${nameOf(host)} is self-signed`)
    expect(error.remedy).toContain('--tls-ca')
  })

  test('behind a port without TLS says so', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const { host } = new URL(originOf(server, 'http'))
    const error = await failureOf(open(host))
    expect(error).toMatchObject({ code: 'tls_failed', retry: 'operator' })
    expect(error.message).toContain(`The TLS handshake with ${nameOf(host)} failed`)
  })
})

test('a redirect of Pulsar from TLS to an address without TLS is not followed', async () => {
  const asked: string[] = []
  const other = createServer(({ url }, response) => {
    asked.push(url ?? '')
    response.end('[]')
  }).listen(0, '127.0.0.1')
  await once(other, 'listening')
  onTestFinished(() => void other.close())
  const { ca, ...key } = certificates.get('signed by itself')!
  const server = createTlsServer(key, ({ url }, response) => {
    response.writeHead(307, { location: `${originOf(other, 'http')}${url}` }).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const url = originOf(server, 'pulsar+wss')
  const error = await failureOf(connect(url, { tls: { ca }, token: 'secret' }))
  expect(error).toMatchObject({ code: 'broker_refused' })
  expect(error.message).toContain('which has no TLS')
  expect(asked).toEqual([])
})

test('a redirect of Pulsar to another broker is followed, but to no other page there', async () => {
  const asked: string[] = []
  const other = createServer(({ url, headers }, response) => {
    asked.push(`${url} ${headers.authorization}`)
    response.end('[]')
  }).listen(0, '127.0.0.1')
  await once(other, 'listening')
  onTestFinished(() => void other.close())
  let location = ''
  const server = createServer((_, response) => void response.writeHead(307, { location }).end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const path = '/admin/v2/persistent/public/default/partitioned'
  const open = () => connect(originOf(server, 'pulsar+ws'), { token: 'token-of-mine' })

  for (const page of ['/login', '/admin/v2/clusters', `/x${path}`, `${path}/..`]) {
    location = `${originOf(other, 'http')}${page}`
    const error = await failureOf(open())
    expect(error).toMatchObject({ code: 'broker_refused' })
    expect(error.message).toContain('which is no broker of its own')
  }
  expect(asked).toEqual([])

  location = `${originOf(other, 'http')}${path}?authoritative=false`
  await (await open()).close()
  expect(asked).toEqual([`${path}?authoritative=false Bearer token-of-mine`])
})

test.each([
  ['expired', 'has expired (CERT_HAS_EXPIRED)'],
  ['of another host', 'was issued for another name (ERR_TLS_CERT_ALTNAME_INVALID)'],
])('a certificate that is trusted but %s is refused, and the message says why', async (flaw, why) => {
  const certificate = certificates.get(flaw)!
  const origin = await startTlsServer(certificate)
  const { getCACertificates, setDefaultCACertificates } = await import('node:tls')
  const before = getCACertificates('default')
  setDefaultCACertificates([...before, certificate.ca])
  onTestFinished(() => setDefaultCACertificates(before))
  const error = await failureOf(peers['its list of models'](origin))
  expect(error.code).toBe('certificate_refused')
  expect(error.message).toContain(why)
})

test('an alert about this client’s certificate, which servers other than Node send, is reported', () => {
  const alert = Object.assign(new Error('alert'), { code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED' })
  const fault = connectionFault(new TypeError('fetch failed', { cause: alert }), 'host')
  expect(fault).toMatchObject({ code: 'tls_failed' })
  expect(fault!.message).toContain('it may ask for a certificate of this client')
})

test('a refused or broken connection is none of these faults', async () => {
  for (const code of [
    'ECONNREFUSED',
    'ECONNRESET',
    'UND_ERR_SOCKET',
    'ENOTFOUND',
    'ERR_STREAM_PREMATURE_CLOSE',
  ])
    expect(connectionFault(Object.assign(new Error(code), { code }), 'host')).toBeUndefined()
})
