// Replicas of the ledger come and go while documents are processed, on any broker: the statuses end as those of a ledger that
// nothing disturbs, on the memory broker, and no status on the way counts more than there is.
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { inputGroup } from '../../src/flow/ports.ts'
import { createCodec } from '../../src/messages/codec.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { ProgressInit, Status } from '../../src/messages/generated.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { isNewer } from '../../src/progress/status-cache.ts'
import { type Execution, openExecution, type RunningRuntime, type Site } from './execution.ts'

const only = ['ledger']
/** Nobody is asked for anything. */
const llmUrl = 'http://127.0.0.1:9/v1'
/** So many that every replica has some of them, however keys are shared out. */
const documents = Array.from({ length: 16 }, (_, number) => `urn:d:${number}`)
const chunks = 100
const units = ['one', 'two', 'three']
/** What happens to a document, in so many pieces. */
const pieces = 150

interface Entry {
  readonly payload: ProgressInit
  readonly chunk?: number
  readonly causationId?: string
}

/** Of each chunk and unit a run of three parts; some were cut off and run again, some died and were replayed, some entries come twice. */
function lifeOf(): Entry[][] {
  const life: Entry[] = [
    { payload: { kind: 'document', parts: 1, title: 'The valley' } },
    { payload: { kind: 'part', part: 0, chunks, units } },
  ]
  const usage = { promptTokens: 7, completionTokens: 3, totalTokens: 10, spent: [] }
  for (let chunk = 0; chunk < chunks; chunk++)
    for (const [at, unit] of units.entries()) {
      const replies = (id: string, incomplete: string | null): Entry[] =>
        [0, 1, 2].map((seq) => ({
          chunk,
          payload: {
            kind: 'reply',
            unit,
            run: { id: `${id}-${unit}-${chunk}`, startedAt: 1 },
            seq,
            last: seq === 2,
            incomplete: seq === 2 ? incomplete : null,
            facts: { definitions: 1 + at },
            rejected: { schema: chunk % 3 },
            ...(seq === 2 && { usage, model: 'm' }),
          },
        }))
      const [first, second, third] = replies('first', null)
      const dead = { chunk, causationId: `dead-${unit}-${chunk}` }
      if (chunk % 10 === 1) life.push(...replies('cut', 'truncated'), first!, second!, third!)
      else if (chunk % 10 === 2)
        life.push(
          { ...dead, payload: { kind: 'dead', unit, topic: 'gm.flow.chunk.default.default' } },
          { ...dead, payload: { kind: 'replayed' } },
          ...[third!, first!, second!],
        )
      else if (chunk % 10 === 3) life.push(first!, first!, third!, second!, third!, first!)
      else if (chunk % 50 === 4) life.push(...replies('cut', 'truncated'))
      else life.push(first!, second!, third!)
    }
  const size = Math.ceil(life.length / pieces)
  return Array.from({ length: pieces }, (_, piece) => life.slice(piece * size, (piece + 1) * size))
}

async function tell(execution: Execution, piece: readonly Entry[]): Promise<void> {
  const all = documents.flatMap((documentId) =>
    piece.map(({ payload, chunk, causationId = '' }) => {
      const chunkId = chunk === undefined ? '' : `${documentId}/0/${chunk}`
      return execution.send('progress', payload, { documentId, chunkId, causationId })
    }),
  )
  await Promise.all(all)
}

const settled = async ({ broker, space, topic }: Execution) => {
  const group = inputGroup('progress', { space, workspace: 'default', flow: 'default' }, 'ledger')
  while ((await broker.lag(group, topic('progress'))).total > 0) await delay(100)
}

/** What a status says, without what belongs to its writer. */
const said = ({ epoch: _, revision: __, ledger: ___, ...payload }: Status) => payload

/** The newest status of each document. */
async function newest(execution: Execution): Promise<Map<string, Status>> {
  const found = new Map<string, Status>()
  const topic = execution.topic('progress').replace('.flow.progress.', '.notify.status.')
  for (const { documentId, payload } of (await execution.messages(topic)) as Message<'Status'>[])
    if (isNewer(payload, found.get(documentId))) found.set(documentId, payload)
  return found
}

/** Every status from now on, with the time at which the broker had it. */
function record({ broker, topic }: Execution, signal: AbortSignal) {
  const codec = createCodec(loadSchemas())
  const seen: { documentId: string; at: number; status: Status }[] = []
  const name = topic('progress').replace('.flow.progress.', '.notify.status.')
  const read = async () => {
    for await (const entry of broker.read({ topic: name, from: 'earliest', until: 'never' }, signal)) {
      const { documentId, payload } = codec.decode(entry.value, entry.headers) as Message<'Status'>
      seen.push({ documentId, at: entry.timestamp, status: payload })
    }
  }
  return { seen, over: read() }
}

/** The statuses of a ledger that nothing disturbs. */
async function undisturbed(): Promise<Map<string, Status>> {
  const cluster = createMemoryCluster()
  const site = { brokerUrl: 'memory://', connect: async () => cluster.connect() }
  const execution = await openExecution(site, { space: 'calm-ledger', llmUrl })
  try {
    await execution.startRuntime({ only })
    for (const piece of lifeOf()) await tell(execution, piece)
    await settled(execution)
    return await newest(execution)
  } finally {
    await execution.close()
  }
}

const hasWork = ({ work }: RunningRuntime) => work.get('ledger')!.taken > 0

/** One process is there from the beginning and is killed, a second replica joins and leaves, a third joins and stays. */
export async function ledgerReplicas(site: Site): Promise<void> {
  const expected = await undisturbed()
  const execution = await openExecution(site, { space: 'ledger-replicas', llmUrl })
  const over = new AbortController()
  try {
    const first = await execution.startProcess(only)
    const { seen, over: recorded } = record(execution, over.signal)
    const life = lifeOf()
    const tellSome = async (count: number) => {
      for (const piece of life.splice(0, count)) {
        await tell(execution, piece)
        await delay(50)
      }
    }
    /** A member is given work only while there is some. */
    const tellUntil = async (condition: () => boolean) => {
      while (!condition() && life.length > 30) {
        await tellSome(1)
        await delay(200)
      }
      expect(condition()).toBe(true)
    }
    await tellSome(15)
    const second = await execution.startRuntime({ only })
    await tellUntil(() => hasWork(second))
    await tellSome(10)
    await Promise.all([second.stop(), tellSome(10)])
    const third = await execution.startRuntime({ only })
    await tellUntil(() => hasWork(third))
    await Promise.all([first.end('SIGKILL'), tellSome(10)])
    await tellSome(life.length)
    await settled(execution)
    const statuses = await newest(execution)
    over.abort()
    await recorded
    expect(new Set(statuses.keys())).toEqual(new Set(documents))
    for (const documentId of documents) {
      const whole = said(expected.get(documentId)!)
      expect(said(statuses.get(documentId)!)).toEqual(whole)
      const own = seen.filter((one) => one.documentId === documentId)
      expect(own.length).toBeGreaterThan(2)
      for (const { status } of own) {
        expect(status.facts['definitions'] ?? 0).toBeLessThanOrEqual(whole.facts['definitions']!)
        expect(status.done + status.partial + status.dead).toBeLessThanOrEqual(whole.expected)
      }
      const seconds = (own.at(-1)!.at - own[0]!.at) / 1000
      expect(own.length).toBeLessThanOrEqual(Math.floor(seconds) + 2)
    }
    expect(expected.get(documents[0]!)).toMatchObject({
      state: 'partial',
      expected: chunks * units.length,
      partial: (chunks / 50) * units.length,
      dead: 0,
    })
  } finally {
    over.abort()
    await execution.close()
  }
}
