// Triples are stored; a message is acked when the store reports its triples as durable.
import { defineSink } from '../src/flow/sink.ts'

export const storeTriples = defineSink({
  name: 'store-triples',
  input: 'triples',
  write: (batch, signal, { store, scope }) =>
    store.write(
      batch.flatMap(({ payload }) => payload.triples),
      scope,
      signal,
    ),
})
