// Reads a topic of the memory broker without a group: from a given position, to the end at the start of the read or for ever.
import type { GraphmillError } from '../../errors.ts'
import type { ReadMessage, TopicRange } from '../broker.ts'
import { createWake } from '../window/wake.ts'
import type { MemoryTopic, TopicFollower } from './topic.ts'

interface ReadCursor {
  readonly partition: number
  next: number
  /** Where to stop. */
  readonly end: number
}

/** `open` finds the topic, or throws. */
export async function* readMemory(
  open: () => MemoryTopic,
  range: TopicRange,
  signal: AbortSignal,
): AsyncGenerator<ReadMessage, void, undefined> {
  if (signal.aborted) return
  const topic = open()
  const wake = createWake()
  const cursors = cursorsOf(topic, range)
  let failure: GraphmillError | undefined
  const reader: TopicFollower = {
    mark: (partition) =>
      cursors.find((cursor) => cursor.partition === partition)?.next ?? Number.POSITIVE_INFINITY,
    wake: wake.notify,
    end(error) {
      failure = error
      wake.notify()
    },
  }
  const stop = () => {
    if (topic.readers.delete(reader)) for (const { partition } of cursors) topic.moved(partition)
    wake.notify()
  }
  topic.readers.add(reader)
  signal.addEventListener('abort', stop, { once: true })
  let turn = 0
  try {
    for (;;) {
      if (failure !== undefined) throw failure
      if (signal.aborted) return
      const at = cursors.findIndex((_, step) => advance(topic, cursors[(turn + step) % cursors.length]!))
      if (at >= 0) {
        const cursor = cursors[(turn + at) % cursors.length]!
        turn = (turn + at + 1) % cursors.length
        yield take(topic, cursor)
      } else if (cursors.every((cursor) => cursor.next >= cursor.end)) return
      else await wake.wait()
    }
  } finally {
    signal.removeEventListener('abort', stop)
    stop()
  }
}

function cursorsOf(topic: MemoryTopic, { from, until, partition: only }: TopicRange): ReadCursor[] {
  return topic.partitions
    .map((log, partition) => {
      const position = typeof from === 'object' ? from[partition] : undefined
      const start = position === undefined ? 0 : Number(position) + 1
      return {
        partition,
        next: from === 'latest' ? log.end : start,
        end: until === 'end' ? log.end : Number.POSITIVE_INFINITY,
      }
    })
    .filter(({ partition }) => only === undefined || partition === only)
}

/** Moves over offsets without a message; true when the cursor is at a message. */
function advance(topic: MemoryTopic, cursor: ReadCursor): boolean {
  if (cursor.next >= cursor.end) return false
  const log = topic.partitions[cursor.partition]!
  const offset = log.from(cursor.next)?.offset ?? log.end
  cursor.next = Math.max(cursor.next, Math.min(offset, cursor.end))
  return cursor.next < Math.min(log.end, cursor.end)
}

function take(topic: MemoryTopic, cursor: ReadCursor): ReadMessage {
  const { partition } = cursor
  const { offset, key, value, headers, timestamp } = topic.partitions[partition]!.from(cursor.next)!
  cursor.next = offset + 1
  topic.moved(partition)
  return { topic: topic.spec.name, partition, position: String(offset), key, value, headers, timestamp }
}
