// Sinks: a batch is written as one, and goes to the store of the runtime that took it.
import { expect, test } from 'vitest'
import { storeTriples } from '../../processors/store-triples.ts'
import { defineSink } from '../../src/flow/sink.ts'
import { iri, type Triple, triple } from '../../src/rdf/term.ts'
import { startFlow } from '../support/flow.ts'

const count = 20

function countingStore() {
  const stored: Triple[] = []
  const full = Promise.withResolvers<void>()
  return {
    stored,
    full: full.promise,
    async write(triples: readonly Triple[]) {
      await new Promise(setImmediate)
      stored.push(...triples)
      if (stored.length === count) full.resolve()
    },
    async close() {},
  }
}

test('two mills of one process each write to their own store', async () => {
  const stores = [countingStore(), countingStore()]
  const flows = await Promise.all(stores.map((store) => startFlow([storeTriples], { store })))
  const of = (runtime: number) => triple(iri(`urn:mill:${runtime}`), iri('urn:p'), iri('urn:o'))
  await Promise.all(
    flows.flatMap(({ send }, runtime) =>
      Array.from({ length: count }, () => send('triples', { triples: [of(runtime)] })),
    ),
  )
  await Promise.all(stores.map(({ full }) => full))
  for (const [runtime, { stored }] of stores.entries())
    expect(stored.map(({ s }) => s.iri)).toEqual(Array(count).fill(`urn:mill:${runtime}`))
  await Promise.all(flows.map((flow) => flow.stop()))
})

test('a sink is given its batch, a signal that ends its waits, and the context', async () => {
  const written = Promise.withResolvers<unknown[]>()
  const sink = defineSink({
    name: 'collect',
    input: 'triples',
    async write(batch, signal, context) {
      signal.throwIfAborted()
      written.resolve([batch.map(({ type }) => type), signal === context.signal, context.scope.flow])
    },
  })
  const flow = await startFlow([sink])
  await flow.send('triples', { triples: [] })
  expect(await written.promise).toEqual([['Triples'], true, 'default'])
  await flow.stop()
})

test('messages that come one by one are not a batch each, and none waits for a batch to be full', async () => {
  const messages = 300
  let [batches, written] = [0, 0]
  const all = Promise.withResolvers<void>()
  const sink = defineSink({
    name: 'collect',
    input: 'triples',
    async write({ length }) {
      batches++
      written += length
      if (written === messages) all.resolve()
    },
  })
  const flow = await startFlow([sink])
  const begun = performance.now()
  for (let count = 0; count < messages; count++) {
    await flow.send('triples', { triples: [] })
    await new Promise(setImmediate)
  }
  await all.promise
  const [burst, everyMs] = [10, 50]
  expect(batches).toBeLessThanOrEqual(burst + (performance.now() - begun) / everyMs + 2)
  await flow.stop()
})
