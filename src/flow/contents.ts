// What the newest version of each document consists of, from the compacted topic `contents`: chunk-text's own memory. A chunk that the
// version before has is not sent to the extractors again. Each question is preceded by a read to the end of the topic.

import { GraphmillError } from '../errors.ts'
import { compareVersions, emissionKey, joinKeys, splitKeys } from '../messages/emission.ts'
import type { Header, Message } from '../messages/envelope.ts'
import type { Contents } from '../messages/generated.ts'
import { createCatchUp } from '../progress/catch-up.ts'
import { isWhole } from '../progress/superseded-chunks.ts'
import { expectedUnits } from './expected-units.ts'
import type { Context, Scope } from './processor.ts'
import { valueless } from './removal.ts'

/** Keys of chunks by the version that sent them. */
type Emissions = Map<number, Set<string>>

type KnownContents = Pick<
  Message<'Contents'>,
  'documentId' | 'collection' | 'version' | 'versionTime' | 'payload'
>

/**
 * The most chunks of a version and the one before that are known by their text. Those of the two versions that the ledger may know at a
 * time fit into its status. What is beyond is known by its place only, and extracted again for each version.
 */
const maxKnown = 40_000
/** How many removals are remembered when something newer is known. */
const maxRemovals = 100

export const noContents: Contents = { cause: '', parts: [], base: [], removals: [], units: null }

export interface PartPlan {
  /** The ids of the chunks that are to be sent; undefined when the chunks are known by their place: then all are. */
  readonly toSend: ReadonlySet<string> | undefined
  /** The keys of all chunks of the part, in their order. */
  readonly keys: Buffer
  /** What is to be stored before the chunks are sent. */
  readonly contents: Contents
}

/**
 * Which chunks of a part are to be sent. Undefined when a newer version is known: nothing is sent then. The answer is the same when the
 * part is handled again.
 */
export async function planPart(
  message: Message<'TextDocument'>,
  chunkIds: readonly string[],
  context: Context,
): Promise<PartPlan | undefined> {
  const { documentId, collection, versionTime, payload } = message
  const newest = await cacheOf(context.scope).latest(documentId, context)
  const age = newest ? compareVersions(message, newest) : 1
  if (age < 0) return undefined
  // What its chunks state is of their collection.
  const isAgain = payload.again || newest?.collection !== collection
  const expected = expectedUnits(context.settings)
  const lacking = unitsLacking(expected, newest)
  const parts = age === 0 ? newest!.payload.parts.filter(({ part }) => part !== payload.part) : []
  const known = age === 0 ? emissionsOf(newest!.payload.base) : isAgain ? new Map() : baseFor(newest)
  const base: Emissions = lacking.length > 0 ? new Map() : known
  const removals = age === 0 ? newest!.payload.removals : removalsBefore(newest)
  // A part that is handled again must not rely on one behind it, which may rely on this one.
  const before = lacking.length > 0 ? [] : parts.filter(({ part }) => part < payload.part)
  const sent = merged(before.map(({ emissions }) => emissionsOf(emissions)))
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
  const others = parts.map(({ emissions }) => emissionsOf(emissions))
  const isKnown = countOf(merged([...others, own, base])) <= maxKnown
  const emissions = isKnown ? listed(own) : []
  const all = [...parts, { part: payload.part, last: payload.last, emissions }]
  const units = age === 0 ? expected.filter((unit) => !lacking.includes(unit)) : expected
  return {
    toSend: isKnown ? toSend : undefined,
    keys: Buffer.from(isKnown ? keys.join('') : '', 'latin1'),
    contents: { ...noContents, parts: all, base: listed(base), removals, units },
  }
}

/** The units that chunks of the newest version need not have passed: an extractor or row schema was added since. Its chunks are sent again. */
function unitsLacking(expected: readonly string[], newest: KnownContents | undefined): readonly string[] {
  const asked = newest?.payload.units
  return asked ? expected.filter((unit) => !asked.includes(unit)) : []
}

/**
 * The time of a part without a version: 0, unless its document was removed. Then what was published after that begins the document again,
 * under one time for all parts, since nothing else tells which of them belong together. Undefined for what was published before.
 */
export async function timeOfUnversioned(
  { documentId, time }: Message<'TextDocument'>,
  context: Context,
): Promise<number | undefined> {
  const newest = await cacheOf(context.scope).latest(documentId, context)
  const { cause, removals } = newest?.payload ?? noContents
  if (newest?.version !== '' || (cause === '' && removals.length === 0)) return 0
  const removedAt = cause !== '' ? newest.versionTime : newest.versionTime - 1
  return time > removedAt ? removedAt + 1 : undefined
}

/** What is to be stored when a part is given up: nobody may wait for chunks that were perhaps not sent. */
export async function planLoss(
  { documentId, version, versionTime, payload: { part: lost } }: Message<'TextDocument'>,
  context: Context,
): Promise<Contents | undefined> {
  const newest = await cacheOf(context.scope).latest(documentId, context)
  if (!newest || compareVersions({ version, versionTime }, newest) !== 0) return undefined
  const parts = newest.payload.parts.map((part) => (part.part === lost ? { ...part, emissions: [] } : part))
  return { ...newest.payload, parts }
}

export interface RemovalPlan {
  /** When the document was removed: given by the message, or later than everything that is known. */
  readonly versionTime: number
  /** What is to be stored before the removal is passed on. */
  readonly contents: Contents
}

/**
 * Undefined when something newer is known. The answer is the same when the removal is handled again. Throws `message_empty` for a message
 * without a value whose key is of no document that is known.
 */
export async function planRemoval(
  { id, documentId, source, time, version, versionTime: given }: Message<'TextDocument'>,
  context: Context,
): Promise<RemovalPlan | undefined> {
  const newest = await cacheOf(context.scope).latest(documentId, context)
  if (!newest && source === valueless)
    throw new GraphmillError(
      'message_empty',
      `The message has no value, and no version of a document ${documentId} is known.`,
    )
  if (newest?.payload.cause === id) return { versionTime: newest.versionTime, contents: newest.payload }
  const contents = { ...noContents, cause: id, removals: removalsBefore(newest) }
  if (contents.removals.includes(id)) return undefined
  if (given === 0) return { versionTime: Math.max(time, (newest?.versionTime ?? 0) + 1), contents }
  const isLate = newest && compareVersions({ version, versionTime: given }, newest) < 0
  return isLate ? undefined : { versionTime: given, contents }
}

/** The last removals up to the newest version. */
function removalsBefore(newest: KnownContents | undefined): readonly string[] {
  const { cause, removals } = newest?.payload ?? noContents
  return [...removals, ...(cause ? [cause] : [])].slice(-maxRemovals)
}

/** What the version before consists of. When it was never cut as a whole, it never becomes the current one: what it began from stays. */
function baseFor(newest: KnownContents | undefined): Emissions {
  if (!newest) return new Map()
  const { parts, base } = newest.payload
  const sent = parts.map(({ emissions }) => emissionsOf(emissions))
  return merged(isWhole(newest.payload) ? sent : [...sent, emissionsOf(base)])
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

const caches = new WeakMap<Scope, ReturnType<typeof createCache>>()

function cacheOf(scope: Scope) {
  const cache = caches.get(scope) ?? createCache()
  caches.set(scope, cache)
  return cache
}

/** Adds what this process has stored. */
export const addContents = (scope: Scope, stored: KnownContents) => cacheOf(scope).put(stored)

/** What is to be stored again: a replica that no longer owns a document has written late, and compaction would keep what it wrote. */
export const overwrittenContents = (scope: Scope) => cacheOf(scope).overwritten()

function createCache() {
  const newest = new Map<string, KnownContents>()
  const overwritten = new Set<string>()
  const positions: Record<number, string> = {}
  const catchUp = createCatchUp(async (context: Context) => {
    for await (const { message, partition, position } of context.read('contents', { ...positions })) {
      positions[partition] = position
      if (message) put(message)
    }
  })

  function put({ documentId, collection, version, versionTime, payload }: KnownContents): void {
    const before = newest.get(documentId)
    const age = before ? compareVersions({ version, versionTime }, before) : 1
    const parts = age === 0 ? withParts(before!.payload.parts, payload.parts) : payload.parts
    const header = { documentId, collection, version, versionTime }
    if (age >= 0) newest.set(documentId, { ...header, payload: { ...payload, parts } })
    if (age < 0 || parts.length > payload.parts.length) overwritten.add(documentId)
    else overwritten.delete(documentId)
  }

  return {
    put,
    overwritten: () => [...overwritten].map((documentId) => newest.get(documentId)!),
    async latest(documentId: string, context: Context): Promise<KnownContents | undefined> {
      await catchUp(context)
      return newest.get(documentId)
    },
  }
}

/** Of a version, each part as it was stored last. */
function withParts(before: Contents['parts'], after: Contents['parts']): Contents['parts'] {
  const replaced = new Set(after.map(({ part }) => part))
  return [...before.filter(({ part }) => !replaced.has(part)), ...after]
}
