// The message of the relay benches: 1 KiB of text in, facts about one entity out.
import type { Codec } from '../src/messages/codec.ts'
import { iri } from '../src/rdf/term.ts'

const entity = iri('urn:relayed')
export const relayedPayload = (context: string) => ({ entities: [{ entity, context, chunkId: '' }] })

export const scope = { workspace: 'default', flow: 'default' }

/** An envelope without any references. */
export const blank = {
  source: 'bench',
  time: Date.UTC(2026, 0, 1),
  ...scope,
  collection: 'default',
  causationId: '',
  replyTo: null,
  deadline: null,
  traceparent: null,
}

/** A message of the input topic as one for the output topic. */
export function relayed(
  codec: Codec,
  to: string,
  value: Uint8Array,
  headers: Readonly<Record<string, string>>,
) {
  const { payload, ...cause } = codec.decode(value, headers) as {
    payload: { text: string }
  } & typeof blank & {
      id: string
      correlationId: string
      documentId: string
      chunkId: string
    }
  const header = { ...cause, source: 'relay', time: Date.now(), causationId: cause.id }
  const typed = { type: 'EntityContexts', payload: relayedPayload(payload.text) } as const
  return codec.encode(header, typed, {
    topic: to,
    key: cause.chunkId,
    salt: cause.id,
    id: (digest) => digest,
  })
}
