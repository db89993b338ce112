// A triple store over HTTP: SPARQL 1.1 Update or the Graph Store Protocol. A store holds a set of triples, so sending a batch again adds
// nothing. Quoted triples are reified. A blank node is new in every batch.

import { type Secret, secretText } from '../config/secret.ts'
import { GraphmillError } from '../errors.ts'
import { BodyTooLarge, readText } from '../http/body.ts'
import { movedTo, request } from '../http/request.ts'
import { redactCut } from '../redact.ts'
import { absoluteIri, bracketed, type IriNotation, tripleText } from './notation.ts'
import { reify } from './reify.ts'
import type { TripleStore } from './store.ts'
import type { Triple } from './term.ts'

/** How triples are sent: as `INSERT DATA`, which is atomic per batch, or as one POST per graph of a batch. */
export const storeProtocols = ['update', 'graph-store'] as const

export type StoreProtocol = (typeof storeProtocols)[number]

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

/** Triples of one request, and characters of it, at most. */
const maxTriples = 5000
const maxLength = 2 * 1024 * 1024
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
  const { protocol = 'update', timeoutMs = 60_000 } = options
  let isProven = false

  async function send({ query, body }: StoreRequest, signal: AbortSignal | undefined): Promise<void> {
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

  return {
    destination: url.host,
    async write(triples, _, signal) {
      const lists = parts(reify(triples), notations[protocol])
      if (!isProven) {
        for (const each of requests[protocol]([])) await send(each, signal)
        isProven = true
      }
      for (const part of lists) for (const each of requests[protocol](part)) await send(each, signal)
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

interface StoreRequest {
  /** Added to the query of the address. */
  readonly query?: string
  readonly body: string
}

/** A triple as text, in its graph. */
interface GraphLine {
  readonly graph: string | null
  readonly text: string
}

const contentTypes: { readonly [P in StoreProtocol]: string } = {
  update: 'application/sparql-update; charset=utf-8',
  'graph-store': 'application/n-triples; charset=utf-8',
}

// SPARQL resolves IRIs, so that `e/a/../b` would join `e/b`: there `.` and `..` are written `%2E` and `%2E%2E`.
const unresolved: IriNotation = (iri) =>
  bracketed(iri.replace(/(?<=\/|^[^:/]*:)\.{1,2}(?=[/?#]|$)/g, (dots) => dots.replaceAll('.', '%2E')))

const notations: { readonly [P in StoreProtocol]: IriNotation } = {
  update: unresolved,
  'graph-store': bracketed,
}

/** The requests for a batch. An empty batch gives a request that changes nothing. */
const requests: { readonly [P in StoreProtocol]: (lines: readonly GraphLine[]) => StoreRequest[] } = {
  update(lines) {
    const blocks = byGraph(lines).map(([graph, text]) =>
      graph === null ? text : `GRAPH ${unresolved(graph)} {\n${text}}\n`,
    )
    return [{ body: `INSERT DATA {\n${blocks.map(guardEscapes).join('')}}` }]
  },
  'graph-store'(lines) {
    const graphs: [string | null, string][] = lines.length === 0 ? [[null, '']] : byGraph(lines)
    return graphs.map(([graph, body]) => ({
      query: graph === null ? 'default' : `graph=${encodeURIComponent(graph)}`,
      body,
    }))
  },
}

/** The triples as lines, in lists of one request each. */
function parts(triples: readonly Triple[], notation: IriNotation): GraphLine[][] {
  const lists: GraphLine[][] = []
  let length = 0
  for (const each of triples) {
    const line = { graph: each.g ? absoluteIri(each.g) : null, text: `${tripleText(each, notation)} .\n` }
    const last = lists.at(-1)
    if (last && last.length < maxTriples && length + line.text.length <= maxLength) last.push(line)
    else {
      lists.push([line])
      length = 0
    }
    length += line.text.length
  }
  return lists
}

function byGraph(lines: readonly GraphLine[]): [string | null, string][] {
  const graphs = new Map<string | null, string>()
  for (const { graph, text } of lines) graphs.set(graph, (graphs.get(graph) ?? '') + text)
  return [...graphs]
}

// SPARQL decodes `\uXXXX` before anything else, and stores differ in whether `\\u0022` contains one. When the `u` itself is escaped, all
// of them read a backslash and a `u`.
function guardEscapes(text: string): string {
  return text.replace(/\\(?:\\([uU])?|.)/g, (whole, letter: string | undefined) =>
    letter ? `\\\\\\u00${letter === 'u' ? '75' : '55'}` : whole,
  )
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
