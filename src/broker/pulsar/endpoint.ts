// Where a Pulsar cluster is and how to call it over HTTP: addresses, credentials, and HTTP errors as codes. The WebSocket and
// the admin API share the web port.
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Secret } from '../../config/secret.ts'
import { type ErrorCode, GraphmillError } from '../../errors.ts'
import { readText } from '../../http/body.ts'
import { connectionFault } from '../../http/connection-fault.ts'
import { redactCut } from '../../redact.ts'
import {
  type Availability,
  type BrokerLog,
  createAvailability,
  type OnAvailability,
} from '../availability.ts'
import type { TlsOptions } from '../broker.ts'
import { type OAuthOptions, tokenOf } from './token.ts'

export interface PulsarOptions {
  /** `ws://host:port` or `wss://host:port`. */
  readonly url: string
  /** Default `public`. */
  readonly tenant?: string
  /** Default `default`. */
  readonly namespace?: string
  /** A token that the server accepts, sent as bearer authorization. It is read at each request and each opening of a socket. */
  readonly token?: string | Secret
  /** OAuth2 client credentials, instead of a token. */
  readonly oauth?: OAuthOptions
  readonly tls?: TlsOptions
  readonly log?: BrokerLog
  /** Called when consumers lose the server, with the reason, and when it is available again. */
  readonly onAvailability?: OnAvailability
  /** How often every socket is pinged; a socket that is silent for two pings is reopened. Default 30,000. */
  readonly pingIntervalMs?: number
  /** How often a consumer or a reader asks whether its topic still exists. Default 10,000. */
  readonly topicCheckMs?: number
  /** How long a message may wait for an unavailable server before it rejects with `broker_unavailable`. Default 30,000. */
  readonly publishTimeoutMs?: number
}

export interface PulsarBinaryOptions extends Omit<PulsarOptions, 'url'> {
  /** `pulsar://host:port` or `pulsar+ssl://host:port`. */
  readonly url: string
  /** `http://host:port` or `https://host:port` of the admin API. Default: port 8080 of the same host, and 8443 with TLS. */
  readonly adminUrl?: string
}

/** The options with their defaults, and what is derived from them. */
export interface Endpoint {
  /** `ws://host:port/ws/v2`, without a slash at the end. */
  readonly socketBase: string
  /** `http://host:port/admin/v2`, likewise. */
  readonly adminBase: string
  /** `tenant/namespace`, encoded for a URL. */
  readonly namespace: string
  /** The current token; undefined when none is configured. */
  readonly token: (() => Promise<string>) | undefined
  /** With the current credentials: read them at each use. */
  headers(): Promise<Readonly<Record<string, string>>>
  readonly tls: TlsOptions
  readonly log: BrokerLog
  readonly availability: Availability
  readonly pingIntervalMs: number
  readonly topicCheckMs: number
  readonly publishTimeoutMs: number
  /** The partitions of a topic by another way, where the admin API cannot be reached: all else that it does is refused then. */
  readonly withoutAdmin?: (topic: string) => Promise<number>
}

/** The web port, `ws://host:port` or `wss://host:port`, of a server with any of its URLs. */
export function webUrlOf({ url, adminUrl }: PulsarBinaryOptions): string {
  const { protocol, hostname } = new URL(url)
  if (protocol === 'ws:' || protocol === 'wss:') return url
  if (adminUrl !== undefined) return adminUrl.replace(/^http/, 'ws')
  return protocol === 'pulsar+ssl:' ? `wss://${hostname}:8443` : `ws://${hostname}:8080`
}

/** Reads the options. Opens nothing. */
export function endpointOf(options: PulsarOptions): Endpoint {
  const url = new URL(options.url)
  const secure = url.protocol === 'wss:'
  const log = options.log ?? { debug() {}, warn() {} }
  const token = tokenOf(options)
  return {
    socketBase: `${url.protocol}//${url.host}/ws/v2`,
    adminBase: `${secure ? 'https:' : 'http:'}//${url.host}/admin/v2`,
    namespace: `${encodeURIComponent(options.tenant ?? 'public')}/${encodeURIComponent(options.namespace ?? 'default')}`,
    token,
    headers: async () => (token === undefined ? {} : { authorization: `Bearer ${await token()}` }),
    tls: options.tls ?? {},
    log,
    availability: createAvailability(log, options.onAvailability),
    pingIntervalMs: options.pingIntervalMs ?? 30_000,
    topicCheckMs: options.topicCheckMs ?? 10_000,
    publishTimeoutMs: options.publishTimeoutMs ?? 30_000,
  }
}

export interface AdminAnswer {
  readonly status: number
  readonly body: string
}

export interface AdminRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  readonly path: string
  /** Sent as JSON. */
  readonly body?: unknown
  /** Default 20,000. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal | undefined
}

const requestTimeoutMs = 20_000
const maxRedirects = 3
/** The longest answer that is read: the names of half a million topics. */
const maxAnswerBytes = 64 * 1024 * 1024

/**
 * One request to the admin API. Resolves with an answer of any status, and rejects only when there is none.
 * A broker that does not own the topic redirects to the one that does, with the same path. Only such redirects are followed,
 * with the credentials, and never from TLS to plain text.
 */
export async function ask(endpoint: Endpoint, request: AdminRequest): Promise<AdminAnswer> {
  if (endpoint.withoutAdmin !== undefined)
    throw new GraphmillError(
      'broker_refused',
      `Pulsar's admin API at ${new URL(endpoint.adminBase).host} was not reachable when this process started, and ${request.method} ${request.path} needs it: name its address with --pulsar-admin`,
    )
  let url = endpoint.adminBase + request.path
  for (let redirects = 0; ; redirects++) {
    const answer = await send(endpoint, url, request).catch((error: unknown) => {
      throw connectionError(endpoint, error)
    })
    if (answer.status !== 307 || answer.location === undefined || redirects === maxRedirects) return answer
    const next = new URL(answer.location, url)
    if (url.startsWith('https:') && next.protocol !== 'https:')
      throw new GraphmillError('broker_refused', `Pulsar redirects to ${next.origin}, which has no TLS`)
    if (next.pathname !== new URL(url).pathname)
      throw new GraphmillError(
        'broker_refused',
        `Pulsar redirects to ${next.origin}${next.pathname}, which is no broker of its own`,
      )
    url = next.href
  }
}

/** The error code for an HTTP status of Pulsar, for the admin API and for a refused WebSocket. */
export function codeOf(status: number): ErrorCode {
  if (status === 403) return 'topic_refused'
  if (status === 404) return 'topic_missing'
  if (status === 412) return 'topic_name_invalid'
  return status === 429 || status >= 500 ? 'broker_unavailable' : 'broker_refused'
}

/** A failure of the connection itself: the operator must fix certificates, other causes may pass. */
export function connectionError(
  endpoint: Endpoint,
  cause: unknown,
  host = new URL(endpoint.adminBase).host,
): GraphmillError {
  return (
    connectionFault(cause, `Pulsar at ${host}`) ??
    new GraphmillError('broker_unavailable', `Pulsar at ${host} cannot be reached`, { cause })
  )
}

/** The `reason` of an error body, or the title of Jetty's error page, on one line. */
export function reasonIn(body: string): string {
  const found = /"reason"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(body) ?? /<title>([^<]*)<\/title>/.exec(body)
  return redactCut((found?.[1] ?? body).replace(/\s+/g, ' ').trim(), 300)
}

/** Every request uses a new connection: requests are rare, and a kept connection may have died with the server. */
async function send(
  { headers: currentHeaders, tls }: Endpoint,
  url: string,
  { method, body, timeoutMs = requestTimeoutMs, signal }: AdminRequest,
): Promise<AdminAnswer & { readonly location: string | undefined }> {
  const json = body === undefined ? undefined : JSON.stringify(body)
  const headers = await currentHeaders()
  const request = (url.startsWith('https:') ? httpsRequest : httpRequest)(url, {
    ...tls,
    method,
    agent: false,
    headers: json === undefined ? headers : { ...headers, 'content-type': 'application/json' },
    signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])]),
  }).end(json)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  const answer = await readText(response, maxAnswerBytes)
  return { status: response.statusCode ?? 0, location: response.headers.location, body: answer }
}
