// The exit codes of the commands: of an error, and of the documents of `extract`.
import type { ErrorCode, GraphmillError } from '../errors.ts'
import type { DocumentStatus } from '../progress/document-status.ts'
import { sumOf } from './counts.ts'
import type { Files } from './summary.ts'

/** 4: some chunk is dead or some document failed; 3: some chunk is partial, or with `strict` any item was rejected; 0 otherwise. */
export function exitCodeOf(
  documents: readonly DocumentStatus[],
  { unloaded }: Files,
  strict: boolean,
): 0 | 3 | 4 {
  if (unloaded.length > 0 || documents.some(({ state, units }) => state === 'failed' || units.dead > 0))
    return 4
  const rejected = documents.some(({ totals }) => sumOf(totals.rejected) > 0)
  return documents.some(({ units }) => units.partial > 0) || (strict && rejected) ? 3 : 0
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
