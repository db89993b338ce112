// What the newest version of each document consists of, from the compacted topic `contents`: chunk-text's own memory. A chunk that the
// version before has is not sent to the extractors again. Each question is preceded by a read to the end of the topic.
import { emissionKey, joinKeys, splitKeys } from '../messages/emission.ts'
import type { Header, Message } from '../messages/envelope.ts'
import type { Contents, ContentsInit } from '../messages/generated.ts'
import { createCatchUp } from '../progress/catch-up.ts'
import type { Context, Scope } from './processor.ts'

/** Keys of chunks by the version that sent them. */
type Emissions = Map<number, Set<string>>

interface KnownContents extends Pick<Header, 'version' | 'versionTime'> {
  readonly payload: Contents
}

/** More keys would not fit a message: then the version before is forgotten, and everything is sent. */
const maxKeys = 100_000
/** The most chunks of a document that are known by their text: the ledger knows no more. */
const maxChunks = 70_000

export interface PartPlan {
  /** The ids of the chunks that are to be sent. */
  readonly toSend: ReadonlySet<string>
  /** The keys of all chunks of the part, in their order. */
  readonly keys: Buffer
  /** What is to be stored before the chunks are sent. */
  readonly contents: ContentsInit
}

/**
 * Which chunks of a part are to be sent. Undefined when a newer version is known: nothing is sent then. `too_many` when the document has
 * too many chunks to know them by their ids. The answer is the same when the part is handled again.
 */
export async function planPart(
  message: Message<'TextDocument'>,
  chunkIds: readonly string[],
  context: Context,
): Promise<PartPlan | 'too_many' | undefined> {
  const { documentId, versionTime, payload } = message
  const newest = await cacheOf(context.scope).latest(documentId, context)
  const age = newest ? compare(message, newest) : 1
  if (age < 0) return undefined
  const parts = age === 0 ? newest!.payload.parts.filter(({ part }) => part !== payload.part) : []
  const base = age === 0 ? emissionsOf(newest!.payload.base) : payload.again ? new Map() : baseFor(newest)
  // A part that is handled again must not rely on one behind it, which may rely on this one.
  const sent = merged(
    parts.filter(({ part }) => part < payload.part).map(({ emissions }) => emissionsOf(emissions)),
  )
  const known = countOf(merged(parts.map(({ emissions }) => emissionsOf(emissions)))) + chunkIds.length
  if (known > maxChunks) return 'too_many'
  const own: Emissions = new Map()
  const toSend = new Set<string>()
  const keys: string[] = []
  for (const chunkId of chunkIds) {
    const sender = senderOf({ documentId, chunkId }, [sent, base])
    if (sender === undefined) toSend.add(chunkId)
    const time = sender ?? versionTime
    keys.push(emissionKey({ documentId, chunkId, versionTime: time }))
    add(own, time, keys.at(-1)!)
  }
  const all = [...parts, { part: payload.part, last: payload.last, emissions: listed(own) }]
  const fits = known + countOf(base) <= maxKeys
  return {
    toSend,
    keys: Buffer.from(keys.join(''), 'latin1'),
    contents: { parts: all, base: fits ? listed(base) : [] },
  }
}

/**
 * When the document was removed: given by the message, or later than everything that is known. Undefined when a newer version is known.
 */
export async function planRemoval(
  message: Message<'TextDocument'>,
  context: Context,
): Promise<number | undefined> {
  const newest = await cacheOf(context.scope).latest(message.documentId, context)
  if (message.versionTime > 0) return newest && compare(message, newest) < 0 ? undefined : message.versionTime
  if (newest?.payload.cause === message.id) return newest.versionTime
  return Math.max(message.time, (newest?.versionTime ?? 0) + 1)
}

/** What the version before consists of. When it was never cut as a whole, it never becomes the current one: what it began from stays. */
function baseFor(newest: KnownContents | undefined): Emissions {
  if (!newest) return new Map()
  const { parts, base, cause } = newest.payload
  const last = parts.find((part) => part.last)
  const isWhole = cause !== '' || (last !== undefined && parts.length === last.part + 1)
  const sent = parts.map(({ emissions }) => emissionsOf(emissions))
  return merged(isWhole ? sent : [...sent, emissionsOf(base)])
}

function senderOf(
  chunk: Pick<Header, 'documentId' | 'chunkId'>,
  known: readonly Emissions[],
): number | undefined {
  for (const emissions of known)
    for (const [versionTime, keys] of emissions)
      if (keys.has(emissionKey({ ...chunk, versionTime }))) return versionTime
  return undefined
}

const emissionsOf = (list: Contents['base']): Emissions =>
  new Map(list.map(({ versionTime, keys }) => [versionTime, new Set(splitKeys(keys))]))

function listed(emissions: Emissions): Contents['base'] {
  return [...emissions].map(([versionTime, keys]) => ({ versionTime, keys: joinKeys(keys) }))
}

function merged(all: readonly Emissions[]): Emissions {
  const whole: Emissions = new Map()
  for (const emissions of all)
    for (const [time, keys] of emissions) for (const key of keys) add(whole, time, key)
  return whole
}

function add(emissions: Emissions, time: number, key: string): void {
  const keys = emissions.get(time)
  if (keys) keys.add(key)
  else emissions.set(time, new Set([key]))
}

const countOf = (emissions: Emissions) => [...emissions.values()].reduce((sum, { size }) => sum + size, 0)

/** Negative when `one` is the older version. */
export function compare(
  one: Pick<Header, 'version' | 'versionTime'>,
  other: Pick<Header, 'version' | 'versionTime'>,
): number {
  return (
    one.versionTime - other.versionTime ||
    (one.version < other.version ? -1 : Number(one.version > other.version))
  )
}

const caches = new WeakMap<Scope, ReturnType<typeof createCache>>()

function cacheOf(scope: Scope) {
  const cache = caches.get(scope) ?? createCache()
  caches.set(scope, cache)
  return cache
}

function createCache() {
  const newest = new Map<string, KnownContents>()
  const positions: Record<number, string> = {}
  const catchUp = createCatchUp(async (context: Context) => {
    for await (const { message, partition, position } of context.read('contents', { ...positions })) {
      positions[partition] = position
      if (!message) continue
      const { documentId, version, versionTime, payload } = message
      const before = newest.get(documentId)
      if (!before || compare(message, before) >= 0) newest.set(documentId, { version, versionTime, payload })
    }
  })
  return {
    async latest(documentId: string, context: Context): Promise<KnownContents | undefined> {
      await catchUp(context)
      return newest.get(documentId)
    },
  }
}
