// What every fault must leave as it is: the triples, the units done, and the counts.
import { expect } from 'vitest'
import { difference, same } from '../support/graph.ts'
import { chunks, type Execution, type Outcome, units } from './execution.ts'

/** Waits for the end, and compares all that came of it: the same triples, every unit done, counted from one run each. */
export async function expectAll(execution: Execution, expected: Outcome): Promise<void> {
  const status = await execution.finished()
  expect(difference(await execution.graph(), expected.graph)).toEqual(same)
  expect(status).toMatchObject({
    state: 'done',
    chunks,
    units: { expected: units, done: units, partial: 0, dead: 0 },
    totals: { facts: expected.facts },
  })
}
