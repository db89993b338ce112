// HTTP requests to servers that the operator configured: models, stores, registries, embeddings. Redirects are not followed, so that
// neither a key nor a text goes to an address that nobody configured.
import { connectionFault } from './connection-fault.ts'

export type Fetch = typeof globalThis.fetch

export interface RequestOptions extends Omit<RequestInit, 'redirect'> {
  /** Default: the global `fetch`. */
  readonly fetch?: Fetch | undefined
}

type Dispatch = NonNullable<RequestInit['dispatcher']>['dispatch']

/**
 * Node's own dispatcher, with its proxies and connections, but without its timeout of 300 s for a silent server: each caller has its
 * own timeout. All versions of undici, Node's own included, share the dispatcher under this symbol.
 */
const patient = {
  dispatch(options, handler) {
    const nodes = Reflect.get(globalThis, Symbol.for('undici.globalDispatcher.1')) as { dispatch: Dispatch }
    return nodes.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler)
  },
} as { dispatch: Dispatch } as NonNullable<RequestInit['dispatcher']>

/**
 * The answer, whatever its status. Throws `certificate_refused`, `tls_failed`, `proxy_refused` or `proxy_failed`, and other
 * errors as `fetch` throws them. Without a signal it waits for ever.
 */
export async function request(
  where: Parameters<Fetch>[0],
  { fetch = globalThis.fetch, ...init }: RequestOptions,
): Promise<Response> {
  try {
    // Another fetch may not know dispatchers.
    const dispatcher = fetch === globalThis.fetch && { dispatcher: patient }
    return await fetch(where, { ...dispatcher, ...init, redirect: 'manual' })
  } catch (thrown) {
    throw connectionFault(thrown, hostOf(where)) ?? thrown
  }
}

/** A phrase such as `it is at https://… now` for an answer that redirects, without credentials and query; undefined for others. */
export function movedTo({ status, headers, url }: Response): string | undefined {
  const location = headers.get('location')
  if (status < 300 || status > 399 || location === null) return undefined
  const there = URL.parse(location, url || undefined)
  if (!there) return 'it redirects, to no address'
  return `it is at ${there.origin}${there.pathname} now, and no redirect is followed`
}

function hostOf(where: Parameters<Fetch>[0]): string {
  return new URL(where instanceof Request ? where.url : where).host
}
