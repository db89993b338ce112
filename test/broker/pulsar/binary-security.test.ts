// The binary protocol on a real Pulsar with TLS and authentication: tokens, client certificates, OAuth2. Wrong ones are refused soon.
import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text as bodyText } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Broker } from '../../../src/broker/broker.ts'
import { connectPulsarBinary, type PulsarBinaryOptions } from '../../../src/broker/pulsar/pulsar.ts'
import { brokerSource } from '../../support/brokers.ts'
import { nativePulsar } from '../../support/native-pulsar.ts'
import { freePorts } from '../../support/ports.ts'
import { type PulsarServer, startPulsar } from '../../support/pulsar-server.ts'
import { startTcpRelay } from '../../support/tcp-relay.ts'

const run = promisify(execFile)
const present =
  nativePulsar('security of pulsar://') &&
  (await brokerSource('security of pulsar://', ['jars'])) !== undefined

describe.runIf(present)('pulsar+ssl on a server with authentication', { timeout: 60_000 }, () => {
  const secret = Buffer.alloc(32, 'graphmill')
  const token = tokenFor('graphmill', secret)
  let folder: string
  let server: PulsarServer
  let secure: { readonly url: string; readonly adminUrl: string }
  let ca: string
  let brokers: Broker[] = []
  let topics = 0

  const pem = (name: string) => readFile(join(folder, name), 'utf8')
  const connect = async (options: Omit<PulsarBinaryOptions, 'url'> & { readonly url?: string }) => {
    const broker = await connectPulsarBinary({ ...secure, ...options })
    brokers.push(broker)
    return broker
  }
  const refusedSoon = async (code: unknown, connecting: Promise<unknown>) => {
    const begun = performance.now()
    await expect(connecting).rejects.toMatchObject({ code })
    expect(performance.now() - begun).toBeLessThan(5_000)
  }
  const refused = (code: unknown, options: Parameters<typeof connect>[0]) =>
    refusedSoon(code, connect(options))
  /** A message goes there and back. */
  const works = async (broker: Broker) => {
    const topic = `secure-${++topics}`
    await broker.ensureTopics([{ name: topic, partitions: 2 }])
    await broker.publish({ topic, key: 'k', value: Buffer.from('m'), headers: {} })
    const subscription = { group: 'g', topic, maxInFlight: 1, from: 'earliest', ordering: 'none' } as const
    for await (const delivery of broker.consume(subscription, new AbortController().signal)) {
      await delivery.ack()
      break
    }
    const read: string[] = []
    const range = { topic, from: 'earliest', until: 'end' } as const
    for await (const { value } of broker.read(range, new AbortController().signal))
      read.push(new TextDecoder().decode(value))
    expect(read).toEqual(['m'])
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'graphmill-pulsar-tls-'))
    await makeAuthority(folder, 'ca')
    await makeAuthority(folder, 'other-ca')
    await makeCertificate(folder, { name: 'server', signedBy: 'ca', extra: 'subjectAltName=IP:127.0.0.1' })
    await makeCertificate(folder, { name: 'graphmill', signedBy: 'ca' })
    await makeCertificate(folder, { name: 'stranger', signedBy: 'other-ca' })
    ca = await pem('ca.pem')
    const [binaryPort, webPort] = (await freePorts(2)) as [number, number]
    const provider = 'org.apache.pulsar.broker.authentication.AuthenticationProvider'
    server = await startPulsar({
      token,
      settings: {
        brokerServicePortTls: binaryPort,
        webServicePortTls: webPort,
        tlsCertificateFilePath: join(folder, 'server.pem'),
        tlsKeyFilePath: join(folder, 'server.key'),
        tlsTrustCertsFilePath: join(folder, 'ca.pem'),
        authenticationEnabled: true,
        authorizationEnabled: true,
        superUserRoles: 'graphmill',
        authenticationProviders: `${provider}Token,${provider}Tls`,
        tokenSecretKey: `data:;base64,${secret.toString('base64')}`,
        brokerClientAuthenticationPlugin: 'org.apache.pulsar.client.impl.auth.AuthenticationToken',
        brokerClientAuthenticationParameters: `token:${token}`,
      },
    })
    secure = { url: `pulsar+ssl://127.0.0.1:${binaryPort}`, adminUrl: `https://127.0.0.1:${webPort}` }
  }, 200_000)
  afterEach(async () => {
    await Promise.all(brokers.map((broker) => broker.close()))
    brokers = []
  })
  afterAll(async () => {
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  }, 60_000)

  test('a token is accepted; a wrong one and none are refused', async () => {
    await works(await connect({ tls: { ca }, token }))
    await refused('broker_refused', { tls: { ca }, token: 'wrong' })
    await refused('broker_refused', { tls: { ca } })
  })

  test('so they are without TLS', async () => {
    const plain = { url: server.binaryUrl, adminUrl: server.adminUrl }
    await works(await connect({ ...plain, token }))
    await refused('broker_refused', { ...plain, token: 'wrong' })
    // The port without TLS only closes the connection.
    await refused('broker_unavailable', {
      ...plain,
      url: server.binaryUrl.replace('pulsar:', 'pulsar+ssl:'),
      token,
    })
  })

  test('a wrong token opens few connections, and none after the refusal', async () => {
    const relay = await startTcpRelay(Number(new URL(server.binaryUrl).port))
    try {
      // Without the admin API, which would refuse it first.
      const url = `pulsar://127.0.0.1:${relay.port}`
      await refusedSoon('broker_unavailable', connectPulsarBinary({ url, token: 'wrong' }))
      const opened = relay.accepted
      expect(opened).toBeLessThan(20)
      await setTimeout(2_000)
      expect(relay.accepted).toBe(opened)
    } finally {
      await relay.stop()
    }
  })

  test('the certificate of the server must be signed by a trusted authority', async () => {
    await refused('certificate_refused', { token })
    await refused('certificate_refused', { tls: { ca: await pem('other-ca.pem') }, token })
  })

  test('a client certificate is accepted, and one of an unknown authority is refused', async () => {
    const cert = await pem('graphmill.pem')
    await works(await connect({ tls: { ca, cert, key: await pem('graphmill.key') } }))
    await refused(expect.stringMatching(/^(tls_failed|certificate_refused|broker_refused)$/), {
      tls: { ca, cert: await pem('stranger.pem'), key: await pem('stranger.key') },
    })
  })

  test('OAuth2 client credentials bring a token; wrong ones are refused, and asked for once', async () => {
    const requests: string[] = []
    const issuer = await startIssuer(requests, { clientId: 'me', clientSecret: 'mine', token })
    const oauth = { issuer: issuer.url, clientId: 'me', clientSecret: 'mine', audience: 'pulsar' }
    await works(await connect({ tls: { ca }, oauth }))
    const asked = () => requests.filter((path) => path === '/token').length
    const before = asked()
    await refused('broker_refused', { tls: { ca }, oauth: { ...oauth, clientSecret: 'wrong' } })
    expect(asked()).toBe(before + 1)
    await issuer.stop()
    await refused('broker_unavailable', { tls: { ca }, oauth })
  })
})

async function makeAuthority(folder: string, name: string): Promise<void> {
  const files = ['-keyout', join(folder, `${name}.key`), '-out', join(folder, `${name}.pem`)]
  const make = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2']
  await run('openssl', [...make, '-subj', `/CN=${name}`, ...files])
}

async function makeCertificate(
  folder: string,
  { name, signedBy, extra }: { readonly name: string; readonly signedBy: string; readonly extra?: string },
): Promise<void> {
  const file = (ending: string) => join(folder, `${name}.${ending}`)
  const ask = ['req', '-newkey', 'rsa:2048', '-nodes', '-subj', `/CN=${name}`]
  await run('openssl', [...ask, '-keyout', file('key'), '-out', file('csr')])
  await writeFile(file('ext'), extra ?? 'basicConstraints=CA:FALSE')
  const authority = ['-CA', join(folder, `${signedBy}.pem`), '-CAkey', join(folder, `${signedBy}.key`)]
  const sign = ['x509', '-req', '-in', file('csr'), ...authority, '-CAcreateserial', '-days', '2']
  await run('openssl', [...sign, '-extfile', file('ext'), '-out', file('pem')])
}

/** An OAuth2 server that knows one client. */
async function startIssuer(
  requests: string[],
  client: { readonly clientId: string; readonly clientSecret: string; readonly token: string },
) {
  const server = createServer(async (request, response) => {
    requests.push(request.url ?? '')
    const answer = (status: number, body: object) => response.writeHead(status).end(JSON.stringify(body))
    if (request.method === 'GET') return answer(200, { token_endpoint: `${url}/token` })
    const form = new URLSearchParams(await bodyText(request))
    const isClient =
      form.get('client_id') === client.clientId && form.get('client_secret') === client.clientSecret
    if (!isClient || form.get('grant_type') !== 'client_credentials')
      return answer(401, { error: 'invalid_client' })
    return answer(200, { access_token: client.token, token_type: 'Bearer', expires_in: 3600 })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, stop: () => server[Symbol.asyncDispose]() }
}

/** A JWT as Pulsar wants it, signed with HS256. */
function tokenFor(subject: string, secret: Buffer): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${part({ alg: 'HS256' })}.${part({ sub: subject })}`
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
}
