// Bringing dead letters back to the topics they came from. A letter that can't be brought back is told, and holds up none
// behind it.
import type { Broker, OutgoingBytes, ReadMessage } from '../broker/broker.ts'
import { parseTopic } from '../broker/topics.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { systemClock, uuids } from '../flow/clock.ts'
import { outputRoute } from '../flow/ports.ts'
import { cutHeader, deathOf, originalHeaders, originOf, replayedHeader } from '../flow/runner/dead-letter.ts'
import { untilAvailable } from '../flow/runner/retry.ts'
import type { Codec } from '../messages/codec.ts'
import { pause } from '../wait.ts'
import { readToEnd } from './read-to-end.ts'

export interface ReplayPlace {
  readonly broker: Broker
  readonly codec: Codec
  readonly signal: AbortSignal
  /** Told of each letter that can't be brought back. */
  readonly onRefused: (letter: ReadMessage, error: GraphmillError) => void
}

/** How often it is looked whether others have brought back the rest, in milliseconds. */
const lookMs = 1000

/**
 * Brings back the letters of `topic` that `group` has not brought back yet, beside whoever else does; resolves to how many.
 * Letters of one message that died in several groups bring it back once. What dies again meanwhile waits for the next time.
 */
export async function replayWaiting(place: ReplayPlace, topic: string, group: string): Promise<number> {
  const { broker, signal } = place
  const { total } = await broker.lag(group, topic)
  if (total === 0) return 0
  const over = new AbortController()
  const stop = AbortSignal.any([signal, over.signal])
  const watching = untilSettled(broker, { group, topic }, stop).finally(() => over.abort())
  watching.catch(() => undefined) // awaited below
  const replay = uuids.next()
  const origins = new Set<string>()
  let taken = 0
  let replayed = 0
  try {
    const subscription = { group, topic, maxInFlight: 1, from: 'earliest', ordering: 'none' } as const
    for await (const letter of broker.consume(subscription, stop)) {
      const isBack = letter.headers[replayedHeader]?.startsWith(replay)
      if (isBack) {
        over.abort()
        await letter.retryLater(0)
        continue
      }
      const origin = originOf(letter.headers)
      if (origins.has(origin) || (await bringBack(place, letter, `${replay}-${taken}`))) {
        origins.add(origin)
        replayed++
      }
      await letter.ack()
      if (++taken >= total) over.abort()
    }
  } finally {
    over.abort()
  }
  await watching
  return replayed
}

/** Brings back the newest letter with this id, whatever was brought back before; resolves to whether there is one. */
export async function replayOne(place: ReplayPlace, topic: string, id: string): Promise<boolean> {
  const { broker, signal } = place
  let newest: ReadMessage | undefined
  for await (const letter of readToEnd(broker, topic, signal)) if (idOf(letter) === id) newest = letter
  return newest !== undefined && (await bringBack(place, newest, uuids.next()))
}

/** The message's id; where a foreign producer gave it none, its place in its topic. */
export const idOf = ({ headers }: ReadMessage): string => headers['id'] ?? originOf(headers)

/** Resolves when the group has settled all there is, or at `signal`. */
async function untilSettled(
  broker: Broker,
  { group, topic }: { readonly group: string; readonly topic: string },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await pause(lookMs, signal)
    if (signal.aborted) return
    const lag = await untilAvailable(() => broker.lag(group, topic), { signal, onFailure() {} }).catch(
      (thrown) => {
        if (!signal.aborted) throw thrown
      },
    )
    if (lag?.total === 0) return
  }
}

/** Whether it could be brought back. Throws what may pass, and what a person must mend first. */
async function bringBack(place: ReplayPlace, letter: ReadMessage, replay: string): Promise<boolean> {
  const { broker, codec, onRefused } = place
  try {
    const entry = entryOn(letter, { codec, replay })
    await broker.publish(messageIn(letter, replay))
    // It may have died again by now: that death is another one, whose cause is this replay.
    if (entry) await broker.publish(entry)
    return true
  } catch (thrown) {
    const error = toGraphmillError(thrown)
    if (error.retry !== 'never') throw error
    onRefused(letter, error)
    return false
  }
}

/** What died, as it was. Throws `message_invalid` for a letter that does not hold it. */
function messageIn({ key, value, headers }: ReadMessage, replay: string): OutgoingBytes {
  const topic = headers['dead-topic']
  if (!topic || !parseTopic(topic))
    throw new GraphmillError('message_invalid', 'The letter does not say which topic it came from.')
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

/** The entry on progress that takes the death back; none for what is of no document. */
function entryOn(
  { headers }: ReadMessage,
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
  }
  const route = outputRoute('progress', { space, workspace, flow })
  const entry = { type: 'Progress', payload: { kind: 'replayed', topic } } as const
  const sealing = { topic: route.topic, key: header.documentId, salt: '', id: () => replay }
  return codec.encode(header, entry, sealing)
}
