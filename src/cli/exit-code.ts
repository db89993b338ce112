// The exit codes of the commands: of an error, and of the outcome of `extract`.

import { sumOf } from '../counts.ts'
import type { ErrorCode, GraphmillError } from '../errors.ts'
import type { ExtractionSummary } from '../extraction/summary.ts'

/** 4: some chunk is dead or some document failed; 3: some chunk is partial, or with `strict` any item was rejected; 0 otherwise. */
export function exitCodeOf(
  summary: Pick<ExtractionSummary, 'outcome' | 'rejected'>,
  strict: boolean,
): 0 | 1 | 3 | 4 {
  const code = ({ done: 0, partial: 3, failed: 4, stopped: 1 } as const)[summary.outcome]
  return code === 0 && strict && sumOf(summary.rejected) > 0 ? 3 : code
}

const wrongUsage: readonly ErrorCode[] = [
  'usage',
  'configuration_invalid',
  'broker_url_invalid',
  'topic_name_invalid',
]

/** 2: the command was called in a wrong way; 1: it failed. */
export function exitCodeOfError({ code }: GraphmillError): 1 | 2 {
  return wrongUsage.includes(code) ? 2 : 1
}
