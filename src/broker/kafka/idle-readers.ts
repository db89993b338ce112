// Connections of reads that have ended, for the next read of the same topic: processors read compacted topics to their end for almost
// every message, and a connection costs more than such a read. Each serves one read at a time, of one topic: a topic that is deleted
// spoils what kafkajs knows of all others.
import type { Cluster } from 'kafkajs'
import { createClient, impatient, type KafkaClient, type KafkaSettings } from './client.ts'
import { openCluster } from './quirks.ts'

/** How many wait at most, and for how long, in milliseconds: brokers close what is idle for ten minutes. */
const maxIdle = 8
const idleMs = 60_000

export interface Reader {
  readonly topic: string
  readonly client: KafkaClient
  readonly cluster: Cluster
  /** Whether it has served a read before: its metadata are old, and its connections may be closed. */
  readonly isUsed: boolean
}

export interface IdleReaders {
  /** One that has read the topic, if there is one. The caller ends it with `client.abandon`, or keeps it. */
  take(topic: string): Reader | undefined
  /** For a reader that waits for no answer. */
  keep(reader: Reader): void
  /** Ends those that wait, and keeps none from then on. */
  close(): void
}

/** A new one, not connected yet. */
export function openReader(settings: KafkaSettings, topic: string): Reader {
  const client = createClient(settings, impatient)
  return { topic, client, cluster: openCluster(client.kafka), isUsed: false }
}

export function createIdleReaders(): IdleReaders {
  const waiting = new Map<Reader, NodeJS.Timeout>()
  let closed = false

  function end(reader: Reader): void {
    clearTimeout(waiting.get(reader))
    waiting.delete(reader)
    reader.client.abandon()
  }

  return {
    take(topic) {
      const idle = [...waiting.keys()].find((reader) => reader.topic === topic)
      clearTimeout(waiting.get(idle!))
      waiting.delete(idle!)
      return idle
    },
    keep({ topic, client, cluster }) {
      if (closed) return client.abandon()
      const reader: Reader = { topic, client, cluster, isUsed: true }
      waiting.set(reader, setTimeout(() => end(reader), idleMs).unref())
      if (waiting.size > maxIdle) end(waiting.keys().next().value!)
    },
    close() {
      closed = true
      for (const reader of [...waiting.keys()]) end(reader)
    },
  }
}
