// Replaying dead letters: publishing them to the topics they came from. A dead letter that can't be replayed is reported, and does
// not block the ones after it.
import type { Broker, OutgoingBytes, ReadMessage } from '../broker/broker.ts'
import { parseTopic } from '../broker/topics.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { systemClock, uuids } from '../flow/clock.ts'
import { outputRoute } from '../flow/ports.ts'
import { cutHeader, deathOf, originalHeaders, originOf, replayedHeader } from '../flow/runner/dead-letter.ts'
import { timeOf } from '../flow/runner/failed-delivery.ts'
import { settleLetters } from '../flow/unsettled-letters.ts'
import type { Codec } from '../messages/codec.ts'
import { brokerHeaders } from '../messages/envelope.ts'
import { readToEnd } from './read-to-end.ts'

export interface ReplayContext {
  readonly broker: Broker
  readonly codec: Codec
  readonly signal: AbortSignal
  /** Called for each dead letter that can't be replayed. */
  readonly onRefused: (letter: ReadMessage, error: GraphmillError) => void
}

/**
 * Replays the dead letters of `topic` that `group` has not replayed yet, and returns how many. Several replays may run at once.
 * If a message died in several groups, it is replayed once. A message that dies again in the meantime waits for the next replay.
 */
export async function replayWaiting(context: ReplayContext, topic: string, group: string): Promise<number> {
  const replay = uuids.next()
  const origins = new Set<string>()
  let taken = 0
  let replayed = 0
  await settleLetters(
    { broker: context.broker, topic, group },
    async (letter) => {
      if (letter.headers[replayedHeader]?.startsWith(replay)) return false
      const origin = originOf(letter.headers)
      if (origins.has(origin) || (await republish(context, letter, `${replay}-${taken++}`))) {
        origins.add(origin)
        replayed++
      }
      return true
    },
    context.signal,
  )
  return replayed
}

/** Replays the newest dead letter with this id, even if it was replayed before. Returns false if there is none, or it can't be replayed. */
export async function replayOne(context: ReplayContext, topic: string, id: string): Promise<boolean> {
  const { broker, codec, signal } = context
  let newest: ReadMessage | undefined
  for await (const letter of readToEnd(broker, topic, signal))
    if (idOf(letter) === id || messageHeaders(letter, codec)['id'] === id) newest = letter
  return newest !== undefined && (await republish(context, newest, uuids.next()))
}

/** The message's id or, if a foreign producer gave it none, its position in its topic. */
export const idOf = ({ headers }: ReadMessage): string => headers['id'] ?? originOf(headers)

/** Returns whether the dead letter could be replayed. Throws temporary errors, and those that a person must fix first. */
async function republish(context: ReplayContext, letter: ReadMessage, replay: string): Promise<boolean> {
  const { broker, codec, onRefused } = context
  try {
    const entry = entryOn(messageHeaders(letter, codec), { codec, replay })
    await broker.publish(messageIn(letter, replay))
    // The message may have died again by now. That is another death, and its cause is this replay.
    if (entry) await broker.publish(entry)
    return true
  } catch (thrown) {
    const error = toGraphmillError(thrown)
    if (error.retry !== 'never') throw error
    onRefused(letter, error)
    return false
  }
}

/** The message that died, unchanged. Throws `message_invalid` if the dead letter does not contain it. */
function messageIn({ key, value, headers }: ReadMessage, replay: string): OutgoingBytes {
  const topic = headers['dead-topic']
  if (!topic || !parseTopic(topic))
    throw new GraphmillError('message_invalid', 'The dead letter does not name the topic that it came from.')
  if (headers[cutHeader])
    throw new GraphmillError(
      'message_invalid',
      `Only the beginning of its ${headers[cutHeader]} bytes was kept.`,
    )
  return {
    topic,
    key,
    value,
    headers: { ...originalHeaders(headers), [replayedHeader]: replay },
    anySize: true,
  }
}

/** The headers of the message that died. Those on TrustGraph's topics do not say what it is about, so that it is decoded. */
function messageHeaders({ value, headers, timestamp }: ReadMessage, codec: Codec): ReadMessage['headers'] {
  const topic = headers['dead-topic']
  if (headers['type'] !== undefined || topic === undefined) return headers
  try {
    const message = codec.decode(value, headers, { topic, timestamp })
    return { ...headers, ...brokerHeaders(message, message.type) }
  } catch {
    return headers
  }
}

/** The entry on progress that undoes the death; undefined if the message belongs to no document. */
function entryOn(
  headers: ReadMessage['headers'],
  { codec, replay }: { readonly codec: Codec; readonly replay: string },
): OutgoingBytes | undefined {
  const topic = headers['dead-topic'] ?? ''
  const parts = parseTopic(topic)
  if (!headers['documentId'] || !parts || !('workspace' in parts)) return undefined
  const { space, workspace, flow } = parts
  const header = {
    source: 'dead-replay',
    time: systemClock.now(),
    workspace,
    flow,
    collection: '',
    documentId: headers['documentId'],
    chunkId: headers['chunkId'] ?? '',
    correlationId: headers['correlationId'] ?? '',
    causationId: deathOf(headers),
    replyTo: null,
    deadline: null,
    traceparent: headers['traceparent'] ?? null,
    versionTime: timeOf(headers['versionTime']),
  }
  const route = outputRoute('progress', { space, workspace, flow })
  const entry = { type: 'Progress', payload: { kind: 'replayed', topic } } as const
  const sealing = { topic: route.topic, key: header.documentId, salt: '', id: () => replay }
  return codec.encode(header, entry, sealing)
}
