// Values that are asked for when somebody looks, at most every few seconds. When an answer does not come in time the value is unknown,
// never outdated.
import { unlessAborted } from '../wait.ts'

export interface PolledValues<T> {
  add(ask: () => Promise<T>): PolledValue<T>
  /** Asks for the values that are not fresh. Resolves when all are known, or the patience is over. */
  refresh(): Promise<void>
}

export interface PolledValue<T> {
  /** Undefined when it is not known. */
  fresh(): T | undefined
  remove(): void
}

export interface PolledValuesOptions {
  /** A monotonic clock, in milliseconds. */
  readonly now: () => number
  /** How long a value is shown before it is asked for again, in milliseconds. Default 5,000. */
  readonly freshMs?: number
  /** How long `refresh` waits, in milliseconds. Default 2,000. */
  readonly patienceMs?: number
}

interface Entry<T> {
  readonly ask: () => Promise<T>
  known: { readonly value: T; readonly at: number } | undefined
  asking: Promise<void> | undefined
}

/** Questions at a time: a process may consume thousands of topics. */
const asksAtOnce = 8

export function createPolledValues<T>({
  now,
  freshMs = 5000,
  patienceMs = 2000,
}: PolledValuesOptions): PolledValues<T> {
  const entries = new Set<Entry<T>>()

  const isFresh = ({ known }: Entry<T>) => known !== undefined && now() - known.at <= freshMs

  /** Callers at the same time share one question. */
  function ask(entry: Entry<T>): Promise<void> {
    entry.asking ??= entry
      .ask()
      .then((value) => {
        entry.known = { value, at: now() }
      })
      .catch(() => undefined) // the value stays unknown
      .finally(() => {
        entry.asking = undefined
      })
    return entry.asking
  }

  return {
    add(ask) {
      const entry: Entry<T> = { ask, known: undefined, asking: undefined }
      entries.add(entry)
      return {
        fresh: () => (isFresh(entry) ? entry.known!.value : undefined),
        remove: () => void entries.delete(entry),
      }
    },
    async refresh() {
      const stale = [...entries].filter((entry) => !isFresh(entry)).values()
      const patience = AbortSignal.timeout(patienceMs)
      const askAll = async () => {
        for (const entry of stale) {
          if (patience.aborted) return
          await ask(entry)
        }
      }
      await unlessAborted(Promise.all(Array.from({ length: asksAtOnce }, askAll)), patience).catch(() => {})
    },
  }
}
