// The results of `graphmill doctor`: one for each thing that it checks.
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { failureText } from './failure.ts'

export interface CheckResult {
  readonly check:
    | 'files'
    | 'key'
    | 'model'
    | 'embeddings'
    | 'broker'
    | 'pulsar'
    | 'lost records'
    | 'schema registry'
    | 'store'
  /** `skipped`: nothing is configured, or it could not be reached. */
  readonly state: 'ok' | 'failed' | 'skipped'
  readonly detail: string
  /** What to do; empty if there is nothing to do. */
  readonly fix: string
}

/** The longest that a server may take to answer a question that costs nothing, in milliseconds. */
export const patienceMs = 30_000

const resultOf =
  (state: CheckResult['state']) =>
  (check: CheckResult['check'], detail: string, fix = ''): CheckResult => ({ check, state, detail, fix })

export const ok = resultOf('ok')
export const skipped = resultOf('skipped')
export const failed = resultOf('failed')

/** `fix`: default the remedy of the error. */
export const failedWith = (
  check: CheckResult['check'],
  error: GraphmillError,
  fix = error.remedy,
): CheckResult => failed(check, failureText(error), fix)

/** What was thrown, as an error; a server that took too long counts as unavailable. Throws the signal's reason. */
export function inTime(thrown: unknown, signal: AbortSignal): GraphmillError {
  signal.throwIfAborted()
  const error = toGraphmillError(thrown)
  return error.code === 'aborted'
    ? new GraphmillError('llm_unavailable', 'The model server did not answer in time.', { cause: thrown })
    : error
}
