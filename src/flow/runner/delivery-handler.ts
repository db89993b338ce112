// One delivery: it is decoded and checked, and its processor's outputs are published.
import type { Delivery } from '../../broker/broker.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import type { Message } from '../../messages/envelope.ts'
import { startSpan } from '../../observe/trace.ts'
import type { Deferral } from '../processor.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import type { ContextOf } from './context.ts'
import type { InFlightDelivery } from './in-flight.ts'
import { checkMessage } from './message-checks.ts'
import type { RunnerResources } from './resources.ts'
import type { RunHandler } from './run-handler.ts'

/** Resolves when the broker has stored all outputs. */
export type DeliveryHandler = (binding: ConsumerBinding, delivery: Delivery) => Promise<Deferral | undefined>

export function createDeliveryHandler(
  resources: RunnerResources,
  { contextOf, runHandler }: { readonly contextOf: ContextOf; readonly runHandler: RunHandler },
): DeliveryHandler {
  const { inFlight, schemas } = resources

  async function decode(delivery: Delivery, signal: AbortSignal): Promise<Message> {
    if (delivery.value.byteLength === 0)
      throw new GraphmillError('message_empty', 'The message has no value.')
    return schemas.decode(delivery, signal)
  }

  async function handleInSpan(
    binding: ConsumerBinding,
    message: Message,
    work: InFlightDelivery,
  ): Promise<Deferral | undefined> {
    const span = startSpan(`${binding.processor.name} ${binding.port}`, {
      kind: 'consumer',
      parent: message.traceparent,
      attributes: () => attributesOf(binding, message),
    })
    try {
      const { traceId, traceparent } = span
      const log = binding.log.child({ messageId: message.id, traceId })
      const deferral = await span.within(() => handle({ ...binding, log }, { ...message, traceparent }, work))
      span.end()
      return deferral
    } catch (thrown) {
      span.end(toGraphmillError(thrown))
      throw thrown
    }
  }

  async function handle(
    binding: ConsumerBinding,
    message: Message,
    work: InFlightDelivery,
  ): Promise<Deferral | undefined> {
    await checkMessage(message, binding, resources)
    const outputs = binding.processor.handle(message as never, contextOf(binding, work.signal))
    return runHandler(outputs, { binding, cause: message, work })
  }

  return (binding, delivery) =>
    inFlight.run(delivery, async (work) => {
      try {
        return await handleInSpan(binding, await decode(delivery, work.signal), work)
      } catch (thrown) {
        throw work.signal.aborted ? work.signal.reason : thrown
      }
    })
}

/** By OpenTelemetry's conventions for messaging, and ours. */
function attributesOf({ topic, group, scope }: ConsumerBinding, { id, documentId, chunkId }: Message) {
  return {
    'messaging.operation.type': 'process',
    'messaging.destination.name': topic,
    'messaging.consumer.group.name': group,
    'messaging.message.id': id,
    'graphmill.workspace': scope.workspace,
    'graphmill.flow': scope.flow,
    'graphmill.document.id': documentId,
    'graphmill.chunk.id': chunkId,
  }
}
