// The consumers of this process, how many messages each has in flight, and the lag of its group, for which the broker is asked.
import { createPolledValues, type PolledValue, type PolledValuesOptions } from './polled-values.ts'

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

interface ListedEntry {
  readonly consumer: Consumer
  readonly listed: ListedConsumer
  readonly lag: PolledValue<number>
}

export function createConsumers(options: PolledValuesOptions): Consumers {
  const entries = new Set<ListedEntry>()
  const lags = createPolledValues<number>(options)

  return {
    add(consumer) {
      const lag = lags.add(consumer.lag)
      const remove = () => {
        lag.remove()
        entries.delete(entry)
      }
      const entry: ListedEntry = { consumer, listed: { inFlight: 0, remove }, lag }
      entries.add(entry)
      return entry.listed
    },
    inFlight: () =>
      [...entries].map(({ consumer: { processor, topic }, listed: { inFlight } }) => ({
        processor,
        topic,
        inFlight,
      })),
    async status() {
      await lags.refresh()
      return [...entries].map(({ consumer: { lag: _, ...place }, listed: { inFlight }, lag }) => ({
        ...place,
        inFlight,
        lag: lag.fresh() ?? null,
      }))
    },
  }
}
