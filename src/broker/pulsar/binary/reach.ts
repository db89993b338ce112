// Whether the binary port of a Pulsar server can be reached, over TLS where asked: the native client does not say why it cannot.
import { once } from 'node:events'
import { connect as connectTcp, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { connectionError, type Endpoint } from '../endpoint.ts'

/** A server that accepts a connection and is silent for so long counts as unavailable. */
const patienceMs = 4_000
/** TLS 1.3 refuses a client certificate after the handshake: this long after it, at the latest. */
const verdictMs = 500

/** Rejects with `certificate_refused`, `tls_failed` or `broker_unavailable`. */
export async function checkReach(service: URL, endpoint: Endpoint): Promise<void> {
  const host = service.hostname.replace(/^\[|\]$/g, '')
  const port = Number(service.port)
  const secure = service.protocol === 'pulsar+ssl:'
  const socket = secure
    ? connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }), ...endpoint.tls })
    : connectTcp(port, host)
  try {
    await once(socket, secure ? 'secureConnect' : 'connect', { signal: AbortSignal.timeout(patienceMs) })
    if (secure) await verdictOn(socket)
  } catch (cause) {
    throw connectionError(endpoint, cause, service.host)
  } finally {
    socket.on('error', () => {}).destroy()
  }
}

/** Resolves when the server has accepted our certificate: it sends a session then. */
async function verdictOn(socket: NodeJS.EventEmitter): Promise<void> {
  const signal = AbortSignal.timeout(verdictMs)
  await Promise.race([once(socket, 'session', { signal }), once(socket, 'close', { signal })]).catch(
    (thrown: Error) => {
      if (thrown.name !== 'AbortError') throw thrown
    },
  )
}
