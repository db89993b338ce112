// The consumers of this process, how many messages each has in flight, and the lag of its group. The broker is asked for the lag
// when somebody looks, at most every few seconds. When it does not answer in time the lag is unknown, never outdated.
import { unlessAborted } from '../wait.ts'

/** One input of one processor in one flow. */
export interface Consumer {
  readonly processor: string
  readonly topic: string
  readonly group: string
  readonly workspace: string
  readonly flow: string
  /** Messages that the group has not settled. */
  readonly lag: () => Promise<number>
}

export interface ConsumerStatus extends Omit<Consumer, 'lag'> {
  readonly inFlight: number
  /** Null when it is not known. */
  readonly lag: number | null
}

export interface Consumers {
  add(consumer: Consumer): ListedConsumer
  /** The messages in flight now; the broker is not asked. */
  inFlight(): readonly Pick<ConsumerStatus, 'processor' | 'topic' | 'inFlight'>[]
  status(): Promise<ConsumerStatus[]>
}

export interface ListedConsumer {
  inFlight: number
  remove(): void
}

export interface ConsumersOptions {
  /** A monotonic clock, in milliseconds. */
  readonly now: () => number
  /** How long a lag is shown before it is asked for again, in milliseconds. Default 5,000. */
  readonly freshMs?: number
  /** How long `status` waits for the broker, in milliseconds. Default 2,000. */
  readonly patienceMs?: number
}

interface ListedEntry {
  readonly consumer: Consumer
  readonly listed: ListedConsumer
  known: { readonly lag: number; readonly at: number } | undefined
  asking: Promise<void> | undefined
}

/** Questions to the broker at a time: a process may consume thousands of topics. */
const asksAtOnce = 8

export function createConsumers({ now, freshMs = 5000, patienceMs = 2000 }: ConsumersOptions): Consumers {
  const entries = new Set<ListedEntry>()

  const isFresh = ({ known }: ListedEntry) => known !== undefined && now() - known.at <= freshMs

  /** Callers at the same time share one question. */
  function ask(entry: ListedEntry): Promise<void> {
    entry.asking ??= entry.consumer
      .lag()
      .then((lag) => {
        entry.known = { lag, at: now() }
      })
      .catch(() => undefined) // the lag stays unknown
      .finally(() => {
        entry.asking = undefined
      })
    return entry.asking
  }

  /** Asks for the lags that are not fresh, for as long as `patienceMs` allows. */
  async function refresh(): Promise<void> {
    const stale = [...entries].filter((entry) => !isFresh(entry)).values()
    const patience = AbortSignal.timeout(patienceMs)
    const askAll = async () => {
      for (const entry of stale) {
        if (patience.aborted) return
        await ask(entry)
      }
    }
    await unlessAborted(Promise.all(Array.from({ length: asksAtOnce }, askAll)), patience).catch(() => {})
  }

  return {
    add(consumer) {
      const listed = { inFlight: 0, remove: () => void entries.delete(entry) }
      const entry: ListedEntry = { consumer, listed, known: undefined, asking: undefined }
      entries.add(entry)
      return listed
    },
    inFlight: () =>
      [...entries].map(({ consumer: { processor, topic }, listed: { inFlight } }) => ({
        processor,
        topic,
        inFlight,
      })),
    async status() {
      await refresh()
      return [...entries].map((entry) => {
        const { lag: _, ...place } = entry.consumer
        return { ...place, inFlight: entry.listed.inFlight, lag: isFresh(entry) ? entry.known!.lag : null }
      })
    },
  }
}
