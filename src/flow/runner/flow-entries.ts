// What a processor reports on `progress` about its whole flow rather than a document: records that were deleted before it had read
// them, and what it waits for.
import type { LostRange } from '../../broker/broker.ts'
import type { GraphmillError } from '../../errors.ts'
import { emptyHeader } from '../../messages/envelope.ts'
import type { ProgressInit } from '../../messages/generated.ts'
import type { Outputs } from '../processor.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import type { RunnerResources } from './resources.ts'
import { runHandler } from './run-handler.ts'

export interface FlowEntries {
  /** Reports a gap: in the log and the metrics once, on `progress` at each call, with the same id. */
  lost(binding: ConsumerBinding, lost: LostRange): Promise<void>
  /** Resolves when the entry is stored; rejects when it can't be. */
  waiting(binding: ConsumerBinding, error: GraphmillError): Promise<void>
}

export function createFlowEntries(resources: RunnerResources): FlowEntries {
  const { clock, inFlight, metrics } = resources
  const reported = new Set<string>()
  /** Only the end of the grace period aborts the work on such an entry. */
  const owner = { signal: new AbortController().signal }

  async function publish(binding: ConsumerBinding, id: string, payload: ProgressInit): Promise<void> {
    const { processor, scope } = binding
    const cause = { ...emptyHeader, id, source: processor.name, time: clock.now(), ...scope }
    await inFlight.run(owner, (work) => runHandler(resources, entry(payload), { binding, cause, work }))
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
