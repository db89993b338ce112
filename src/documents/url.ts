// Documents at http and https addresses. Redirects are followed to https, and to http only on the same host, so that a page cannot lead to
// the open services of the network of this machine. Credentials in an address are refused, since the address is the id.
import { setTimeout as wait } from 'node:timers/promises'
import { backoffMs } from '../backoff.ts'
import { GraphmillError } from '../errors.ts'
import { request } from '../http/request.ts'

export interface OpenedUrl {
  readonly body: AsyncIterable<Uint8Array>
  /** Undefined when the server does not say, or calls it text or bytes: then the extension or the first bytes decide. */
  readonly mediaType: string | undefined
}

export interface UrlOptions {
  /** For the answer and its body. */
  readonly seconds: number
  readonly signal: AbortSignal
}

const mostRedirects = 5
const retries = { most: 2, firstMs: 500, mostMs: 2000 }

/** The address without its fragment; undefined for what is none. Throws `usage` when it is no URL, or has credentials. */
export function urlOf(named: string): string | undefined {
  if (!/^https?:\/\//i.test(named)) return undefined
  const url = URL.parse(named)
  if (!url) throw new GraphmillError('usage', 'An address that begins with http is no URL.')
  const { username, password, origin, pathname } = url
  if (username || password)
    throw new GraphmillError(
      'usage',
      `${origin}${pathname}: an address with a user or password is not loaded, since it would be the id. Fetch it with another program, and pass it by --id ID -.`,
    )
  url.hash = ''
  return url.href
}

/** The name of what an address leads to, for people. */
export function titleOfUrl(url: string): string {
  const { pathname, host } = new URL(url)
  const name = pathname.split('/').findLast((segment) => segment !== '')
  if (name === undefined) return host
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

/** Resolves when the body begins. A server that is busy is asked again, twice. Throws `document_unreadable` and `document_unsupported`. */
export async function openUrl(url: string, { seconds, signal }: UrlOptions): Promise<OpenedUrl> {
  const late = AbortSignal.timeout(seconds * 1000)
  const ending = AbortSignal.any([signal, late])
  const fail = (thrown: unknown): never => {
    signal.throwIfAborted()
    if (thrown instanceof GraphmillError && thrown.code.startsWith('document_')) throw thrown
    const why = late.aborted ? `it took longer than ${seconds} s (--document-timeout)` : reasonOf(thrown)
    throw new GraphmillError('document_unreadable', `${url}: ${why.replace(/\.$/, '')}.`, { cause: thrown })
  }
  try {
    const response = await answerOf(url, ending)
    return { mediaType: mediaTypeOf(response, url), body: bodyOf(response, fail) }
  } catch (thrown) {
    return fail(thrown)
  }
}

async function answerOf(url: string, signal: AbortSignal): Promise<Response> {
  for (let failures = 0; ; failures++) {
    const answer = await followed(url, signal).catch((thrown: unknown) => {
      signal.throwIfAborted()
      if (failures === retries.most || !isTemporary(thrown)) throw thrown
    })
    if (answer?.ok) return answer
    if (answer) {
      await answer.body?.cancel()
      const isBusy = [408, 429, 502, 503, 504].includes(answer.status)
      if (!isBusy || failures === retries.most)
        throw new GraphmillError('document_unreadable', `${url}: the server answers ${answer.status}.`)
    }
    await wait(backoffMs(failures, retries), undefined, { signal })
  }
}

/** The failures that have no code are those of the connection. */
const isTemporary = (thrown: unknown) => !(thrown instanceof GraphmillError) || thrown.code === 'proxy_failed'

async function followed(url: string, signal: AbortSignal): Promise<Response> {
  let at = new URL(url)
  for (let count = 0; count <= mostRedirects; count++) {
    const response = await request(at.href, {
      signal,
      headers: { accept: 'text/markdown, text/*;q=0.9, application/pdf;q=0.9, */*;q=0.1' },
    })
    const location = response.headers.get('location')
    if (response.status < 300 || response.status > 399 || location === null) return response
    await response.body?.cancel()
    const next = URL.parse(location, at.href)
    const isAllowed =
      next?.protocol === 'https:' ||
      (next?.protocol === 'http:' && at.protocol === 'http:' && next.host === at.host)
    if (!next || !isAllowed || next.username || next.password)
      throw new GraphmillError(
        'document_unreadable',
        `${url}: it redirects to ${next ? next.origin : 'no address'}, which is not followed.`,
      )
    at = next
  }
  throw new GraphmillError('document_unreadable', `${url}: it redirects more than ${mostRedirects} times.`)
}

async function* bodyOf({ body }: Response, fail: (thrown: unknown) => never): AsyncGenerator<Uint8Array> {
  try {
    yield* body ?? []
  } catch (thrown) {
    fail(thrown)
  }
}

function mediaTypeOf({ headers }: Response, url: string): string | undefined {
  const type = (headers.get('content-type') ?? '').split(';', 1)[0]!.trim().toLowerCase()
  if (['', 'text/plain', 'application/octet-stream', 'binary/octet-stream'].includes(type)) return undefined
  if (type === 'application/xhtml+xml') return 'text/html'
  if (type.startsWith('text/') || type === 'application/pdf') return type
  throw new GraphmillError(
    'document_unsupported',
    `${url}: it is ${JSON.stringify(type.slice(0, 100))}, and only text, Markdown, HTML and PDF are read.`,
  )
}

function reasonOf(thrown: unknown): string {
  const { message, cause } = thrown as Error
  return cause instanceof Error
    ? ((cause.message || (cause as NodeJS.ErrnoException).code) ?? message)
    : message
}
