// Runs a handler's generator: what it yields goes to the broker, and the promise that it is stored goes back into it.
import type { Broker } from '../../broker/broker.ts'
import type { Codec } from '../../messages/codec.ts'
import type { Header } from '../../messages/envelope.ts'
import type { FlowMetrics } from '../../observe/metrics.ts'
import type { ContextSigner } from '../context-signature.ts'
import type { OutputPort } from '../ports.ts'
import type { Clock, Deferral, Outputs } from '../processor.ts'
import type { Circuits } from './circuits.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import type { InFlightDelivery } from './in-flight.ts'
import { measure } from './measure.ts'
import { createOutbox } from './outbox.ts'

export interface RunHandlerOptions {
  readonly broker: Broker
  readonly codec: Codec
  readonly circuits: Circuits
  readonly clock: Clock
  readonly space: string
  readonly signer: ContextSigner
  readonly metrics: FlowMetrics | undefined
  /** Gets why a message could not be published, and returns what the work on its cause fails with. */
  readonly noteMissing: (thrown: unknown, topic: string) => unknown
}

/** What `cause` leads to, in the hands that it was taken in. */
export interface HandlerRun {
  readonly binding: ConsumerBinding
  readonly cause: Header
  readonly held: InFlightDelivery
}

/** Resolves, with what the generator returned, when the broker has stored all that it yielded. */
export type RunHandler = (
  outputs: Outputs<OutputPort>,
  handlerRun: HandlerRun,
) => Promise<Deferral | undefined>

export function createRunHandler({
  broker,
  codec,
  circuits,
  clock,
  space,
  signer,
  metrics,
  noteMissing,
}: RunHandlerOptions): RunHandler {
  return async (outputs, { binding, cause, held }) => {
    const source = binding.processor.name
    const outbox = createOutbox(
      cause,
      { broker, codec, circuits, clock, space, signer, source },
      {
        signal: held.signal,
        fail(thrown, topic) {
          const error = noteMissing(thrown, topic)
          held.abort(error)
          return error
        },
        stored(output, topic) {
          if (!metrics) return
          metrics.published(source, topic)
          const { takenAt } = held
          measure(metrics.extraction, { processor: source, cause, output, takenAt, storedAt: clock.now() })
        },
      },
    )
    try {
      let step = await outputs.next(undefined)
      while (!step.done) {
        const stored = outbox.put(step.value)
        await outbox.room()
        step = await outputs.next(stored)
      }
      await outbox.flush()
      return step.value ?? undefined
    } catch (thrown) {
      held.abort(thrown) // so that the handler can tell why it is ended
      throw thrown
    } finally {
      await outputs.return(undefined)
    }
  }
}
