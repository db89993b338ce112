// Where a session goes on in each partition: at the position of its group, or, when records there were deleted, at the first
// one that is left. A partition stays paused until that is known.
import type { Cluster, Consumer } from 'kafkajs'
import { backoffMs } from '../../backoff.ts'
import { pause } from '../../wait.ts'
import type { Subscription } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import type { InFlightWindow } from '../window/in-flight-window.ts'
import type { KafkaSettings } from './client.ts'
import { type FoundPlace, findPlaces, rangeOf, type UnreadGap } from './lost-range.ts'
import type { PausedPartitions } from './paused-partitions.ts'

export interface PlacementOptions {
  readonly settings: KafkaSettings
  readonly subscription: Subscription
  readonly window: InFlightWindow
  readonly lookup: TopicLookup
  readonly consumer: Consumer
  readonly cluster: Cluster
  readonly paused: PausedPartitions
  /** Aborts when the session is closed. */
  readonly closing: AbortSignal
}

export class Placement {
  readonly #options: PlacementOptions
  readonly #unplaced = new Set<number>()
  /** Counts the times that the member has joined. */
  #generation = 0

  constructor(options: PlacementOptions) {
    this.#options = options
  }

  /** The member has joined its group with these partitions. Returns how many it had before. */
  joined(partitions: readonly number[]): number {
    const { window, consumer, subscription, paused } = this.#options
    const { topic } = subscription
    const kept = window.own(partitions)
    // kafkajs would fetch them again from the mark.
    for (const [partition, next] of kept) consumer.seek({ topic, partition, offset: String(next) })
    this.#generation++
    this.#unplaced.clear()
    paused.clear()
    for (const partition of partitions)
      if (kept.has(partition)) paused.set(partition, !window.wants(partition))
      else this.#hold(partition)
    void this.#placeAll()
    return kept.size
  }

  /** The log no longer holds, or never held, what this member was to fetch next. */
  again(partition: number): void {
    if (this.#options.closing.aborted) return
    this.#hold(partition)
    void this.#placeAll()
  }

  #hold(partition: number): void {
    const { consumer, subscription } = this.#options
    this.#unplaced.add(partition)
    consumer.pause([{ topic: subscription.topic, partitions: [partition] }])
  }

  async #placeAll(): Promise<void> {
    const { settings, subscription, cluster, closing } = this.#options
    const { topic, group } = subscription
    for (let failures = 0; this.#unplaced.size > 0 && !closing.aborted; ) {
      const [partitions, joined] = [[...this.#unplaced], this.#generation]
      try {
        const places = await findPlaces(cluster, { topic, group, partitions })
        // Others may have committed in between.
        if (joined !== this.#generation) continue
        for (const place of places) if (this.#unplaced.delete(place.partition)) this.#goOn(place)
      } catch (err) {
        failures++
        settings.log.debug({ group, topic, err }, 'the positions of the group could not be looked up')
        await pause(backoffMs(failures, { firstMs: 50, mostMs: 2000 }), closing)
      }
    }
  }

  #goOn({ partition, committed: found, low, high }: FoundPlace): void {
    const { settings, subscription, window, consumer, paused } = this.#options
    const { topic, group, from } = subscription
    const committed = found?.isStart ? undefined : found
    if (found === undefined && from === 'latest' && window.position(partition) === undefined) {
      window.place(partition, undefined, high)
      consumer.seek({ topic, partition, offset: String(high) })
      // The next commit stores it: a member that takes over goes on here, even if nothing was settled before.
      paused.set(partition, !window.wants(partition))
      return
    }
    // If nothing was ever deleted, a group without a position has lost nothing: from now on it has one.
    if (committed !== undefined || low === 0) window.place(partition, committed, committed?.offset ?? 0)
    const position = window.position(partition)
    if (position !== undefined && position > high) {
      settings.log.warn(
        { group, topic, partition, position, high },
        'kafka log was truncated or created again',
      )
      consumer.seek({ topic, partition, offset: String(low) })
    } else if ((position ?? 0) < low) {
      const reported = window.skip(partition, position, low)
      consumer.seek({ topic, partition, offset: String(low) })
      void this.#report({ partition, position, low }).then(reported, () => {})
    }
    paused.set(partition, !window.wants(partition))
  }

  async #report(gap: UnreadGap): Promise<void> {
    const { settings, subscription, lookup, closing } = this.#options
    const { topic, group, onLost } = subscription
    const lost = await rangeOf(settings, gap, { topic, lookup, signal: closing })
    settings.log.debug({ group, ...lost }, 'kafka records were deleted before the group had read them')
    await onLost?.(lost)
  }
}
