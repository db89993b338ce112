// How long connections of the native client live when tokens are replaced. The module is a stand-in that counts: the real one is optional.
import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { beforeEach, expect, test, vi } from 'vitest'
import { createConnections } from '../../../src/broker/pulsar/binary/client.ts'
import { loadNativeModule } from '../../../src/broker/pulsar/binary/native-module.ts'
import { binaryTransport } from '../../../src/broker/pulsar/binary/transport.ts'
import { endpointOf } from '../../../src/broker/pulsar/endpoint.ts'

interface CountedClient {
  readonly token: string
  isConnected: boolean
  isClosed: boolean
}

interface ClientSettings {
  readonly authentication: { readonly token: string }
  readonly tlsTrustCertsFilePath?: string
}

const clients: CountedClient[] = []

class StandIn {
  static setLogHandler(): void {}
  static lastCa: string
  readonly #counted: CountedClient

  constructor({ authentication, tlsTrustCertsFilePath }: ClientSettings) {
    StandIn.lastCa = tlsTrustCertsFilePath ?? ''
    this.#counted = { token: authentication.token, isConnected: true, isClosed: false }
    clients.push(this.#counted)
  }
  async createProducer() {
    return this.#channel()
  }
  async createReader() {
    return this.#channel()
  }
  async close() {
    if (this.#counted.isClosed) throw new Error('closed twice')
    this.#counted.isClosed = true
  }
  #channel() {
    return { isConnected: () => this.#counted.isConnected, close: async () => undefined }
  }
}

class AuthenticationToken {
  readonly token: string
  constructor({ token }: { readonly token: string }) {
    this.token = token
  }
}

const id = { serialize: () => Buffer.alloc(0) }
const messageId = { latest: () => id, earliest: () => id }
loadNativeModule(() => ({ Client: StandIn, AuthenticationToken, MessageId: messageId }))

const { signal } = new AbortController()
const open = () => clients.filter(({ isClosed }) => !isClosed).map(({ token }) => token)
let token: string
const begin = (tls = {}) => {
  const endpoint = { ...endpointOf({ url: 'ws://127.0.0.1:8080', tls }), token: async () => token }
  return binaryTransport(endpoint, createConnections('pulsar://127.0.0.1:6650', endpoint))
}
const producerOf = (transport: ReturnType<typeof begin>) =>
  transport.openProducer({ topic: 't', signal, onAnswer() {} })

beforeEach(() => {
  clients.length = 0
  token = 'a'
})

test('a connection is closed when its token was replaced and its last channel has ended', async () => {
  const transport = begin()
  const [first, second] = [await producerOf(transport), await producerOf(transport)]
  token = 'b'
  const third = await producerOf(transport)
  await first.close()
  expect(open()).toEqual(['a', 'b'])
  second.terminate()
  await vi.waitFor(() => expect(open()).toEqual(['b']))
  await third.close()
  // The current one stays for the next channel.
  expect(open()).toEqual(['b'])
  for (const next of ['c', 'd', 'e']) {
    token = next
    await (await producerOf(transport)).close()
  }
  await vi.waitFor(() => expect(open()).toEqual(['e']))
  await transport.close()
  expect(open()).toEqual([])
})

test('a reader that is opened again has the current token', async () => {
  const reading = begin().openReading()
  const read = () =>
    reading.open({ topic: 't', name: 't', after: 'latest', receiverQueueSize: 4, signal, onMessage() {} })
  const channel = await read()
  token = 'b'
  // The server ends connections whose token has expired.
  clients[0]!.isConnected = false
  await channel.closed
  await (await read()).close()
  await vi.waitFor(() => expect(open()).toEqual(['b']))
  await reading.close()
  expect(open()).toEqual([])
})

test('many connections with certificates have one listener, and leave no files when the process is killed', async () => {
  const before = process.listenerCount('exit')
  const transport = begin({ ca: 'an authority' })
  const readings = Array.from({ length: 12 }, () => transport.openReading())
  for (const reading of readings)
    await reading.open({
      topic: 't',
      name: 't',
      after: 'latest',
      receiverQueueSize: 4,
      signal,
      onMessage() {},
    })
  expect(clients).toHaveLength(12)
  expect(process.listenerCount('exit')).toBe(before)
  for (let time = 0; time < 2; time++) expect(readFileSync(StandIn.lastCa, 'utf8')).toBe('an authority')
  if (process.platform === 'linux') expect(readlinkSync(StandIn.lastCa)).toMatch(/ \(deleted\)$/)
  await Promise.all(readings.map((reading) => reading.close()))
  // The number of a closed descriptor may be in use again.
  const still = existsSync(StandIn.lastCa) && readlinkSync(StandIn.lastCa)
  expect(String(still)).not.toContain('graphmill-tls-')
})
