// A triple store over HTTP: SPARQL 1.1 Update or the Graph Store Protocol. A store holds a set of triples, so sending a batch again adds
// nothing. Quoted triples are reified. A blank node is new in every batch.

import { type Secret, secretText } from '../config/secret.ts'
import { GraphmillError } from '../errors.ts'
import { BodyTooLarge, readText } from '../http/body.ts'
import { movedTo, request } from '../http/request.ts'
import { redactCut } from '../redact.ts'
import { reify } from './reify.ts'
import { supported, withdrawalUpdate } from './sparql-support.ts'
import {
  contentTypes,
  type GraphLine,
  graphLines,
  notations,
  parts,
  requests,
  type StoreProtocol,
  type StoreRequest,
} from './sparql-text.ts'
import type { TripleStore } from './store.ts'
import type { TripleSupport } from './support.ts'

/** A SPARQL store, and how it is written to. */
export interface SparqlStoreOptions {
  /** The endpoint, such as `http://host:3030/ds/update` or `http://host:3030/ds/data`. It may hold user and password. */
  readonly url: string
  /** Default `update`. */
  readonly protocol?: StoreProtocol
  /** Sent as a bearer token; read at each request. */
  readonly token?: string | Secret | undefined
  /** Limit of one request. Default 60,000. */
  readonly timeoutMs?: number
}

/** Bytes of an answer, at most: a larger one is not the answer to an update. */
const maxAnswerBytes = 1024 * 1024

/**
 * Opens a store. Nothing is sent before the first write, which begins with an empty update to see whether the store accepts updates.
 * `write` throws `store_failed` when the store is unavailable, `store_refused` when it refuses the triples for a reason that the operator
 * can fix, and `message_invalid` for triples that RDF cannot express or that only this store refuses.
 *
 * @throws `configuration_invalid` for an invalid address.
 */
export function openSparqlStore(options: SparqlStoreOptions): TripleStore {
  const { url, authorization } = readAddress(options)
  const { protocol = 'update', timeoutMs: usualMs = 60_000 } = options
  let isProven = false

  async function send(
    { query, body, timeoutMs = usualMs }: StoreRequest,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const target = new URL(url)
    if (query) target.search = [target.search.slice(1), query].filter((part) => part !== '').join('&')
    const limits = [AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])]
    let response: Response
    let said: string
    try {
      response = await request(target, {
        method: 'POST',
        headers: { 'content-type': contentTypes[protocol], ...authorization() },
        body,
        signal: AbortSignal.any(limits),
      })
      said = await readText(response.body, maxAnswerBytes)
    } catch (cause) {
      signal?.throwIfAborted()
      if (cause instanceof GraphmillError) throw cause
      if (cause instanceof BodyTooLarge)
        throw new GraphmillError(
          'store_refused',
          `The store at ${target.host} answers with ${cause.message}.`,
          {
            cause,
          },
        )
      throw new GraphmillError('store_failed', `The store at ${target.host} does not answer.`, { cause })
    }
    if (!response.ok) throw refusal(response, said, { host: target.host, isProven })
  }

  async function prove(signal: AbortSignal | undefined): Promise<void> {
    if (isProven) return
    for (const each of requests[protocol]([])) await send(each, signal)
    isProven = true
  }

  async function put(units: readonly (readonly GraphLine[])[], signal: AbortSignal | undefined) {
    await prove(signal)
    for (const part of parts(units)) for (const each of requests[protocol](part)) await send(each, signal)
  }

  const notation = notations[protocol]
  const support: TripleSupport = {
    async state(statements, scope, signal) {
      await put(
        statements.flatMap((each) => supported(each, { scope, notation })),
        signal,
      )
    },
    async withdraw(withdrawal, scope, signal) {
      await prove(signal)
      // A document of many chunks is one update.
      await send({ body: withdrawalUpdate(withdrawal, scope), timeoutMs: 10 * usualMs }, signal)
    },
  }

  return {
    destination: url.host,
    // Without queries nobody can tell whether another graph holds a triple.
    ...(protocol === 'update' && { support }),
    async write(triples, _, signal) {
      const units = graphLines(reify(triples), notation).map((line) => [line])
      await put(units, signal)
    },
    async close() {},
  }
}

interface StoreAddress {
  readonly url: URL
  /** The current header, if there is one. */
  readonly authorization: () => { readonly authorization?: string }
}

function readAddress({ url, token }: SparqlStoreOptions): StoreAddress {
  const address = URL.parse(url)
  if (address === null || !/^https?:$/.test(address.protocol))
    throw new GraphmillError(
      'configuration_invalid',
      'The address of the store must begin with http:// or https://.',
    )
  const [user, password] = [address.username, address.password].map(unquote)
  address.username = ''
  address.password = ''
  const basic = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
  const authorization = () => {
    if (token) return { authorization: `Bearer ${secretText(token)}` }
    return user || password ? { authorization: basic } : {}
  }
  return { url: address, authorization }
}

function unquote(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    const message = 'In user and password of the address of the store a % must be written %25.'
    throw new GraphmillError('configuration_invalid', message, { cause })
  }
}

/** The error for a status: the fault is with the store, its operator, or the triples. Before the first successful write it is with the address. */
function refusal(
  response: Response,
  said: string,
  { host, isProven }: { host: string; isProven: boolean },
): GraphmillError {
  const { status } = response
  const words = /^\s*</.test(said) ? '' : redactCut(said.replace(/\s+/g, ' ').trim(), 200)
  const meaning = meanings[status] ?? movedTo(response) ?? ''
  const message = `The store at ${host} answered ${status}${words && `: ${words}`}${meaning && `; ${meaning}`}`
  if (status >= 500 || status === 408 || status === 425 || status === 429) {
    const seconds = Number(response.headers.get('retry-after'))
    const wait = seconds > 0 ? { retryAfterMs: seconds * 1000 } : {}
    return new GraphmillError('store_failed', message, { details: { status }, ...wait })
  }
  const isInput = isProven && (status === 400 || status === 413 || status === 422)
  return new GraphmillError(isInput ? 'message_invalid' : 'store_refused', message, { details: { status } })
}

const noUpdates = 'there it takes no updates in this protocol'
const meanings: Readonly<Record<number, string>> = {
  401: 'the credentials are missing or wrong',
  403: 'it takes no updates, or none with these credentials',
  404: 'there is nothing at this address',
  405: noUpdates,
  415: noUpdates,
  501: noUpdates,
}
