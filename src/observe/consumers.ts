// Who consumes what in this process, how much each has in hand, and how far behind its group is. Lag is asked of the broker when
// somebody looks, at most every few seconds; a broker that does not answer in time leaves it unknown, never old.

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
  /** Null while it is not known. */
  readonly lag: number | null
}

export interface Consumers {
  add(consumer: Consumer): ListedConsumer
  /** What each has in hand now; the broker is not asked. */
  inFlight(): readonly Pick<ConsumerStatus, 'processor' | 'topic' | 'inFlight'>[]
  status(): Promise<ConsumerStatus[]>
}

export interface ListedConsumer {
  inFlight: number
  remove(): void
}

export interface ConsumersOptions {
  /** Milliseconds, from anywhere on. */
  readonly now: () => number
  /** How old a lag may be that is shown again, in milliseconds. Default 5,000. */
  readonly freshMs?: number
  /** How long whoever looks waits for the broker, in milliseconds. Default 2,000. */
  readonly patienceMs?: number
}

interface Entry {
  readonly consumer: Consumer
  readonly listed: ListedConsumer
  known: { readonly lag: number; readonly at: number } | undefined
  asking: Promise<void> | undefined
}

/** Questions to the broker at once: a process may consume thousands of topics. */
const asksAtOnce = 8

export function createConsumers({ now, freshMs = 5000, patienceMs = 2000 }: ConsumersOptions): Consumers {
  const entries = new Set<Entry>()

  const isFresh = ({ known }: Entry) => known !== undefined && now() - known.at <= freshMs

  /** Several that look at once ask once. */
  function ask(entry: Entry): Promise<void> {
    entry.asking ??= entry.consumer
      .lag()
      .then((lag) => {
        entry.known = { lag, at: now() }
      })
      .catch(() => undefined) // unknown, as the reader is told
      .finally(() => {
        entry.asking = undefined
      })
    return entry.asking
  }

  async function refresh(): Promise<void> {
    const stale = [...entries].filter((entry) => !isFresh(entry)).values()
    let patient = true
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(() => {
      patient = false
      late.resolve()
    }, patienceMs)
    const askAll = async () => {
      for (const entry of stale) {
        if (!patient) return
        await ask(entry)
      }
    }
    await Promise.race([late.promise, Promise.all(Array.from({ length: asksAtOnce }, askAll))])
    clearTimeout(timer)
  }

  return {
    add(consumer) {
      const listed = { inFlight: 0, remove: () => void entries.delete(entry) }
      const entry: Entry = { consumer, listed, known: undefined, asking: undefined }
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
