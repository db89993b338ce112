// The state of one unit of a chunk: which of its runs and dead messages were seen, and whether it is done, partial or dead.
import type { Progress } from '../messages/generated.ts'
import { addProgress, type Counts, emptyTotals, type Totals } from './totals.ts'

/** A unit of a chunk that is not done: what was seen of its runs, and which of its messages are dead. */
export interface OpenUnit {
  readonly runs: Map<string, SeenRun>
  /** The run whose counts are in the totals; the first complete run replaces one that was cut off. */
  counted: SeenRun | undefined
  /** Ids of dead messages that held all of it (a chunk, a request, an error reply), with the reason. */
  readonly wholeDead: Map<string, string>
  /** Ids of dead messages that held a part of it (replies, facts, triples), with the reason. */
  readonly partDead: Map<string, string>
  /** The time of the newest death in `partDead`, in milliseconds since 1970. */
  partDeadAt: number
  /** What was seen of runs since that death, by run: a complete one makes up for all dead parts. */
  readonly again: Map<string, SeenRun>
  /** The ids of failed runs, whose tokens are in the totals. */
  readonly failedRuns: Set<string>
}

export interface SeenRun {
  readonly seqs: Set<number>
  /** The `seq` of its last reply part. */
  last: number | undefined
  /** Why it leaves its unit partial; known when all of its parts were seen. */
  incomplete: string | undefined
  readonly totals: Totals
}

export const emptyUnit = (): OpenUnit => ({
  runs: new Map(),
  counted: undefined,
  wholeDead: new Map(),
  partDead: new Map(),
  partDeadAt: Number.POSITIVE_INFINITY,
  again: new Map(),
  failedRuns: new Set(),
})

export const emptyRun = (): SeenRun => ({
  seqs: new Set(),
  last: undefined,
  incomplete: undefined,
  totals: emptyTotals(),
})

/** Adds a reply part to its run. Returns whether all reply parts of the run have been seen. */
export function addToRun(run: SeenRun, part: Progress): boolean {
  if (!run.seqs.has(part.seq)) {
    run.seqs.add(part.seq)
    addProgress(run.totals, part)
    if (part.last) {
      run.last = part.seq
      run.incomplete = part.incomplete ?? undefined
    }
  }
  if (run.last === undefined || run.seqs.size <= run.last) return false
  if (sum(run.totals.facts) === 0 && sum(run.totals.rejected) > 0) run.incomplete ??= 'no_facts'
  return true
}

const sum = (counts: Counts) => Object.values(counts).reduce((total, count) => total + count, 0)

/** Stands for a run that was counted when its unit was done: its totals stay counted. */
export const countedBefore: SeenRun = {
  seqs: new Set(),
  last: 0,
  incomplete: undefined,
  totals: emptyTotals(),
}

export type UnitState = 'running' | 'done' | 'partial' | 'dead'

export function stateOfUnit({ counted, wholeDead, partDead }: OpenUnit): UnitState {
  if (counted && !counted.incomplete && partDead.size === 0) return 'done'
  if (counted || partDead.size > 0) return 'partial'
  return wholeDead.size > 0 ? 'dead' : 'running'
}
