// The envelope: who, what, when and on whose behalf. A child inherits from its cause what it does not set, and an id names
// content: replaying a cause gives the same ids, other content never shares one.
import type { PayloadInits, Payloads } from './generated.ts'
import type { PayloadName } from './registry.ts'

/** The fields of every envelope but `type` and `payload`; see schemas/envelope.avsc. Times are milliseconds since 1970 UTC. */
export interface Header {
  readonly id: string
  readonly source: string
  readonly time: number
  readonly workspace: string
  readonly flow: string
  readonly collection: string
  readonly documentId: string
  readonly chunkId: string
  readonly correlationId: string
  readonly causationId: string
  readonly replyTo: string | null
  readonly deadline: number | null
  readonly traceparent: string | null
}

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
} as const

/** A decoded message; narrow it by `type`. */
export type Message<N extends PayloadName = PayloadName> = {
  [K in N]: Header & { readonly type: K; readonly payload: Payloads[K] }
}[N]

/** A payload to be written, with its type. */
export type TypedPayload<N extends PayloadName = PayloadName> = {
  [K in N]: { readonly type: K; readonly payload: PayloadInits[K] }
}[N]

/** What a child may set for itself instead of inheriting it. */
export type HeaderOverrides = Partial<
  Pick<
    Header,
    'collection' | 'documentId' | 'chunkId' | 'correlationId' | 'replyTo' | 'deadline' | 'traceparent'
  >
>

/** The header of a message that `cause` led to, but for its id. A reply address is never inherited. */
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
  }
}

/** The broker headers, by which tools route and dead letters are accounted for without decoding. Empty fields are left out. */
export function brokerHeaders(header: Header, type: PayloadName): Record<string, string> {
  const headers: Record<string, string> = { id: header.id, type, source: header.source }
  for (const name of [
    'correlationId',
    'replyTo',
    'workspace',
    'flow',
    'documentId',
    'chunkId',
    'traceparent',
  ] as const) {
    const value = header[name]
    if (value) headers[name] = value
  }
  return headers
}
