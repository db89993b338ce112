// How frames leave a socket, on a WebSocket server that counts what arrives.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { endpointOf } from '../../../src/broker/pulsar/endpoint.ts'
import { openSocket, type PulsarSocket } from '../../../src/broker/pulsar/socket.ts'

let server: WebSocketServer
let socket: PulsarSocket
/** The frames that the server has got, and the reads of its socket. */
let frames: string[]
let reads: number

beforeEach(async () => {
  frames = []
  reads = 0
  server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  server.on('connection', (connection, request) => {
    request.socket.on('data', () => reads++)
    connection.on('message', (frame) => frames.push(String(frame)))
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const endpoint = endpointOf({ url: `ws://127.0.0.1:${port}` })
  socket = await openSocket(endpoint, {
    path: '/producer',
    signal: new AbortController().signal,
    onMessage() {},
  })
})

afterEach(() => {
  socket.terminate()
  server.close()
})

test('frames that follow each other for long arrive together, all of them and in order', async () => {
  const begun = performance.now()
  const sent = Array.from({ length: 400 }, (_, number) => `${number}`)
  for (const frame of sent) {
    socket.send(frame)
    await delay(1)
  }
  const elapsedMs = performance.now() - begun
  await socket.close()
  expect(frames).toEqual(sent)
  const [burst, everyMs, closing] = [20, 5, 2]
  expect(reads).toBeLessThanOrEqual(burst + elapsedMs / everyMs + closing)
})

test('frames that wait for the next write are sent before the socket closes', async () => {
  const sent = Array.from({ length: 60 }, (_, number) => `${number}`)
  for (const frame of sent) {
    socket.send(frame)
    await new Promise(setImmediate)
  }
  await socket.close()
  expect(frames).toEqual(sent)
})
