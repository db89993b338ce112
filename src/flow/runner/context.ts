// What a handler may touch besides its message.
import type { Broker, ReadMessage, TopicRange } from '../../broker/broker.ts'
import type { FlowMetrics } from '../../observe/metrics.ts'
import type { ReadPositions, StoredStatus } from '../../progress/status-cache.ts'
import { outputRoute } from '../ports.ts'
import type { Clock, Context, Ids } from '../processor.ts'
import { decodeEntry, type OnUnreadable, type SchemasTopic } from '../schemas-topic.ts'
import type { ConsumerBinding } from './consumer-binding.ts'

export interface ContextOptions {
  readonly broker: Broker
  readonly schemas: SchemasTopic
  readonly clock: Clock
  readonly ids: Ids
  readonly space: string
  readonly metrics: FlowMetrics | undefined
  /** Told of what a read of a topic threw. */
  readonly noteMissing: (thrown: unknown, topic: string) => unknown
}

/** Makes what the handlers of a line get; `signal` ends the work on their message. */
export type ContextOf = (binding: ConsumerBinding, signal: AbortSignal) => Context

export function createContextOf(options: ContextOptions): ContextOf {
  const { broker, schemas, clock, ids, space, metrics, noteMissing } = options

  async function* readStatus(
    { scope, processor, log }: ConsumerBinding,
    behind: ReadPositions,
    signal: AbortSignal,
  ): AsyncGenerator<StoredStatus> {
    const { topic } = outputRoute('status', { space, ...scope })
    const onUnreadable: OnUnreadable = ({ partition, position, key }, err) => {
      log.warn({ topic, partition, position, key, err }, 'an entry that can not be read is passed over')
      metrics?.unreadable(processor.name, topic)
    }
    for await (const entry of readOwn({ topic, from: behind, until: 'end' }, signal)) {
      const message = await decodeEntry(entry, 'Status', { schemas, signal, onUnreadable })
      yield { message, partition: entry.partition, position: entry.position }
    }
    // A read that was aborted ends as one that came to the end does.
    signal.throwIfAborted()
  }

  async function* readOwn(range: TopicRange, signal: AbortSignal): AsyncGenerator<ReadMessage> {
    try {
      yield* broker.read(range, signal)
    } catch (thrown) {
      noteMissing(thrown, range.topic)
      throw thrown
    }
  }

  return (binding, signal) => {
    const { services, scope, log } = binding
    const read: Context['read'] = (_port, behind) => readStatus(binding, behind, signal)
    return { ...services, scope, space, log, clock, ids, signal, read }
  }
}
