// The partitions of one topic that a consumer does not fetch because the window is full.
import type { Consumer } from 'kafkajs'

export interface PausedPartitions extends Iterable<number> {
  set(partition: number, isPaused: boolean): void
  /** Forgets all of them: the group has assigned the partitions again. */
  clear(): void
}

export function createPausedPartitions(consumer: Consumer, topic: string): PausedPartitions {
  const paused = new Set<number>()
  return {
    set(partition, isPaused) {
      const partitions = [{ topic, partitions: [partition] }]
      if (isPaused) {
        paused.add(partition)
        consumer.pause(partitions)
      } else {
        paused.delete(partition)
        consumer.resume(partitions)
      }
    },
    clear: () => paused.clear(),
    [Symbol.iterator]: () => paused.values(),
  }
}
