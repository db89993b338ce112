// What unfinished documents wait for: queued messages, processors that no process runs, waits that processors reported, and lost
// records. The broker is asked once for all documents, concurrently and with a timeout.
import type { Broker, Lag } from '../broker/broker.ts'
import { type ErrorCode, errorTable, toGraphmillError } from '../errors.ts'
import { type InputPort, inputGroup, inputTopic } from '../flow/ports.ts'
import type { LostRecords, Status, Waiting } from '../messages/generated.ts'
import type { FlowStatus } from '../progress/flow-status.ts'
import { type Running, runningUnits } from '../progress/running-units.ts'
import type { FlowName } from './topic-names.ts'

/** One input of a processor that a document must still pass. */
interface PendingInput {
  readonly processor: string
  readonly port: InputPort
}

/** The broker's answers must arrive within this time, in milliseconds. */
const patienceMs = 5000
/**
 * An older report of a wait no longer counts, in milliseconds: while a wait lasts, it is reported again every half minute, or when
 * the other side may be asked again.
 */
const recentMs = 120_000

/** By documentId, one sentence for each thing that the document waits for. Finished documents have no entry, unless units expired. */
export async function waitsOf(
  statuses: ReadonlyMap<string, Status>,
  flow: FlowStatus,
  { broker, place, now }: { readonly broker: Broker; readonly place: FlowName; readonly now: number },
): Promise<Map<string, string[]>> {
  const running = new Map<string, Running>()
  for (const [id, { state, ledger }] of statuses)
    if (state === 'queued' || state === 'running') running.set(id, unitsIn(ledger))
  const inputs = new Map<string, PendingInput>()
  for (const each of running.values())
    for (const input of pendingInputsOf(each)) inputs.set(keyOf(input), input)
  if ([...statuses.values()].some(isReplaced)) inputs.set(keyOf(withdrawing), withdrawing)
  const lags = await lagsOf([...inputs.values()], broker, place)
  const waits = new Map<string, string[]>()
  for (const [id, status] of statuses) {
    const { incomplete } = status
    const known = running.get(id)
    const sentences = known ? ofRunning(known, flow, { lags, place, now }) : []
    if ((incomplete['expired'] ?? 0) > 0 || known) sentences.push(...lostOf(incomplete, flow))
    if (isReplaced(status)) sentences.push(...ofInput(withdrawing, { lags, place, now }))
    if (sentences.length > 0) waits.set(id, sentences)
  }
  return waits
}

/** The store follows what documents no longer state. */
const withdrawing: PendingInput = { processor: 'store-triples', port: 'retractions' }

/** Whether something of the document was withdrawn: a version or removal is current that is not its first. */
const isReplaced = ({ versions, currentTime }: Status) => currentTime > 0 && versions.length > 1

/** The units that are not done. If the ledger that wrote the status has another version, nothing is known. */
export function unitsIn(ledger: Uint8Array): Running {
  try {
    return runningUnits(ledger)
  } catch {
    return { isForeign: false, loading: false, uncutParts: 0, units: new Map() }
  }
}

interface WaitContext {
  /** Null if the broker did not answer in time. */
  readonly lags: ReadonlyMap<string, Lag | null>
  readonly place: FlowName
  readonly now: number
}

function ofRunning(running: Running, flow: FlowStatus, { lags, place, now }: WaitContext): string[] {
  const inputs = pendingInputsOf(running)
  const sentences = running.loading ? ['its source has not published all of it'] : []
  sentences.push(...inputs.flatMap((input) => ofInput(input, { lags, place, now })))
  const names = new Set(inputs.map(({ processor }) => processor))
  for (const waiting of flow.waiting)
    if (names.has(waiting.processor) && Math.max(waiting.time, waiting.until ?? 0) > now - recentMs)
      sentences.push(sentenceOf(waiting))
  return sentences
}

function ofInput({ processor, port }: PendingInput, { lags, place }: WaitContext): string[] {
  const lag = lags.get(keyOf({ processor, port }))
  const topic = inputTopic(port, place, processor)
  if (lag === null) return [`the broker did not say in time how many messages of ${topic} wait`]
  if (lag && (lag.total > 0 || isNeeded(port)) && lag.members === 0)
    return [`no process runs ${processor}: ${lag.total} messages wait in ${topic}`]
  if (!lag || lag.total === 0) return []
  return [`${lag.total} messages wait for ${processor} (${lag.members} members) in ${topic}`]
}

/** Without a process for these inputs no document can be finished, even if no message waits at the moment. */
const isNeeded = (port: InputPort) => port === 'prompt' || port === 'progress'

function sentenceOf({ processor, error: { type, message }, time, until }: Waiting): string {
  const remedy = Object.hasOwn(errorTable, type) ? ` ${errorTable[type as ErrorCode].remedy}` : ''
  const again = until === null ? '' : `, tried again ${new Date(until).toISOString()}`
  return `${processor} waits: ${message} [${type}], last reported ${new Date(time).toISOString()}${again}.${remedy}`
}

function lostOf(incomplete: Status['incomplete'], { lost }: FlowStatus): string[] {
  const units = incomplete['expired'] ?? 0
  if (units === 0) return []
  const gaps = lost.map(gapText).slice(-3)
  const named = gaps.length > 0 ? ` (${gaps.join('; ')})` : ''
  return [
    `${units} units may have been among records that expired${named}: those that were not will still be done; when no messages wait any more (graphmill topics lag), load the document again`,
  ]
}

/** `30 records of gm.… were deleted before prompt had read them`. */
export function gapText({ processor, topic, partition, count }: LostRecords): string {
  return `${count ?? 'an unknown number of'} records of ${topic} (partition ${partition}) were deleted before ${processor} had read them`
}

/** How long a gap is reported, in milliseconds. */
const notedMs = 7 * 24 * 3_600_000

export const isRecent = ({ time }: LostRecords) => time > Date.now() - notedMs

function pendingInputsOf({ uncutParts, units }: Running): PendingInput[] {
  const extractors = [...new Set([...units.keys()].map((unit) => unit.split(':')[0]!))]
  return [
    { processor: 'ledger', port: 'progress' },
    ...(uncutParts > 0 ? [{ processor: 'chunk-text', port: 'document' } as const] : []),
    ...extractors.map((processor) => ({ processor, port: 'chunk' }) as const),
    ...(extractors.length > 0 ? [{ processor: 'prompt', port: 'prompt' } as const] : []),
    ...extractors.map((processor) => ({ processor, port: 'prompt-reply' }) as const),
  ]
}

const keyOf = ({ processor, port }: PendingInput) => `${processor} ${port}`

async function lagsOf(
  inputs: readonly PendingInput[],
  broker: Broker,
  place: FlowName,
): Promise<Map<string, Lag | null>> {
  const lags = new Map<string, Lag | null>(inputs.map((input) => [keyOf(input), null]))
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(late.resolve, patienceMs)
  const asked = inputs.map(async (input) => {
    const topic = inputTopic(input.port, place, input.processor)
    try {
      lags.set(keyOf(input), await broker.lag(inputGroup(input.port, place, input.processor), topic))
    } catch (thrown) {
      // The topic does not exist yet: its processor has never run.
      if (toGraphmillError(thrown).code === 'topic_missing')
        lags.set(keyOf(input), { partitions: [], total: 0, members: 0 })
    }
  })
  await Promise.race([Promise.all(asked), late.promise])
  clearTimeout(timer)
  return new Map(lags)
}
