// The HTTP pages of a process, for Kubernetes and Prometheus. An unavailable broker makes a process not ready, an unavailable model
// does not. Anybody may connect, so requests are limited in time and size, connections in number, and foreign host names are refused.
import { isIP, type Socket } from 'node:net'
import fastify, { type FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { GraphmillError } from '../errors.ts'
import { redact } from '../redact.ts'

/** `unavailable` means that the broker is. */
export type Readiness = 'starting' | 'ready' | 'unavailable' | 'stopping'

export interface HttpOptions {
  /** `host:port`. */
  readonly address: string
  /** Whether the operator gave the address. Then a port in use is an error; otherwise any free port is taken. */
  readonly insist: boolean
  /** Host names that requests may use, besides `localhost`, the name in `address` and every IP address. */
  readonly names?: readonly string[]
  readonly registry: Registry
  /** `ready` when the broker is connected and the configuration is loaded. */
  readonly state: () => Readiness
  /** Facts for people on /readyz, such as open circuits. */
  readonly details: () => object
  /** The content of /status.json. It may ask the broker. */
  readonly status: () => Promise<object>
  /** For tests. Default: `defaultLimits`. */
  readonly limits?: Partial<HttpLimits>
}

/** Times are in milliseconds. */
export interface HttpLimits {
  /** From the connection to the end of the headers. */
  readonly headersTimeout: number
  /** From the connection to the end of the request. */
  readonly requestTimeout: number
  /** Without a byte in either direction. */
  readonly idleTimeout: number
  /** How often connections are checked. */
  readonly connectionsCheckingInterval: number
  /** Connections at a time. The oldest is closed for a new one, so that a probe always gets through. */
  readonly connections: number
}

const defaultLimits: HttpLimits = {
  headersTimeout: 5000,
  requestTimeout: 10_000,
  idleTimeout: 30_000,
  connectionsCheckingInterval: 1000,
  connections: 512,
}
const maxHeaderSize = 8 * 1024
/** No page takes a body. */
const bodyLimit = 1024

export interface HttpServer {
  /** `http://host:port` as it was bound. */
  readonly url: string
  /** Ends every connection at once. */
  close(): Promise<void>
}

/** Serves /healthz, /readyz, /metrics and /status.json. Throws `configuration_invalid` when it cannot listen on the address. */
export async function serveHttp({
  address,
  insist,
  registry,
  state,
  details,
  status,
  names = [],
  limits,
}: HttpOptions): Promise<HttpServer> {
  const found = /^(.*):(\d+)$/.exec(address)
  if (!found) throw new GraphmillError('configuration_invalid', `http: ${address} is not host:port.`)
  const [, bracketed = '', port] = found
  const host = bracketed.replace(/^\[(.*)\]$/, '$1')
  const { headersTimeout, requestTimeout, idleTimeout, connectionsCheckingInterval, connections } = {
    ...defaultLimits,
    ...limits,
  }
  const server = fastify({
    bodyLimit,
    requestTimeout,
    connectionTimeout: idleTimeout,
    keepAliveTimeout: idleTimeout,
    forceCloseConnections: true,
    http: { headersTimeout, connectionsCheckingInterval, maxHeaderSize },
  })
  keepConnections(server, connections)
  const known = new Set(['localhost', host, ...names].map((name) => name.toLowerCase()))
  server.addHook('onRequest', async (request, reply) => {
    if (isOurs(request.headers.host, known)) return
    const error = 'this server is not known by that name; see --http-names'
    return reply.code(421).send({ error })
  })
  server.addHook('onSend', async (_request, _reply, body) => (typeof body === 'string' ? redact(body) : body))
  server.get('/healthz', async () => ({ status: 'alive' }))
  server.get('/readyz', async (_, reply) => {
    const now = state()
    return reply.code(now === 'ready' ? 200 : 503).send({ status: now, ...details() })
  })
  server.get('/metrics', async (_, reply) => reply.type(registry.contentType).send(await registry.metrics()))
  server.get('/status.json', () => status())
  try {
    return { url: await server.listen({ host, port: Number(port) }), close: () => server.close() }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE' || insist)
      throw new GraphmillError('configuration_invalid', `http: ${(cause as Error).message}.`, { cause })
    return { url: await server.listen({ host, port: 0 }), close: () => server.close() }
  }
}

/**
 * Whether the `Host` header names this server. A web page can make its own name lead to this address (DNS rebinding), but not an IP
 * address; probes and Prometheus use the address of the pod. HTTP/1.0 allows requests without a host.
 */
function isOurs(header: string | undefined, known: ReadonlySet<string>): boolean {
  if (header === undefined) return true
  const name = header.replace(/:\d*$/, '').toLowerCase()
  return known.has(name) || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0
}

function keepConnections({ server }: FastifyInstance, most: number): void {
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    if (open.size <= most) return
    const [oldest] = open
    oldest!.destroy()
  })
}
