// Erasing documents: they are removed, and once everything that came before is settled, the messages with their texts are deleted from
// the topics of the flow, upstream topics first. A pass that finds no message of theirs is the last. Every step may be repeated, so an
// erasure that was interrupted is completed by the next one.
import type { Deletion, GroupBacklog, GroupStart, ReadMessage } from '../broker/broker.ts'
import { isDeadTopic, parseTopic, topicSpec } from '../broker/topics.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import type { ReplyCache } from '../llm/cache/reply-cache.ts'
import { wait } from '../wait.ts'
import { outputRoute } from './ports.ts'
import { type DocumentTarget, publishAbout, publishRemoval } from './removal.ts'
import { originOf } from './runner/dead-letter.ts'
import { untilAvailable } from './runner/retry.ts'
import { replayGroup, settleLetters } from './unsettled-letters.ts'

/** What is erased how, and by whom. */
export interface ErasureOptions extends DocumentTarget {
  /** Who erases: an entry on `progress` says so. */
  readonly by: string
  /** The groups of the flow's processors. They are waited for also when they have never read. */
  readonly groups: readonly Pick<GroupStart, 'group' | 'topic'>[]
  /** Groups that are not waited for: they lose what they have not read. Default: none. */
  readonly ignoredGroups?: readonly string[]
  /** Whether settled messages of other documents may be deleted, too: they lie among those of the documents. Default false. */
  readonly withOthers?: boolean
  /** How long to wait for groups that are behind, in milliseconds. */
  readonly timeoutMs: number
  /** Whether only to say what would go. Default false. */
  readonly dryRun?: boolean
  /** A cache of replies on this machine. Processes with others forget the replies when they read the retraction. */
  readonly replies?: Pick<ReplyCache, 'forget'> | undefined
  /** Called at each look while groups are behind. */
  readonly onWaiting?: (topic: string, behind: readonly GroupBacklog[]) => void
}

/** What became of an erasure. */
export interface Erasure {
  /** False when the time was over first: then the rest is still there, and the next erasure goes on. */
  readonly complete: boolean
  /** By topic: the messages of the documents, and those of others that go with them. */
  readonly topics: Readonly<Record<string, FoundMessages>>
  /** The groups that were behind when the time was over. */
  readonly waiting: readonly (GroupBacklog & { readonly topic: string })[]
  /** Groups that are none of the flow's own: what other programs have stored of the texts is theirs to delete. */
  readonly readers: readonly string[]
}

/** Messages in a topic: of the documents, and of others. */
export interface FoundMessages {
  readonly own: number
  readonly others: number
}

/** What a wait may take longer each time, in milliseconds. */
const looksMs = { first: 50, longest: 1000 }
/** Of a letter: the erasure that has published it again. */
const keptHeader = 'dead-kept'

/** Throws `document_unknown` when nothing is known of a document, `erasure_refused` when other documents' messages would go. */
export async function eraseDocuments(
  documents: readonly { readonly documentId: string; readonly newestTime?: number | undefined }[],
  options: ErasureOptions,
  signal: AbortSignal,
): Promise<Erasure> {
  const ids = new Set(documents.map(({ documentId }) => documentId))
  const run: ErasureRun = { ids, options, signal, readers: new Set(), end: Number.POSITIVE_INFINITY }
  const found: Record<string, FoundMessages> = {}
  const topics = await textTopics(options)
  for (const topic of topics) {
    const messages = await unlessGone(() => survey(topic, run))
    if (messages && messages.own > 0) found[topic] = messages
  }
  for (const { documentId, newestTime } of documents)
    if (newestTime === undefined && Object.keys(found).length === 0)
      throw new GraphmillError(
        'document_unknown',
        `No status and no message is of the document ${documentId}.`,
      )
  if (options.dryRun)
    return { complete: false, topics: found, waiting: [], readers: await readersOf(run, found) }
  refuseOthers(
    Object.values(found).reduce((sum, { others }) => sum + others, 0),
    run,
  )
  for (const document of documents) await publishRemoval({ ...document, reason: 'erased' }, options, signal)
  run.end = performance.now() + options.timeoutMs
  const { isComplete, waiting } = await clearAll(run, found)
  const { workspace } = options.scope
  for (const documentId of ids)
    await options.replies?.forget({ workspace, documentId, versionTime: options.clock.now() })
  const readers = [...run.readers].sort()
  if (!isComplete) return { complete: false, topics: found, waiting, readers }
  await record(run, found)
  return { complete: true, topics: found, waiting: [], readers }
}

function refuseOthers(others: number, { options }: ErasureRun): void {
  if (others === 0 || options.withOthers) return
  const said = `${others} messages of other documents lie in the same topics and would be deleted, too.`
  throw new GraphmillError('erasure_refused', said)
}

interface ErasureRun {
  readonly ids: ReadonlySet<string>
  readonly options: ErasureOptions
  readonly signal: AbortSignal
  /** Groups of others that were found. */
  readonly readers: Set<string>
  /** When the time is over, by `performance.now()`. */
  end: number
}

type Waiting = Erasure['waiting'][number]

/** What was reached when the time was over, or before. */
interface Cleared {
  readonly isComplete: boolean
  /** The groups that were behind; none when only the broker had not deleted everything yet. */
  readonly waiting: readonly Waiting[]
}

/** Passes over the topics until one finds nothing, or the time is over. */
async function clearAll(run: ErasureRun, found: Record<string, FoundMessages>): Promise<Cleared> {
  for (let pass = 0; ; pass++) {
    let left = 0
    for (const topic of await textTopics(run.options)) {
      const cleared = await unlessGone(async () => {
        // What comes from upstream topics is there only when those before it are settled: the first pass waits in any case.
        const isAwaited = pass === 0 && !isDeadTopic(topic)
        return isAwaited || (await survey(topic, run)).own > 0 ? clear(topic, run) : undefined
      })
      if (!cleared) continue
      const { own, others, behind } = cleared
      if (behind.length > 0) return { isComplete: false, waiting: behind }
      left += own
      if (own > (found[topic]?.own ?? 0)) found[topic] = { own, others }
    }
    if (left === 0) break
    if (performance.now() > run.end) return { isComplete: false, waiting: [] }
  }
  // Stores follow the retractions: they are done when their groups are.
  const { space, scope, broker } = run.options
  const { topic } = outputRoute('retractions', { space, ...scope })
  if (!(await broker.hasTopic(topic))) return { isComplete: true, waiting: [] }
  const ends = await retried(run, () => broker.ends(topic))
  const waiting = await settle({ topic, ends, lookOnly: true }, run)
  return { isComplete: waiting.length === 0, waiting }
}

/** Deletes the topic's messages when all of them are settled and some are of the documents. */
async function clear(
  topic: string,
  run: ErasureRun,
): Promise<FoundMessages & { readonly behind: readonly Waiting[] }> {
  const { broker } = run.options
  const ends = await retried(run, () => broker.ends(topic))
  if (isDeadTopic(topic)) await keepLetters(topic, run)
  const behind = await settle({ topic, ends, lookOnly: true }, run)
  if (behind.length > 0) return { own: 0, others: 0, behind }
  const messages = await survey(topic, run)
  if (messages.own === 0) return { ...messages, behind }
  refuseOthers(messages.others, run)
  await keepRecords(topic, run)
  // Pulsar deletes whole ledgers: a letter that was published again into one of them is published once more behind it.
  const onBehind = isDeadTopic(topic) ? () => keepLetters(topic, run) : undefined
  return { ...messages, behind: await settle({ topic, ends, lookOnly: false }, run, onBehind) }
}

/** Waits until every group has settled what lies before the ends, and deletes it unless it only looks. Returns who is still behind. */
async function settle(
  { topic, ...how }: Pick<Deletion, 'topic' | 'ends' | 'lookOnly'>,
  run: ErasureRun,
  onBehind?: () => Promise<void>,
): Promise<readonly Waiting[]> {
  const { broker, groups: known, ignoredGroups: ignored = [], onWaiting, space } = run.options
  const expected = known.filter((each) => each.topic === topic).map(({ group }) => group)
  for (let pauseMs = looksMs.first; ; pauseMs = Math.min(2 * pauseMs, looksMs.longest)) {
    const state = await retried(run, () => broker.deleteSettled({ topic, ...how, expected, ignored }))
    for (const group of state.groups) if (!group.startsWith(`${space}.`)) run.readers.add(group)
    if (how.lookOnly ? state.behind.length === 0 : state.deleted) return []
    onWaiting?.(topic, state.behind)
    if (performance.now() > run.end) return state.behind.map((each) => ({ ...each, topic }))
    await onBehind?.()
    await wait(pauseMs, run.signal)
  }
}

async function readersOf(run: ErasureRun, found: Readonly<Record<string, FoundMessages>>): Promise<string[]> {
  run.end = 0 // it looks once
  for (const topic of Object.keys(found))
    await settle({ topic, ends: await run.options.broker.ends(topic), lookOnly: true }, run)
  return [...run.readers].sort()
}

/** Publishes the unsettled letters of other documents again, then settles all of them: a letter may be there twice, and is never lost. */
async function keepLetters(topic: string, { ids, options, signal }: ErasureRun): Promise<void> {
  const { broker, space } = options
  const mark = options.ids.next()
  const kept = new Set<string>()
  await settleLetters(
    { broker, topic, group: replayGroup(topic, space) },
    async (letter) => {
      const { key, value, headers } = letter
      if (headers[keptHeader] === mark) return false
      const letterId = `${originOf(headers)} ${headers['dead-time']}`
      if (isOf(letter, ids) || kept.has(letterId)) return true
      await broker.publish({ topic, key, value, headers: { ...headers, [keptHeader]: mark } })
      kept.add(letterId)
      return true
    },
    signal,
  )
}

/** Publishes the records of erasures again that lie on `progress`: they are to stay. */
async function keepRecords(topic: string, { options, signal }: ErasureRun): Promise<void> {
  const { broker, space, scope } = options
  if (topic !== outputRoute('progress', { space, ...scope }).topic) return
  const kept = new Map<string, ReadMessage>()
  for await (const entry of broker.read({ topic, from: 'earliest', until: 'end' }, signal))
    if (isRecord(entry)) kept.set(entry.headers['id'] ?? entry.position, entry)
  signal.throwIfAborted()
  for (const { key, value, headers } of kept.values()) await broker.publish({ topic, key, value, headers })
}

/** The source of the entries that record an erasure. */
const recordSource = 'erase-record'
const isRecord = ({ headers }: ReadMessage) => headers['source'] === recordSource

async function record(
  { ids, options, signal }: ErasureRun,
  found: Readonly<Record<string, FoundMessages>>,
): Promise<void> {
  const own = Object.values(found).reduce((sum, messages) => sum + messages.own, 0)
  const reason = `erased by ${options.by}: ${own} messages of ${Object.keys(found).length} topics`
  const target = { ...options, source: recordSource }
  for (const documentId of ids) {
    const payload = { kind: 'erased', reason }
    await publishAbout({ documentId, versionTime: 0 }, { type: 'Progress', payload }, target, signal)
  }
}

/** Counts the messages in a topic: of the documents, and of others. */
async function survey(topic: string, { ids, options, signal }: ErasureRun): Promise<FoundMessages> {
  let [own, others] = [0, 0]
  for await (const message of options.broker.read({ topic, from: 'earliest', until: 'end' }, signal)) {
    if (isRecord(message) || message.headers['source'] === options.source) continue
    if (isOf(message, ids)) own++
    // Letters of others stay, and progress is in the statuses.
    else if (!isDeadTopic(topic) && parseTopic(topic)?.role !== 'progress') others++
  }
  signal.throwIfAborted()
  return { own, others }
}

/** By its header or, from a producer that sets none, by its key. */
function isOf({ key, headers }: ReadMessage, ids: ReadonlySet<string>): boolean {
  const { documentId } = headers
  if (documentId) return ids.has(documentId)
  return ids.has(key) || [...ids].some((id) => key.startsWith(`${id}/`))
}

/** The topics of the flow that are not compacted, in the order in which messages cause others; those of dead letters last. */
async function textTopics({ broker, space, scope }: ErasureOptions): Promise<string[]> {
  const topics = (await broker.listTopics(`${space}.`)).flatMap(({ name }) => {
    const parts = parseTopic(name)
    const isOurs =
      parts && 'workspace' in parts && parts.workspace === scope.workspace && parts.flow === scope.flow
    if (!isOurs || (!parts.dead && topicSpec(name).compacted)) return []
    return [{ name, rank: parts.dead ? order.length : rankOf(parts.class, parts.role) }]
  })
  return topics.sort((one, other) => one.rank - other.rank).map(({ name }) => name)
}

const order = [
  'document',
  'chunk',
  'request',
  'response',
  'facts',
  'triples',
  'entity-contexts',
  'rejected',
  'progress',
]

function rankOf(topicClass: string, role: string): number {
  const rank = order.indexOf(topicClass === 'flow' ? role : topicClass)
  return rank < 0 ? order.indexOf('facts') : rank
}

/** Temporary faults of the broker pass, until the time is over. */
function retried<T>({ signal, end }: ErasureRun, act: () => Promise<T>): Promise<T> {
  const onFailure = (error: GraphmillError) => {
    if (performance.now() > end) throw error
  }
  return untilAvailable(act, { signal, onFailure })
}

/** Undefined when the topic was deleted: response topics go with their clients. */
async function unlessGone<T>(act: () => Promise<T>): Promise<T | undefined> {
  try {
    return await act()
  } catch (thrown) {
    if (toGraphmillError(thrown).code !== 'topic_missing') throw thrown
    return undefined
  }
}
