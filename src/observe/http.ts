// What Kubernetes and Prometheus ask of a process. An LLM that is away makes a process no less ready, a broker does.
import fastify from 'fastify'
import type { Registry } from 'prom-client'
import { GraphmillError } from '../errors.ts'
import { redact } from '../redact.ts'

/** `away`: the broker is. */
export type Readiness = 'starting' | 'ready' | 'away' | 'stopping'

export interface HttpOptions {
  /** `host:port`. */
  readonly address: string
  /** Whether the address was asked for: then a port that is taken is an error, else any free one will do. */
  readonly insist: boolean
  readonly registry: Registry
  /** `ready` when the broker is joined and the configuration loaded. */
  readonly state: () => Readiness
  /** Facts for people on /readyz, such as open circuits. */
  readonly details: () => object
  /** All that can be told, for /status.json; it may ask the broker. */
  readonly status: () => Promise<object>
}

export interface HttpServer {
  /** `http://host:port` as it was bound. */
  readonly url: string
  close(): Promise<void>
}

/** Serves /healthz, /readyz, /metrics and /status.json. Throws `configuration_invalid` for an address that can't be had. */
export async function serveHttp({
  address,
  insist,
  registry,
  state,
  details,
  status,
}: HttpOptions): Promise<HttpServer> {
  const found = /^(.*):(\d+)$/.exec(address)
  if (!found) throw new GraphmillError('configuration_invalid', `http: ${address} is not host:port.`)
  const server = fastify()
  server.addHook('onSend', async (_request, _reply, body) => (typeof body === 'string' ? redact(body) : body))
  server.get('/healthz', async () => ({ status: 'alive' }))
  server.get('/readyz', async (_, reply) => {
    const now = state()
    return reply.code(now === 'ready' ? 200 : 503).send({ status: now, ...details() })
  })
  server.get('/metrics', async (_, reply) => reply.type(registry.contentType).send(await registry.metrics()))
  server.get('/status.json', () => status())
  const [, host = '', port] = found
  try {
    return { url: await server.listen({ host, port: Number(port) }), close: () => server.close() }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE' || insist)
      throw new GraphmillError('configuration_invalid', `http: ${(cause as Error).message}.`, { cause })
    return { url: await server.listen({ host, port: 0 }), close: () => server.close() }
  }
}
