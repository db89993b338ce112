// Deletion of messages that every group has settled. Pulsar deletes whole ledgers of what is acknowledged and no longer retained. So
// the topic is unloaded, which closes its ledgers, and retains nothing for a moment. A property of the topic holds its own retention
// meanwhile: after a crash, the next deletion restores that.
import { GraphmillError } from '../../errors.ts'
import { wait } from '../../wait.ts'
import type { Deletion, DeletionState, GroupBacklog } from '../broker.ts'
import {
  accept,
  type GroupStats,
  type InternalStats,
  internalStats,
  parseProperty,
  partitionNames,
  partitionsOf,
  statsOf,
  topicPath,
} from './admin.ts'
import { type AdminRequest, ask, type Endpoint } from './endpoint.ts'

/** Of a topic: its retention as JSON, while it retains nothing. */
const property = 'graphmill-retention'
const lookMs = 200
/** How long Pulsar may take to delete ledgers. */
const trimTimeoutMs = 30_000

interface Position {
  readonly ledger: number
  readonly entry: number
}

/** `ledger:entry` of the last message of each partition; the entry is -1 in a ledger that has none yet. */
export async function ends(endpoint: Endpoint, topic: string): Promise<string[]> {
  const found = await partitionStats(endpoint, topic)
  return found.map(({ lastConfirmedEntry }) => lastConfirmedEntry)
}

/** Rejects with `broker_unavailable` when Pulsar does not delete in time: it does so later, or when this is repeated. */
export async function deleteSettled(endpoint: Endpoint, deletion: Deletion): Promise<DeletionState> {
  const { topic } = deletion
  const upTo = deletion.ends.map(parse)
  const state = await lookAt(endpoint, deletion, upTo)
  if (deletion.lookOnly || state.behind.length > 0) return state
  let internal: readonly InternalStats[] = await partitionStats(endpoint, topic)
  if (isDeleted(internal, upTo)) {
    await restoreRetention(endpoint, topic)
    return { ...state, deleted: true }
  }
  if (isOpen(internal, upTo)) internal = await closeLedgers(endpoint, topic, upTo)
  // What came before the ledgers were closed lies in them, too.
  const whole = upTo.map((end, partition) => endOfLedger(internal[partition]!, end))
  const left = await lookAt(endpoint, deletion, whole)
  if (left.behind.length > 0) return left
  await deleteLedgers(endpoint, topic, upTo)
  return { ...state, deleted: true }
}

async function lookAt(
  endpoint: Endpoint,
  { topic, expected, ignored }: Deletion,
  upTo: readonly Position[],
): Promise<DeletionState> {
  const [internal, stats] = await Promise.all([partitionStats(endpoint, topic), statsOf(endpoint, topic)])
  const found = new Set([...stats.flatMap(({ groups }) => namesOf(groups)), ...expected])
  const groups = [...found].filter((group) => !ignored.includes(group)).sort()
  const behind = groups.flatMap((group) => backlogOf(group, { upTo, internal, stats }))
  return { groups, behind, deleted: false }
}

/** Without Pulsar's own, which move when it compacts, and without readers. */
const namesOf = (groups: Readonly<Record<string, GroupStats>>) =>
  Object.keys(groups).filter((name) => !name.startsWith('__') && groups[name]!.durable !== false)

/** Whether a ledger is still written to that holds what lies before the ends. */
const isOpen = (internal: readonly InternalStats[], upTo: readonly Position[]) =>
  internal.some(
    ({ ledgers }, partition) =>
      upTo[partition]!.entry >= 0 && ledgers.at(-1)?.ledgerId === upTo[partition]!.ledger,
  )

function endOfLedger({ ledgers }: InternalStats, end: Position): Position {
  const ledger = ledgers.find(({ ledgerId }) => ledgerId === end.ledger)
  return ledger && end.entry >= 0 ? { ledger: end.ledger, entry: ledger.entries - 1 } : end
}

/** Unloads the topic: each partition goes on in a new ledger. */
async function closeLedgers(
  endpoint: Endpoint,
  topic: string,
  upTo: readonly Position[],
): Promise<readonly InternalStats[]> {
  await act(endpoint, { method: 'PUT', path: `${topicPath(endpoint, topic)}/unload` })
  return repeated(async () => {
    const internal = await partitionStats(endpoint, topic)
    return isOpen(internal, upTo) ? undefined : internal
  }, `Pulsar has not unloaded ${topic} yet.`)
}

interface Marks {
  readonly upTo: readonly Position[]
  readonly internal: readonly InternalStats[]
  readonly stats: readonly { readonly groups: Readonly<Record<string, GroupStats>> }[]
}

function backlogOf(group: string, { upTo, internal, stats }: Marks): GroupBacklog[] {
  let messages = 0
  for (const [partition, end] of upTo.entries()) {
    const { cursors = {}, numberOfEntries } = internal[partition]!
    const mark = cursors[group]?.markDeletePosition
    const backlog = stats[partition]?.groups[group]?.msgBacklog ?? numberOfEntries
    if (backlog > 0 && !(mark && isPast(parse(mark), end))) messages += backlog
  }
  const members = Math.max(0, ...stats.map(({ groups }) => groups[group]?.consumers.length ?? 0))
  return messages > 0 ? [{ group, messages, members }] : []
}

/** Whether no ledger holds what lies before the ends. */
function isDeleted(internal: readonly InternalStats[], upTo: readonly Position[]): boolean {
  return internal.every(({ ledgers, numberOfEntries }, partition) => {
    const end = upTo[partition]!
    const isKept = (ledger: number) => ledger < end.ledger || (ledger === end.ledger && end.entry >= 0)
    return numberOfEntries === 0 || !ledgers.some(({ ledgerId }) => isKept(ledgerId))
  })
}

async function deleteLedgers(endpoint: Endpoint, topic: string, upTo: readonly Position[]): Promise<void> {
  const path = topicPath(endpoint, topic)
  await dropRetention(endpoint, path)
  try {
    await repeated(async () => {
      await act(endpoint, { method: 'POST', path: `${path}/trim` })
      return isDeleted(await partitionStats(endpoint, topic), upTo) || undefined
    }, `Pulsar has not deleted ledgers of ${topic} yet.`)
  } finally {
    await restoreRetention(endpoint, topic)
  }
}

/** Looks until there is an answer. A partition that was just unloaded may be refused for a moment. */
async function repeated<T>(look: () => Promise<T | undefined>, failure: string): Promise<T> {
  const end = performance.now() + trimTimeoutMs
  for (let cause: unknown; ; await wait(lookMs)) {
    try {
      const found = await look()
      if (found !== undefined) return found
    } catch (thrown) {
      cause = thrown
    }
    if (performance.now() > end) throw new GraphmillError('broker_unavailable', failure, { cause })
  }
}

async function dropRetention(endpoint: Endpoint, path: string): Promise<void> {
  const properties = await propertiesOf(endpoint, path)
  if (properties[property] === undefined) {
    const own = (await act(endpoint, { method: 'GET', path: `${path}/retention?applied=false` })).body.trim()
    const body = { ...properties, [property]: own === '' ? 'null' : own }
    await act(endpoint, { method: 'PUT', path: `${path}/properties`, body })
  }
  const body = { retentionTimeInMinutes: 0, retentionSizeInMB: 0 }
  await act(endpoint, { method: 'POST', path: `${path}/retention`, body })
}

/** Does nothing unless the property is there. */
async function restoreRetention(endpoint: Endpoint, topic: string): Promise<void> {
  const path = topicPath(endpoint, topic)
  const saved = (await propertiesOf(endpoint, path))[property]
  if (saved === undefined) return
  const body = saved === 'null' ? undefined : parseProperty<object>(saved)
  const request = body ? { method: 'POST' as const, body } : { method: 'DELETE' as const }
  await act(endpoint, { ...request, path: `${path}/retention` })
  await act(endpoint, { method: 'DELETE', path: `${path}/properties?key=${property}` })
}

/** A topic without any is answered with nothing. */
async function propertiesOf(endpoint: Endpoint, path: string): Promise<Readonly<Record<string, string>>> {
  const { body } = await act(endpoint, { method: 'GET', path: `${path}/properties` })
  return parseProperty<Record<string, string>>(body.trim() === '' ? undefined : body)
}

async function partitionStats(endpoint: Endpoint, topic: string): Promise<InternalStats[]> {
  const names = partitionNames(topic, await partitionsOf(endpoint, topic))
  return Promise.all(names.map((name) => internalStats(endpoint, name)))
}

async function act(endpoint: Endpoint, request: AdminRequest) {
  const answer = await ask(endpoint, request)
  accept(answer, request.path)
  return answer
}

function parse(position: string): Position {
  const [ledger = 0, entry = -1] = position.split(':').map(Number)
  return { ledger, entry }
}

const isPast = (mark: Position, end: Position) =>
  mark.ledger > end.ledger || (mark.ledger === end.ledger && mark.entry >= end.entry)
