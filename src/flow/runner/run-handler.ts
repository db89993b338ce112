// Runs a handler's generator: its outputs go to the broker, and each `yield` returns the promise that its output is stored.
import type { Header } from '../../messages/envelope.ts'
import type { OutputPort } from '../ports.ts'
import type { Deferral, Outputs } from '../processor.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import type { InFlightDelivery } from './in-flight.ts'
import { measure } from './measure.ts'
import { createOutbox } from './outbox.ts'
import type { RunnerResources } from './resources.ts'

export interface HandlerRun {
  readonly binding: ConsumerBinding
  /** The message that the outputs follow from. */
  readonly cause: Header
  readonly work: InFlightDelivery
}

/** Resolves, with what the generator returned, when the broker has stored all outputs. */
export async function runHandler(
  resources: RunnerResources,
  outputs: Outputs<OutputPort>,
  { binding, cause, work }: HandlerRun,
): Promise<Deferral | undefined> {
  const { clock, metrics, topics } = resources
  const source = binding.processor.name
  const outbox = createOutbox(resources, {
    cause,
    source,
    signal: work.signal,
    onFailure(thrown, topic) {
      const error = topics.note(thrown, topic)
      work.abort(error)
      return error
    },
    onStored(output, topic) {
      if (!metrics) return
      metrics.published(source, topic)
      const { takenAt } = work
      measure(metrics.extraction, { processor: source, cause, output, takenAt, storedAt: clock.now() })
    },
  })
  try {
    let step = await outputs.next(undefined)
    while (!step.done) {
      const stored = outbox.put(step.value)
      const room = outbox.room()
      if (room) await room
      step = await outputs.next(stored)
    }
    await outbox.flush()
    return step.value ?? undefined
  } catch (thrown) {
    work.abort(thrown) // the handler's signal gives the reason for its end
    await outputs.return(undefined)
    throw thrown
  }
}
