// The status of a whole flow: the newest losses in it, and the newest waits of its processors. It is stored like the status of a
// document, under an id that no document has.
import type { Message } from '../messages/envelope.ts'
import type { LostRecords, Status, Waiting } from '../messages/generated.ts'

/** The `documentId` of the flow's own status. */
export const flowStatusId = '(flow)'

/** How many losses, and how many waits, are kept. */
const kept = 100

export interface FlowStatus {
  readonly lost: readonly LostRecords[]
  readonly waiting: readonly Waiting[]
}

/** The status with an entry about the flow; undefined when the entry has neither a loss nor a wait. */
export function addToFlow(
  { lost, waiting }: FlowStatus,
  { source, time, payload }: Message<'Progress'>,
): FlowStatus | undefined {
  if (payload.kind === 'lost' && payload.lost) {
    const fresh = { ...payload.lost, time }
    return { lost: newest(lost, fresh, keyOfLoss), waiting }
  }
  if (payload.kind === 'waiting' && payload.error) {
    const { topic, error, until } = payload
    const fresh = { processor: source, topic: topic ?? '', error, time, until }
    return { lost, waiting: newest(waiting, fresh, keyOfWait) }
  }
  return undefined
}

/** The same gap may be reported again, when more of it was deleted. */
const keyOfLoss = ({ processor, topic, partition, first, next }: LostRecords) =>
  [processor, topic, partition, first ?? `before ${next}`].join('\n')

const keyOfWait = ({ processor, topic, error }: Waiting) => [processor, topic, error.type].join('\n')

function newest<T>(known: readonly T[], fresh: T, keyOf: (one: T) => string): T[] {
  return [...known.filter((one) => keyOf(one) !== keyOf(fresh)), fresh].slice(-kept)
}

/** What a status says of versions when there are none. */
export const unversioned = {
  collection: '',
  version: '',
  versionTime: 0,
  currentVersion: '',
  currentTime: 0,
  versions: [],
  notWithdrawn: null,
} as const

/** The status to be stored, newer than the one before. */
export function statusOfFlow({ lost, waiting }: FlowStatus, before: Status | undefined, now: number): Status {
  const nothing = { done: 0, partial: 0, dead: 0, expected: 0, chunks: 0, truncated: 0, incomplete: {} }
  const counts = { facts: {}, rejected: {}, repaired: 0, duplicates: 0, ungrounded: 0, calls: {}, tokens: {} }
  const epoch = Math.max(now, (before?.epoch ?? 0) + 1)
  const own = { state: 'flow', title: '', error: null, ledger: Buffer.alloc(0) } // avsc takes no other bytes
  return { epoch, revision: 1, ...own, ...nothing, ...counts, lost, waiting, ...unversioned }
}
