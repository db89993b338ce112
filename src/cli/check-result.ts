// What `doctor` finds: one for each thing that it looks at.
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { failureText } from './failure.ts'

export interface Finding {
  readonly check:
    | 'files'
    | 'key'
    | 'model'
    | 'embeddings'
    | 'broker'
    | 'lost records'
    | 'schema registry'
    | 'store'
  /** `skipped`: there was nothing to try. */
  readonly state: 'ok' | 'failed' | 'skipped'
  readonly detail: string
  /** What to do; empty where there is nothing. */
  readonly fix: string
}

/** The longest that a server may take to answer a question that costs it nothing, in milliseconds. */
export const patienceMs = 30_000

export const ok = (check: Finding['check'], detail: string): Finding => ({
  check,
  state: 'ok',
  detail,
  fix: '',
})

export const skipped = (check: Finding['check'], detail: string): Finding => ({
  check,
  state: 'skipped',
  detail,
  fix: '',
})

/** `fix`: by default what the table of errors says. */
export const failed = (check: Finding['check'], error: GraphmillError, fix = error.remedy): Finding => ({
  check,
  state: 'failed',
  detail: failureText(error),
  fix,
})

/** What was thrown; a server that took too long is away. */
export function inTime(thrown: unknown, signal: AbortSignal): GraphmillError {
  signal.throwIfAborted()
  const error = toGraphmillError(thrown)
  return error.code === 'aborted'
    ? new GraphmillError('llm_unavailable', 'The model server did not answer in time.', { cause: thrown })
    : error
}
