// Reads a Kafka topic without a group: fetches from the leaders, so that nothing is committed, no other consumer is disturbed
// and no group is left behind.
import type { Cluster, KafkaMessage } from 'kafkajs'
import type { ErrorCode } from '../../errors.ts'
import { pause } from '../../wait.ts'
import type { ReadMessage, TopicRange } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { type KafkaSettings, kafkaError } from './client.ts'
import { type IdleReaders, openReader } from './idle-readers.ts'
import { readMessage } from './message.ts'

const maxBytesPerPartition = 1024 * 1024
const maxBytes = 8 * 1024 * 1024
/** After so many empty answers of a leader, the offsets up to the end count as a gap. */
const emptyAnswers = 3

/** After these the read goes on; `topic_missing` counts only when a second look confirms it. */
const passing: ReadonlySet<ErrorCode> = new Set(['broker_unavailable', 'topic_missing'])

/** The fields of a fetch response that are read here; kafkajs has no types for it. */
interface FetchResponse {
  readonly responses: readonly {
    readonly partitions: readonly {
      readonly partition: number
      readonly messages: readonly FetchedMessage[]
    }[]
  }[]
}
type FetchedMessage = KafkaMessage & { readonly isControlRecord?: boolean }

/** The next offset to read of a partition, and the first that is not read, if the range has an end. */
interface ReadCursor {
  readonly partition: number
  next: number
  end: number
  empty: number
}

interface ReadOptions {
  readonly signal: AbortSignal
  readonly lookup: TopicLookup
  /** Where connections wait for the next read of the topic. Default: they are closed. */
  readonly readers?: IdleReaders
}

/**
 * The messages of the range, each once, in order within a partition. It waits for an unavailable broker. Messages that were
 * deleted before they were read are skipped with a warning. A range without an end includes partitions that are added.
 * Throws `topic_missing`, `broker_refused`.
 */
export async function* readKafka(
  settings: KafkaSettings,
  range: TopicRange,
  { signal, lookup, readers }: ReadOptions,
): AsyncGenerator<ReadMessage, void, undefined> {
  let cursors: ReadCursor[] | undefined
  let misplaced = false
  for (let failures = 0; !signal.aborted; ) {
    const reader = readers?.take(range.topic) ?? openReader(settings, range.topic)
    const { client, cluster, isUsed } = reader
    const abandon = () => client.abandon()
    signal.addEventListener('abort', abandon, { once: true })
    let isOver = false
    try {
      if (isUsed) await cluster.refreshMetadata()
      else {
        await cluster.connect()
        await cluster.addMultipleTargetTopics([range.topic])
      }
      cursors ??= await findCursors(cluster, range)
      if (misplaced) await moveIntoTopic(settings, cluster, range, cursors)
      misplaced = false
      for (;;) {
        for await (const messages of fetchAll(settings, cluster, range.topic, cursors)) {
          failures = 0
          for (const { partition, message, cursor } of messages) {
            if (signal.aborted) return
            cursor.next = Number(message.offset) + 1
            yield readMessage(range.topic, partition, message)
          }
        }
        if (range.until === 'end') {
          isOver = true
          return
        }
        await cluster.refreshMetadata()
        const now = await findCursors(cluster, { ...range, from: 'earliest' })
        cursors.push(...now.slice(cursors.length))
      }
    } catch (thrown) {
      if (signal.aborted) return
      if (isUsed) continue
      const error = kafkaError(thrown, range.topic)
      const isMissing = error.code === 'topic_missing' && !(await lookup.mayExist(range.topic))
      if (isMissing || !passing.has(error.code)) throw error
      failures++
      misplaced = (thrown as { type?: unknown }).type === 'OFFSET_OUT_OF_RANGE'
      settings.log.warn({ topic: range.topic, err: error }, 'kafka read interrupted')
      await pause(Math.min(100 * failures, 2000), signal)
    } finally {
      signal.removeEventListener('abort', abandon)
      if (isOver && readers && !signal.aborted) readers.keep(reader)
      else client.abandon()
    }
  }
}

async function findCursors(
  cluster: Cluster,
  { topic, from, until, partition }: TopicRange,
): Promise<ReadCursor[]> {
  const partitions = cluster
    .findTopicPartitionMetadata(topic)
    .map(({ partitionId }) => partitionId)
    .filter((id) => partition === undefined || id === partition)
    .sort((a, b) => a - b)
  if (partitions.length === 0) return []
  const latest = await offsets(cluster, topic, partitions, false)
  const highOf = (id: number) => latest.get(id) ?? 0
  const nextOf = (id: number) => {
    const behind = typeof from === 'object' ? from[id] : undefined
    return from === 'latest' ? highOf(id) : behind === undefined ? 0 : Number(behind) + 1
  }
  // Most reads of a compacted topic find nothing new.
  const isNew = partitions.some((id) => nextOf(id) < highOf(id))
  const earliest = isNew ? await offsets(cluster, topic, partitions, true) : undefined
  return partitions.map((id) => {
    const high = highOf(id)
    const start = Math.max(earliest?.get(id) ?? 0, nextOf(id))
    return { partition: id, next: start, end: until === 'end' ? high : Number.POSITIVE_INFINITY, empty: 0 }
  })
}

/** Retention may have overtaken the reader, or the topic was created again. */
async function moveIntoTopic(
  settings: KafkaSettings,
  cluster: Cluster,
  range: TopicRange,
  cursors: readonly ReadCursor[],
): Promise<void> {
  const { topic } = range
  const [lows, highs] = await Promise.all([
    findCursors(cluster, { ...range, from: 'earliest' }),
    findCursors(cluster, { ...range, from: 'latest' }),
  ])
  for (const [index, cursor] of cursors.entries()) {
    const [low, high] = [lows[index]?.next ?? 0, highs[index]?.next ?? 0]
    if (cursor.next >= low && cursor.next <= high) continue
    const { partition, next } = cursor
    settings.log.warn({ topic, partition, next, low }, 'kafka read skips messages that were deleted')
    cursor.next = low
  }
}

async function offsets(cluster: Cluster, topic: string, ids: readonly number[], fromBeginning: boolean) {
  const partitions = ids.map((partition) => ({ partition }))
  const [found] = await cluster.fetchTopicsOffset([{ topic, partitions, fromBeginning }])
  return new Map(found?.partitions.map(({ partition, offset }) => [partition, Number(offset)]))
}

interface FetchedRecord {
  readonly partition: number
  readonly message: KafkaMessage
  readonly cursor: ReadCursor
}

const unfinished = (cursor: ReadCursor) => cursor.next < cursor.end

/**
 * The messages from the leaders of the cursors' partitions, concurrently: a leader is asked for more when its last answer was
 * read. Ends when all cursors are at their end, or, if they have none, when it is time to look at the topic again.
 */
async function* fetchAll(
  settings: KafkaSettings,
  cluster: Cluster,
  topic: string,
  cursors: readonly ReadCursor[],
): AsyncGenerator<FetchedRecord[], void, undefined> {
  const leaders = cluster.findLeaderForPartitions(
    topic,
    cursors.filter(unfinished).map(({ partition }) => partition),
  )
  const pending = new Map<string, Promise<{ nodeId: string; fetched: FetchedRecord[] }>>()
  const ask = (nodeId: string) => {
    const mine = cursors.filter((cursor) => leaders[nodeId]!.includes(cursor.partition) && unfinished(cursor))
    if (mine.length === 0) pending.delete(nodeId)
    else {
      const answer = fetchFrom(settings, cluster, { nodeId, topic, cursors: mine })
      const tagged = answer.then((fetched) => ({ nodeId, fetched }))
      // A failure is handled by the race; until then it must not count as unhandled.
      tagged.catch(() => {})
      pending.set(nodeId, tagged)
    }
  }
  for (const nodeId of Object.keys(leaders)) ask(nodeId)
  const end = performance.now() + settings.metadataMaxAgeMs
  while (pending.size > 0) {
    const { nodeId, fetched } = await Promise.race(pending.values())
    if (fetched.length > 0) yield fetched
    if (performance.now() < end || cursors.some((cursor) => cursor.end < Number.POSITIVE_INFINITY))
      ask(nodeId)
    else pending.delete(nodeId)
  }
}

interface FetchRequest {
  readonly nodeId: string
  readonly topic: string
  readonly cursors: readonly ReadCursor[]
}

async function fetchFrom(
  settings: KafkaSettings,
  cluster: Cluster,
  asked: FetchRequest,
): Promise<FetchedRecord[]> {
  const { nodeId, topic, cursors } = asked
  const partitions = cursors.map(({ partition, next }) => ({
    partition,
    fetchOffset: String(next),
    maxBytes: maxBytesPerPartition,
  }))
  const broker = await cluster.findBroker({ nodeId })
  const response: FetchResponse = await broker.fetch({
    maxWaitTime: settings.fetchWaitMs,
    minBytes: 1,
    maxBytes,
    topics: [{ topic, partitions }],
  })
  const answers = response.responses.flatMap((entry) => entry.partitions)
  const silent = answers.every(({ messages }) => messages.length === 0)
  return answers.flatMap(({ partition, messages }) => {
    const cursor = cursors.find((entry) => entry.partition === partition)!
    pass(cursor, messages, silent)
    return messages
      .filter(({ offset, isControlRecord }) => isWithin(cursor, Number(offset)) && !isControlRecord)
      .map((message) => ({ partition, message, cursor }))
  })
}

const isWithin = (cursor: ReadCursor, offset: number) => offset >= cursor.next && offset < cursor.end

/** Moves over offsets without a message to yield: control records, compacted ones, and deleted ones at the end. */
function pass(cursor: ReadCursor, messages: readonly FetchedMessage[], silent: boolean): void {
  const yields = messages.some(
    ({ offset, isControlRecord }) => isWithin(cursor, Number(offset)) && !isControlRecord,
  )
  const last = messages.at(-1)
  if (yields || (last === undefined && !silent)) cursor.empty = 0
  else if (last !== undefined) cursor.next = Math.max(cursor.next, Number(last.offset)) + 1
  else if (++cursor.empty >= emptyAnswers && cursor.end < Number.POSITIVE_INFINITY) cursor.next = cursor.end
}
