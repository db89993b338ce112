// What a handler may use besides its message.
import type { ReadMessage, TopicRange } from '../../broker/broker.ts'
import type { ReadPositions, StoredStatus } from '../../progress/status-cache.ts'
import { outputRoute } from '../ports.ts'
import type { Context } from '../processor.ts'
import { decodeEntry, type OnUnreadable } from '../schemas-topic.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import type { RunnerResources } from './resources.ts'

/** Makes the context of a handler; `signal` ends the work on its message. */
export type ContextOf = (binding: ConsumerBinding, signal: AbortSignal) => Context

export function createContextOf(resources: RunnerResources): ContextOf {
  const { broker, schemas, clock, ids, space, metrics, topics } = resources

  async function* readStatus(
    { scope, processor, log }: ConsumerBinding,
    behind: ReadPositions,
    signal: AbortSignal,
  ): AsyncGenerator<StoredStatus> {
    const { topic } = outputRoute('status', { space, ...scope })
    const onUnreadable: OnUnreadable = ({ partition, position, key }, err) => {
      log.warn({ topic, partition, position, key, err }, 'an unreadable entry is skipped')
      metrics?.unreadable(processor.name, topic)
    }
    for await (const entry of readOwn({ topic, from: behind, until: 'end' }, signal)) {
      const message = await decodeEntry(entry, 'Status', { schemas, signal, onUnreadable })
      yield { message, partition: entry.partition, position: entry.position }
    }
    // A read that is aborted ends like one that has reached the end.
    signal.throwIfAborted()
  }

  async function* readOwn(range: TopicRange, signal: AbortSignal): AsyncGenerator<ReadMessage> {
    try {
      yield* broker.read(range, signal)
    } catch (thrown) {
      topics.note(thrown, range.topic)
      throw thrown
    }
  }

  return (binding, signal) => {
    const { services, scope, log } = binding
    const read: Context['read'] = (_port, behind) => readStatus(binding, behind, signal)
    return { ...services, scope, space, log, clock, ids, signal, read }
  }
}
