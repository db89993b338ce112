// One delivery: it is decoded and checked, and its processor's outputs are published.
import type { Delivery } from '../../broker/broker.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import type { Message } from '../../messages/envelope.ts'
import { type Span, startSpan } from '../../observe/trace.ts'
import type { Deferral } from '../processor.ts'
import { removalByKey } from '../removal.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import { contextOf } from './context.ts'
import { measureHandled } from './measure.ts'
import { checkMessage, watchDeadline } from './message-checks.ts'
import type { RunnerResources } from './resources.ts'
import { type HandlerRun, runHandler } from './run-handler.ts'

/** Resolves when the broker has stored all outputs. */
export async function handleDelivery(
  resources: RunnerResources,
  binding: ConsumerBinding,
  delivery: Delivery,
): Promise<Deferral | undefined> {
  const work = resources.inFlight.begin(delivery)
  let span: Span | undefined
  try {
    const message = await decode(delivery, binding, resources, work.signal)
    span = startSpan(`${binding.processor.name} ${binding.port}`, {
      kind: 'consumer',
      parent: message.traceparent,
      attributes: () => attributesOf(binding, message),
    })
    const { traceId, traceparent } = span
    const traced = message.traceparent === traceparent ? message : { ...message, traceparent }
    const log = binding.log.child({ messageId: message.id, traceId })
    const handling = { binding: { ...binding, log }, work }
    const deferral = await span.within(() => handle(resources, traced, handling))
    span.end()
    return deferral
  } catch (thrown) {
    span?.end(toGraphmillError(thrown))
    throw work.signal.aborted ? work.signal.reason : thrown
  } finally {
    work.end()
  }
}

function decode(
  delivery: Delivery,
  { port, scope }: ConsumerBinding,
  { schemas }: RunnerResources,
  signal: AbortSignal,
): Message | Promise<Message> {
  const isEmpty = delivery.value.byteLength === 0
  if (isEmpty && port === 'document' && delivery.key) return removalByKey(delivery, scope)
  if (isEmpty) throw new GraphmillError('message_empty', 'The message has no value.')
  return schemas.decode(delivery, signal)
}

async function handle(
  resources: RunnerResources,
  message: Message,
  { binding, work }: Pick<HandlerRun, 'binding' | 'work'>,
): Promise<Deferral | undefined> {
  const checked = checkMessage(message, binding, resources)
  if (checked) await checked
  const lift = watchDeadline(message, binding, resources, work)
  try {
    const outputs = binding.processor.handle(message as never, contextOf(resources, binding, work.signal))
    const deferral = await runHandler(resources, outputs, { binding, cause: message, work })
    if (resources.metrics)
      measureHandled(resources.metrics.documents, message, {
        processor: binding.processor.name,
        handledAt: resources.clock.now(),
      })
    return deferral
  } finally {
    lift()
  }
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
