// What a processor reports on `progress` of its whole flow, and of no document: records that were deleted before it had read
// them, and what it waits for.
import type { LostRange } from '../../broker/broker.ts'
import type { GraphmillError } from '../../errors.ts'
import type { Header } from '../../messages/envelope.ts'
import type { ProgressInit } from '../../messages/generated.ts'
import type { FlowMetrics } from '../../observe/metrics.ts'
import type { Clock, Outputs } from '../processor.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import type { InFlight } from './in-flight.ts'
import type { RunHandler } from './run-handler.ts'

export interface FlowEntriesOptions {
  readonly clock: Clock
  readonly inFlight: InFlight
  readonly runHandler: RunHandler
  readonly metrics: FlowMetrics | undefined
}

export interface FlowEntries {
  /** Reports a gap: in the log and the metrics once, on `progress` as often as it is called, with the same id. */
  lost(binding: ConsumerBinding, lost: LostRange): Promise<void>
  /** Resolves when it is stored; rejects when it can not be. */
  waiting(binding: ConsumerBinding, error: GraphmillError): Promise<void>
}

export function createFlowEntries({ clock, inFlight, runHandler, metrics }: FlowEntriesOptions): FlowEntries {
  const reported = new Set<string>()
  /** Nothing takes the work on such an entry away but the end of the grace period. */
  const owner = new AbortController().signal

  async function publish(binding: ConsumerBinding, id: string, payload: ProgressInit): Promise<void> {
    const held = inFlight.take({ signal: owner })
    const cause = headerOf(binding, id, clock.now())
    await runHandler(entry(payload), { binding, cause, held }).finally(held.free)
  }

  return {
    async lost(binding, { topic, partition, first = null, next, count = null, before }) {
      const processor = binding.processor.name
      const id = `lost:${binding.group}:${partition}:${first ?? ''}:${next}`
      if (!reported.has(id)) {
        reported.add(id)
        const fields = { topic, group: binding.group, partition, first, next, count: count ?? 'unknown' }
        binding.log.error(
          { ...fields, before: new Date(before).toISOString() },
          'records were deleted before they were read',
        )
        metrics?.lost(processor, topic, count ?? undefined)
      }
      const lost = { processor, topic, partition, first, next, count, before }
      await publish(binding, id, { kind: 'lost', lost })
    },
    waiting(binding, { code: type, message, retryAfterMs }) {
      const now = clock.now()
      const id = `waiting:${binding.group}:${type}:${now}`
      const until = retryAfterMs === undefined ? null : now + retryAfterMs
      return publish(binding, id, { kind: 'waiting', topic: binding.topic, error: { type, message }, until })
    },
  }
}

async function* entry(payload: ProgressInit): Outputs<'progress'> {
  yield { to: 'progress', payload }
}

const headerOf = ({ processor, scope }: ConsumerBinding, id: string, time: number): Header => ({
  id,
  source: processor.name,
  time,
  ...scope,
  collection: '',
  documentId: '',
  chunkId: '',
  correlationId: '',
  causationId: '',
  replyTo: null,
  deadline: null,
  traceparent: null,
})
