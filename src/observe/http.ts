// The HTTP pages of a process, for Kubernetes and Prometheus. An unavailable broker makes a process not ready, an unavailable model
// does not. Anybody may connect, so requests are limited in time and size, connections in number, and foreign host names are refused.
import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { type AddressInfo, isIP, type Socket } from 'node:net'
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

export interface HttpServer {
  /** `http://host:port` as it was bound. */
  readonly url: string
  /** Ends every connection at once. */
  close(): Promise<void>
}

/** By `import`, all of this module would be read, and with it the client that is behind `fetch`: 8 MiB. */
const { createServer } = process.getBuiltinModule('node:http')

/** Serves /healthz, /readyz, /metrics and /status.json. Throws `configuration_invalid` when it cannot listen on the address. */
export async function serveHttp(options: HttpOptions): Promise<HttpServer> {
  const { address, insist, names = [], limits } = options
  const found = /^(.*):(\d+)$/.exec(address)
  if (!found) throw new GraphmillError('configuration_invalid', `http: ${address} is not host:port.`)
  const [, bracketed = '', port] = found
  const host = bracketed.replace(/^\[(.*)\]$/, '$1')
  const { idleTimeout, connections, ...timeouts } = { ...defaultLimits, ...limits }
  const known = new Set(['localhost', host, ...names].map((name) => name.toLowerCase()))
  const pages = pagesOf(options)
  const server = createServer({ ...timeouts, keepAliveTimeout: idleTimeout, maxHeaderSize }, (asked, reply) =>
    answer(asked, reply, isOurs(asked.headers.host, known) ? pages : undefined),
  )
  server.setTimeout(idleTimeout)
  keepConnections(server, connections)
  try {
    await listen(server, host, Number(port))
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE' || insist)
      throw new GraphmillError('configuration_invalid', `http: ${(cause as Error).message}.`, { cause })
    await listen(server, host, 0)
  }
  return { url: urlOf(server), close: () => close(server) }
}

/** A page: its status, its type and its text. */
interface Page {
  readonly code: number
  readonly type: string
  readonly text: string
}

type Pages = Readonly<Record<string, () => Page | Promise<Page>>>

function pagesOf({ registry, state, details, status }: HttpOptions): Pages {
  return {
    '/healthz': () => json(200, { status: 'alive' }),
    '/readyz': () => {
      const now = state()
      return json(now === 'ready' ? 200 : 503, { status: now, ...details() })
    },
    '/metrics': async () => ({ code: 200, type: registry.contentType, text: await registry.metrics() }),
    '/status.json': async () => json(200, await status()),
  }
}

function json(code: number, content: object): Page {
  return { code, type: 'application/json; charset=utf-8', text: JSON.stringify(content) }
}

/** Answers with one of `pages`; they are undefined when the request is for another server. */
async function answer(
  asked: IncomingMessage,
  reply: ServerResponse,
  pages: Pages | undefined,
): Promise<void> {
  const { code, type, text } = await pageOf(asked, pages)
  const body = Buffer.from(redact(text))
  // No page takes a body: one that comes is not read.
  if (asked.method !== 'GET' && asked.method !== 'HEAD') reply.shouldKeepAlive = false
  reply.writeHead(code, { 'content-type': type, 'content-length': body.length })
  reply.end(asked.method === 'HEAD' ? undefined : body)
}

async function pageOf({ method, url = '' }: IncomingMessage, pages: Pages | undefined): Promise<Page> {
  if (pages === undefined)
    return json(421, { error: 'this server is not known by that name; see --http-names' })
  const path = url.split('?', 1)[0]!
  if ((method !== 'GET' && method !== 'HEAD') || !Object.hasOwn(pages, path))
    return json(404, { error: 'there is no such page' })
  try {
    return await pages[path]!()
  } catch (thrown) {
    return json(500, { error: (thrown as Error).message })
  }
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  server.listen({ host, port })
  await once(server, 'listening')
}

function urlOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}

function close(server: Server): Promise<void> {
  return new Promise((done) => {
    server.close(() => done())
    server.closeAllConnections()
  })
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

function keepConnections(server: Server, most: number): void {
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    if (open.size <= most) return
    const [oldest] = open
    oldest!.destroy()
  })
}
