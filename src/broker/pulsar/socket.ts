// One WebSocket to Pulsar: opened with the credentials, pinged while it is open, with refusals as error codes.
// Frames of one turn of the event loop are one write, and under load those of some milliseconds. Nothing here reopens a socket.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import WebSocket from 'ws'
import { GraphmillError } from '../../errors.ts'
import { readOpening } from '../../http/body.ts'
import { createPace } from '../window/pace.ts'
import { codeOf, connectionError, type Endpoint, reasonIn } from './endpoint.ts'
import type { Channel, ChannelClosing } from './transport.ts'

export interface PulsarSocket extends Channel {
  send(frame: string): void
}

export interface SocketRequest {
  /** Path and query under `/ws/v2`. */
  readonly path: string
  /** Aborts the opening; an open socket stays open. */
  readonly signal: AbortSignal
  /** `socket` is the one being opened: a frame may arrive before `openSocket` has resolved. */
  onMessage(frame: unknown, socket: PulsarSocket): void
}

/** The close code for a frame that is too large. */
const frameTooLarge = 1009
const handshakeTimeoutMs = 30_000
const closeTimeoutMs = 5_000
/** Under load writes are this far apart. The first frames after a time with few do not wait. */
const underLoad = { everyMs: 5, burst: 20 }

/** Opens a socket. Rejects with `topic_missing`, `topic_refused`, `broker_refused`, `certificate_refused`, `tls_failed` or `broker_unavailable`. */
export async function openSocket(endpoint: Endpoint, request: SocketRequest): Promise<PulsarSocket> {
  const { promise: opened, resolve, reject } = Promise.withResolvers<void>()
  const { promise: closed, resolve: resolveClosed } = Promise.withResolvers<ChannelClosing>()
  const socket = new WebSocket(endpoint.socketBase + request.path, {
    ...endpoint.tls,
    headers: await endpoint.headers(),
    handshakeTimeout: handshakeTimeoutMs,
    perMessageDeflate: false,
    skipUTF8Validation: true, // the server's frames are JSON of Java strings
    maxPayload: 0, // our limit does not apply to foreign messages
  })
  const terminate = (): void => socket.terminate()
  const pulsarSocket: PulsarSocket = {
    closed,
    terminate,
    send: sender(socket),
    async close() {
      socket.close(1000) // after all frames that were sent
      const timer = setTimeout(terminate, closeTimeoutMs)
      const closing = await closed
      clearTimeout(timer)
      return closing
    },
  }
  socket
    .on('open', resolve)
    .on(
      'unexpected-response',
      (_, response) => void refusal(response, request.path).then(reject).then(terminate),
    )
    .on('error', (error) => reject(connectionError(endpoint, error)))
    .on('message', (data) => {
      try {
        request.onMessage(JSON.parse(data.toString()), pulsarSocket)
      } catch (error) {
        endpoint.log.warn({ path: request.path, err: error }, 'frame of the server could not be read')
        terminate()
      }
    })
    .on('close', (code, reason) => resolveClosed(closingOf(code, reason.toString())))
  request.signal.addEventListener('abort', terminate, { once: true })
  if (request.signal.aborted) terminate()
  const stopPinging = keepAlive(socket, endpoint.pingIntervalMs)
  void closed.then(stopPinging)

  await opened.finally(() => request.signal.removeEventListener('abort', terminate))
  return pulsarSocket
}

/** Sends frames so that those of one turn of the event loop, or of the time until the next write, are one write. */
function sender(socket: WebSocket): (frame: string) => void {
  const pace = createPace(underLoad)
  let stream: Socket | undefined
  let corked = false
  socket.once('upgrade', (response) => {
    stream = response.socket
  })
  const uncork = (): void => {
    corked = false
    stream?.uncork()
  }
  return (frame) => {
    if (!corked) {
      corked = true
      stream?.cork()
      const waitMs = pace.delay()
      if (waitMs > 0) setTimeout(uncork, waitMs)
      else setImmediate(uncork)
      pace.started()
    }
    socket.send(frame)
  }
}

/** By the close code of RFC 6455. */
function closingOf(code: number, reason: string): ChannelClosing {
  return { reason: `${code} ${reason}`.trim(), tooLarge: code === frameTooLarge }
}

/** Pings the server, and ends a socket from which nothing came since the last ping. */
function keepAlive(socket: WebSocket, intervalMs: number): () => void {
  let heard = true
  const hear = (): void => {
    heard = true
  }
  socket.on('message', hear).on('pong', hear).on('ping', hear)
  const timer = setInterval(() => {
    if (socket.readyState !== WebSocket.OPEN) return
    if (!heard) return socket.terminate()
    heard = false
    socket.ping()
  }, intervalMs)
  return () => clearInterval(timer)
}

async function refusal(response: IncomingMessage, path: string): Promise<GraphmillError> {
  const reason = reasonIn(await readOpening(response, 64 * 1024))
  const { statusCode = 0 } = response
  const text = `Pulsar answered ${statusCode} to the WebSocket ${path.replace(/\?.*/, '')}: ${reason}`
  return new GraphmillError(codeOf(statusCode), text)
}
