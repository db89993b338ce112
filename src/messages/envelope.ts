// The envelope of a message. A message inherits from its cause the fields that it does not set. An id names content: handling a
// cause again gives the same ids, and different content never shares one.
import type { Envelope, PayloadInits, Payloads } from './generated.ts'
import type { PayloadName } from './registry.ts'

/** The fields of every envelope except `type`. Times are milliseconds since 1970 UTC. */
export type Header = Omit<Envelope, 'type'>

/** A header to be written: the fields of versions may be left out. */
export type HeaderInit = Omit<Header, 'version' | 'versionTime'> &
  Partial<Pick<Header, 'version' | 'versionTime'>>

/** The fields of a header that a message without a cause leaves empty. */
export const emptyHeader = {
  collection: '',
  documentId: '',
  chunkId: '',
  correlationId: '',
  causationId: '',
  replyTo: null,
  deadline: null,
  traceparent: null,
  version: '',
  versionTime: 0,
} as const

/** A decoded message; narrow it by `type`. */
export type Message<N extends PayloadName = PayloadName> = {
  [K in N]: Header & { readonly type: K; readonly payload: Payloads[K] }
}[N]

/** A payload to be written, with its type. */
export type TypedPayload<N extends PayloadName = PayloadName> = {
  [K in N]: { readonly type: K; readonly payload: PayloadInits[K] }
}[N]

/** The fields that a message may set instead of inheriting them. */
export type HeaderOverrides = Partial<
  Pick<
    Header,
    | 'collection'
    | 'documentId'
    | 'chunkId'
    | 'correlationId'
    | 'replyTo'
    | 'deadline'
    | 'traceparent'
    | 'version'
    | 'versionTime'
  >
>

/** The header, without its id, of a message that `cause` led to. A reply address is never inherited. */
export function inherit(
  cause: Header,
  own: { source: string; time: number } & HeaderOverrides,
): Omit<Header, 'id'> {
  return {
    source: own.source,
    time: own.time,
    workspace: cause.workspace,
    flow: cause.flow,
    collection: own.collection ?? cause.collection,
    documentId: own.documentId ?? cause.documentId,
    chunkId: own.chunkId ?? cause.chunkId,
    correlationId: own.correlationId ?? cause.correlationId,
    causationId: cause.id,
    replyTo: own.replyTo ?? null,
    deadline: own.deadline === undefined ? cause.deadline : own.deadline,
    traceparent: own.traceparent ?? cause.traceparent,
    version: own.version ?? cause.version,
    versionTime: own.versionTime ?? cause.versionTime,
  }
}

/** The broker headers: tools route by them, and dead letters are counted by them, without decoding. Empty fields are left out. */
export function brokerHeaders(header: HeaderInit, type: PayloadName): Record<string, string> {
  const headers: Record<string, string> = { id: header.id, type, source: header.source }
  for (const name of [
    'correlationId',
    'replyTo',
    'workspace',
    'flow',
    'documentId',
    'chunkId',
    'traceparent',
    'versionTime',
  ] as const) {
    const value = header[name]
    if (value) headers[name] = String(value)
  }
  return headers
}
