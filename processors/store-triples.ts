// Triples are stored, and withdrawn when their document no longer states them. A message is acked when the store reports its triples as
// durable. Triples that come after their withdrawal do not stay: what was withdrawn by the time of the write is withdrawn again, so that
// no order of messages and no crash matters.
import { GraphmillError } from '../src/errors.ts'
import type { MessageOf } from '../src/flow/ports.ts'
import { type Context, defineProcessor, type Scope } from '../src/flow/processor.ts'
import { defineSink } from '../src/flow/sink.ts'
import { createRetractionCache, type RetractionCache } from '../src/progress/retraction-cache.ts'
import { isWithdrawn, type TripleSupport, type Withdrawal } from '../src/rdf/support.ts'

type TriplesMessage = MessageOf<'triples'>

interface ScopeState {
  readonly retractions: RetractionCache
  /** The last withdrawal: one at a time, since a store does them one after the other anyway. */
  last: Promise<unknown>
}

const states = new WeakMap<Scope, ScopeState>()

function stateOf(scope: Scope): ScopeState {
  const state = states.get(scope) ?? { retractions: createRetractionCache(), last: Promise.resolve() }
  states.set(scope, state)
  return state
}

const sink = defineSink({
  name: 'store-triples',
  input: 'triples',
  async write(batch, signal, context) {
    const { store, scope } = context
    if (store.support) return keepSupported(batch, store.support, context)
    const triples = batch.flatMap(({ payload }) => payload.triples)
    await store.write(triples, scope, signal)
  },
})

export const storeTriples = defineProcessor({
  name: sink.name,
  inputs: ['triples', 'retractions'],
  outputs: [],
  reads: ['retractions'],
  maxInFlight: sink.maxInFlight!,
  async *handle(message, context) {
    if (message.type === 'Triples') yield* sink.handle(message, context)
    else await retract(message, context)
  },
})

async function keepSupported(
  batch: readonly TriplesMessage[],
  support: TripleSupport,
  context: Context,
): Promise<void> {
  const { scope, signal } = context
  const { retractions } = stateOf(scope)
  const isLate = (message: TriplesMessage) => {
    const withdrawal = retractions.of(message.documentId)
    return withdrawal !== undefined && isWithdrawn(message, withdrawal)
  }
  // What is known to be late is not written. An earlier delivery of it may have been, so it is withdrawn below.
  const statements = batch
    .filter((message) => !isLate(message))
    .map((message) => ({ emission: message, triples: message.payload.triples }))
  await support.state(statements, scope, signal)
  await retractions.catchUp(context)
  const late = new Set(batch.filter(isLate).map(({ documentId }) => documentId))
  for (const documentId of late) await withdraw(retractions.of(documentId)!, support, context)
}

/** Follows the newest retraction of the document, whatever the order in which they arrive. */
async function retract(message: MessageOf<'retractions'>, context: Context): Promise<void> {
  const { store, scope } = context
  const { documentId, payload } = message
  if (!store.support)
    throw new GraphmillError(
      'store_cannot_withdraw',
      `What the document no longer states (${payload.reason}) stays in ${store.destination ?? 'the store'}.`,
    )
  const { retractions } = stateOf(scope)
  await retractions.catchUp(context)
  retractions.put(message)
  await withdraw(retractions.of(documentId)!, store.support, context)
}

async function withdraw(
  withdrawal: Withdrawal,
  support: TripleSupport,
  { scope, signal }: Context,
): Promise<void> {
  const state = stateOf(scope)
  const turn = state.last.catch(() => undefined).then(() => support.withdraw(withdrawal, scope, signal))
  state.last = turn.catch(() => undefined)
  await turn
}
