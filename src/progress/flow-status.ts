// The status of a whole flow: what was lost in it, and what its processors wait for. It is kept like that of a document, under
// an id that no document has, and holds the newest of each.
import type { Message } from '../messages/envelope.ts'
import type { LostRecords, Status, Waiting } from '../messages/generated.ts'

/** The `documentId` of the flow's own status. */
export const flowStatusId = '(flow)'

/** Gaps and waits that are kept. */
const kept = 100

export interface FlowStatus {
  readonly lost: readonly LostRecords[]
  readonly waiting: readonly Waiting[]
}

/** With what an entry of the flow says; undefined when it says nothing that is kept. */
export function addToFlow(
  { lost, waiting }: FlowStatus,
  { source, time, payload }: Message<'Progress'>,
): FlowStatus | undefined {
  if (payload.kind === 'lost' && payload.lost) {
    const fresh = { ...payload.lost, time }
    return { lost: newest(lost, fresh, placeOfLoss), waiting }
  }
  if (payload.kind === 'waiting' && payload.error) {
    const { topic, error, until } = payload
    const fresh = { processor: source, topic: topic ?? '', error, time, until }
    return { lost, waiting: newest(waiting, fresh, placeOfWait) }
  }
  return undefined
}

/** The same gap may be reported again, when more of it is gone. */
const placeOfLoss = ({ processor, topic, partition, first, next }: LostRecords) =>
  [processor, topic, partition, first ?? `before ${next}`].join('\n')

const placeOfWait = ({ processor, topic, error }: Waiting) => [processor, topic, error.type].join('\n')

function newest<T>(known: readonly T[], fresh: T, placeOf: (one: T) => string): T[] {
  return [...known.filter((one) => placeOf(one) !== placeOf(fresh)), fresh].slice(-kept)
}

/** As a status to be stored, newer than the one before. */
export function statusOfFlow({ lost, waiting }: FlowStatus, before: Status | undefined, now: number): Status {
  const nothing = { done: 0, partial: 0, dead: 0, expected: 0, chunks: 0, truncated: 0, incomplete: {} }
  const counts = { facts: {}, rejected: {}, repaired: 0, duplicates: 0, calls: {}, tokens: {} }
  const epoch = Math.max(now, (before?.epoch ?? 0) + 1)
  const said = { state: 'flow', title: '', error: null, ledger: Buffer.alloc(0) } // avsc takes no other bytes
  return { epoch, revision: 1, ...said, ...nothing, ...counts, lost, waiting }
}
