// The loop of call-level retry (OpenArmature llm-provider 7.1, pipeline-utilities 6.1): transient failures wait and try again,
// an invalid reply is answered with the caller's own words, an abort ends all. Without a policy there is one attempt.
import { jitteredBackoffMs } from '../backoff.ts'
import { wait } from '../wait.ts'
import type { AttemptRecord, RetryPolicy, RuntimeConfig } from './provider.ts'
import { type Category, invalid, ProviderError } from './provider-error.ts'
import { StructuredOutputInvalid } from './structured-output/invalid-error.ts'

const transient: ReadonlySet<Category> = new Set([
  'provider_unavailable',
  'provider_rate_limit',
  'provider_model_not_loaded',
])

/** The default classifier: unavailable, rate limit or model not loaded, as the error itself or as its cause. */
export function isTransient(error: unknown): boolean {
  return isTransientItself(error) || (error instanceof Error && isTransientItself(error.cause))
}

function isTransientItself(error: unknown): boolean {
  return error instanceof ProviderError && transient.has(error.category)
}

/** The default backoff: a random time up to 1, 2, 4, … and at most 30 seconds, so that callers do not return together. */
export function fullJitter(attemptIndex: number, random: () => number = Math.random): number {
  return jitteredBackoffMs(attemptIndex, { firstMs: 1, mostMs: 30 }, random)
}

/** What differs from attempt to attempt. */
export interface Attempt {
  readonly attemptIndex: number
  readonly override: RuntimeConfig | undefined
  /** What reasks have added to the caller's messages, in order. */
  readonly added: readonly Added[]
  /** The attempts before this one. */
  readonly earlier: readonly AttemptRecord[]
  /** This attempt, as it is recorded when it succeeds. */
  readonly record: AttemptRecord
}

export interface Added {
  readonly role: 'assistant' | 'user'
  readonly content: string
}

export interface AttemptsOptions {
  readonly policy: RetryPolicy | undefined
  readonly signal: AbortSignal
  readonly onAttempt?: ((attempt: AttemptRecord) => void) | undefined
}

/** The first success of `attempt`, or the last failure. Throws the signal's reason when it aborts, in waits too. */
export async function runAttempts<R>(
  options: AttemptsOptions,
  attempt: (attempt: Attempt) => Promise<R>,
): Promise<R> {
  const { policy, signal, onAttempt } = options
  const { maxAttempts = 3, backoff = fullJitter, perAttemptOverride = [] } = policy ?? { maxAttempts: 1 }
  const added: Added[] = []
  const earlier: AttemptRecord[] = []
  let reason: AttemptRecord['retryReason']
  for (let attemptIndex = 0; ; attemptIndex++) {
    const record: AttemptRecord = { attemptIndex, ...(reason && { retryReason: reason }) }
    const override =
      attemptIndex === 0
        ? undefined
        : perAttemptOverride[Math.min(attemptIndex, perAttemptOverride.length) - 1]
    let result: R
    try {
      signal.throwIfAborted()
      result = await attempt({ attemptIndex, override, added: [...added], earlier: [...earlier], record })
    } catch (thrown) {
      const failed = { ...record, error: failureOf(thrown) }
      earlier.push(failed)
      onAttempt?.(failed)
      if (signal.aborted || isAbort(thrown)) throw thrown
      if (attemptIndex + 1 >= maxAttempts) throw thrown
      const refused = policy?.reask && thrown instanceof StructuredOutputInvalid ? thrown : undefined
      const { classifier = isTransient } = policy ?? {}
      if (!refused && !classifier(thrown, { attemptIndex })) throw thrown
      reason = refused ? 'reask' : 'transient'
      if (refused) added.push(...(await reaskPair(policy!.reask!, refused)))
      await observed(policy?.onRetry, thrown, attemptIndex)
      const seconds = backoff(attemptIndex)
      if (seconds > 0) await wait(seconds * 1000, signal)
      continue
    }
    onAttempt?.(record)
    return result
  }
}

async function reaskPair(
  reask: NonNullable<RetryPolicy['reask']>,
  refused: StructuredOutputInvalid,
): Promise<Added[]> {
  const { outputContent, errorMessage } = refused
  const code = refused.code === 'reply_not_json' ? refused.code : 'reply_schema_failed'
  const words = await reask({ outputContent, errorMessage, code })
  if (typeof words !== 'string' || words === '') throw invalid('The reask builder gave no text.', refused)
  return [
    { role: 'assistant', content: outputContent },
    { role: 'user', content: words },
  ]
}

async function observed(
  observer: RetryPolicy['onRetry'],
  error: unknown,
  attemptIndex: number,
): Promise<void> {
  try {
    await observer?.(error, attemptIndex)
  } catch {
    // It only observes.
  }
}

function failureOf(thrown: unknown): NonNullable<AttemptRecord['error']> {
  const category = thrown instanceof ProviderError ? thrown.category : undefined
  return { category, message: thrown instanceof Error ? thrown.message : String(thrown) }
}

function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === 'AbortError'
}

/** `over` laid upon `base`: what is absent, undefined or null inherits; extras are joined. */
export function mergedConfig(
  base: RuntimeConfig | undefined,
  over: RuntimeConfig | undefined,
): RuntimeConfig | undefined {
  if (!over) return base
  const set = Object.fromEntries(Object.entries(over).filter(([, value]) => value != null))
  const extras = { ...base?.extras, ...over.extras }
  return { ...base, ...set, ...(Object.keys(extras).length > 0 ? { extras } : {}) }
}
