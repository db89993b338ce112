// The attempts of one call (OpenArmature llm-provider 7.1, pipeline-utilities 6.1): a transient failure waits and is tried
// again, an invalid reply is answered with a reask, an abort ends everything. Without a policy there is one attempt.

import { jitteredBackoffMs } from '../../backoff.ts'
import { wait } from '../../wait.ts'
import type { Usage } from '../llm.ts'
import { type Category, invalid, ProviderError } from '../provider-error.ts'
import { isAbort } from '../transport.ts'
import { sumOfUsages } from '../usage.ts'
import { StructuredOutputInvalid } from './invalid-error.ts'

/** What a reask is built from. */
export interface ReaskContext {
  /** The invalid reply, verbatim. */
  readonly outputContent: string
  readonly errorMessage: string
  /** Whether it was not JSON, or failed its schema. */
  readonly code: 'reply_not_json' | 'reply_schema_failed'
}

export interface AttemptPolicy {
  /** Attempts in all; 1 never retries. Default 3. */
  readonly maxAttempts?: number
  /** Whether a failure may be tried again. Default: `isTransient`. It is not called for aborts. */
  readonly classifier?: (error: unknown, state: { readonly attemptIndex: number }) => boolean
  /** Seconds to wait after the attempt of this index (from 0). Default: `fullJitter`. */
  readonly backoff?: (attemptIndex: number) => number
  /** Receives a failure before each wait. It is awaited; what it throws is ignored. */
  readonly onRetry?: (error: unknown, attemptIndex: number) => void | Promise<void>
  /**
   * The user message after an invalid reply. With it the call is tried again, within `maxAttempts`: the reply and this message
   * join the transcript, which grows over the attempts.
   */
  readonly reask?: (context: ReaskContext) => string | Promise<string>
}

/** What became of one call. */
export interface AttemptRecord {
  /** From 0. */
  readonly attemptIndex: number
  /** Why the attempt before this one was not the last; absent on the first. */
  readonly retryReason?: 'transient' | 'reask'
  /** Tokens of its replies together, one that was discarded included; absent when there was none. */
  readonly usage?: Usage
  /** How it failed; absent when it succeeded. */
  readonly error?: { readonly category: Category | undefined; readonly message: string }
}

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
  return jitteredBackoffMs(attemptIndex, { firstMs: 1000, mostMs: 30_000 }, random) / 1000
}

/** What differs from attempt to attempt. */
export interface Attempt {
  /** What reasks have added to the caller's messages, in order. */
  readonly added: readonly AddedMessage[]
  /** This attempt, as it begins. */
  readonly record: AttemptRecord
  /** Receives the tokens of each reply. */
  readonly paid: (usage: Usage) => void
}

export interface AddedMessage {
  readonly role: 'assistant' | 'user'
  readonly content: string
}

export interface AttemptsOptions {
  readonly retry: AttemptPolicy | undefined
  /** Whether an attempt after a reply that was cut off would have a larger limit. If not, there is none: it would be cut off again. */
  readonly hasMoreRoom: (cut: StructuredOutputInvalid, attemptIndex: number) => boolean
  readonly signal: AbortSignal
  readonly onAttempt?: ((attempt: AttemptRecord) => void) | undefined
}

/**
 * The first success of `attempt`, with the records of all attempts. Throws the last failure, and the signal's reason when it aborts,
 * also during a wait.
 */
export async function runAttempts<R extends object>(
  { retry, hasMoreRoom, signal, onAttempt }: AttemptsOptions,
  attempt: (attempt: Attempt) => Promise<R>,
): Promise<R & { readonly attempts: readonly AttemptRecord[] }> {
  const policy: AttemptPolicy = retry ?? { maxAttempts: 1 }
  const { maxAttempts = 3, classifier = isTransient, backoff = fullJitter, onRetry, reask } = policy
  const added: AddedMessage[] = []
  const earlier: AttemptRecord[] = []
  let retryReason: AttemptRecord['retryReason']
  for (let attemptIndex = 0; ; attemptIndex++) {
    const record: AttemptRecord = { attemptIndex, ...(retryReason && { retryReason }) }
    const usages: Usage[] = []
    const ended = () => ({ ...record, ...(usages.length > 0 && { usage: sumOfUsages(usages) }) })
    let result: R
    try {
      signal.throwIfAborted()
      result = await attempt({ added: [...added], record, paid: (usage) => usages.push(usage) })
    } catch (thrown) {
      const failed = { ...ended(), error: failureOf(thrown) }
      earlier.push(failed)
      onAttempt?.(failed)
      if (signal.aborted || isAbort(thrown) || attemptIndex + 1 >= maxAttempts) throw thrown
      // A loop is not asked about: the model would see it, and repeat it.
      if (reask && thrown instanceof StructuredOutputInvalid && thrown.code !== 'repetition') {
        if (thrown.finishReason === 'length' && !hasMoreRoom(thrown, attemptIndex)) throw thrown
        retryReason = 'reask'
        added.push(...(await reaskMessages(reask, thrown)))
      } else if (classifier(thrown, { attemptIndex })) retryReason = 'transient'
      else throw thrown
      await observed(onRetry, thrown, attemptIndex)
      const seconds = backoff(attemptIndex)
      if (seconds > 0) await wait(seconds * 1000, signal)
      continue
    }
    const last = ended()
    onAttempt?.(last)
    return { ...result, attempts: [...earlier, last] }
  }
}

async function reaskMessages(
  reask: NonNullable<AttemptPolicy['reask']>,
  invalidReply: StructuredOutputInvalid,
): Promise<AddedMessage[]> {
  const { outputContent, errorMessage } = invalidReply
  const code = invalidReply.code === 'reply_not_json' ? invalidReply.code : 'reply_schema_failed'
  const words = await reask({ outputContent, errorMessage, code })
  if (typeof words !== 'string' || words === '')
    throw invalid('The reask builder gave no text.', invalidReply)
  return [
    { role: 'assistant', content: outputContent },
    { role: 'user', content: words },
  ]
}

async function observed(
  observer: AttemptPolicy['onRetry'],
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
