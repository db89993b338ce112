// What a handler may use besides its message.
import type { ReadMessage, TopicRange } from '../../broker/broker.ts'
import { GraphmillError } from '../../errors.ts'
import type { ReadPositions, StoredEntry } from '../../progress/status-cache.ts'
import { type CompactedPort, type OutputPorts, outputRoute, payloadOf } from '../ports.ts'
import type { Context } from '../processor.ts'
import { decodeEntry, type OnUnreadable } from '../schemas-topic.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import type { RunnerResources } from './resources.ts'

/** The context of a handler; `signal` ends the work on its message. */
export function contextOf(
  resources: RunnerResources,
  binding: ConsumerBinding,
  signal: AbortSignal,
): Context {
  const { space, clock, ids } = resources
  const { services, scope, log } = binding
  const read: Context['read'] = (port, from) => readEntries(resources, binding, { port, from, signal })
  return { ...services, scope, space, log, clock, ids, signal, read }
}

async function* readEntries<P extends CompactedPort>(
  resources: RunnerResources,
  { scope, processor, log }: ConsumerBinding,
  { port, from, signal }: { readonly port: P; readonly from: ReadPositions; readonly signal: AbortSignal },
): AsyncGenerator<StoredEntry<OutputPorts[P]>> {
  const { schemas, space, metrics } = resources
  if (!processor.reads?.includes(port))
    throw new GraphmillError(
      'unexpected',
      `The processor ${processor.name} does not declare that it reads ${port}.`,
    )
  const { topic } = outputRoute(port, { space, ...scope })
  const onUnreadable: OnUnreadable = ({ partition, position, key }, err) => {
    log.warn({ topic, partition, position, key, err }, 'an unreadable entry is skipped')
    metrics?.unreadable(processor.name, topic)
  }
  for await (const entry of readTopic(resources, { topic, from, until: 'end' }, signal)) {
    const message = await decodeEntry(entry, payloadOf[port], { schemas, signal, onUnreadable })
    yield { message, partition: entry.partition, position: entry.position }
  }
  // A read that is aborted ends like one that has reached the end.
  signal.throwIfAborted()
}

async function* readTopic(
  { broker, topics }: RunnerResources,
  range: TopicRange,
  signal: AbortSignal,
): AsyncGenerator<ReadMessage> {
  try {
    yield* broker.read(range, signal)
  } catch (thrown) {
    topics.note(thrown, range.topic)
    throw thrown
  }
}
