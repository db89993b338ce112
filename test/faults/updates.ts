// Documents are edited and removed while each processor is killed and the broker restarts: in the end the store holds exactly what a
// fresh one holds that was given only the surviving versions.
import { kill } from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { isDeadTopic } from '../../src/broker/topics.ts'
import { uuids as ids } from '../../src/flow/clock.ts'
import { type KnownVersion, loadDocument } from '../../src/flow/load-document.ts'
import { type InputPort, inputGroup } from '../../src/flow/ports.ts'
import { publishRemoval } from '../../src/flow/removal.ts'
import { createCircuits } from '../../src/flow/runner/circuits.ts'
import { untilAvailable } from '../../src/flow/runner/retry.ts'
import { createCodec } from '../../src/messages/codec.ts'
import { emissionKey, splitKeys } from '../../src/messages/emission.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { canonicalQuads } from '../support/canonical-quads.ts'
import { bookOf, difference, same } from '../support/graph.ts'
import { startLlmServer } from '../support/llm-server.ts'
import type { GraphmillProcess } from '../support/processes.ts'
import { type Execution, extractors, inputLines, openExecution, type Site } from './execution.ts'

const scope = { workspace: 'default', flow: 'default' }
const paragraphsOf = (count: number, number: number) => bookOf(count, number).split('\n\n')
const [valley, hills, town] = [paragraphsOf(10, 1), paragraphsOf(6, 2), paragraphsOf(6, 3)]
const fresh = paragraphsOf(6, 4)

type Step = readonly [documentId: string, paragraphs: readonly string[]]

/** Each processor runs in one of these processes. */
const [cutting, asking, storing] = [
  ['chunk-text', 'ledger'],
  ['prompt', ...extractors],
  ['emit-triples', 'store-triples'],
] as const

/** The processes that are killed in turn, each after these steps: a document without paragraphs is removed. */
const rounds: readonly { readonly victims: readonly string[]; readonly steps: readonly Step[] }[] = [
  {
    victims: cutting,
    // Two documents state what is in the same paragraphs.
    steps: [
      ['valley', valley],
      ['hills', [...hills, ...town.slice(0, 2)]],
      ['town', town],
    ],
  },
  {
    victims: asking,
    steps: [
      ['valley', [fresh[0]!, ...valley.slice(0, 8)]],
      ['hills', []],
      ['town', [...town, fresh[1]!]],
    ],
  },
  {
    victims: storing,
    steps: [
      ['valley', [...valley.slice(3, 6), fresh[2]!, ...valley.slice(6)]],
      ['town', town.slice(2)],
      ['town', []],
      ['hills', [...hills.slice(0, 3), fresh[3]!, ...hills.slice(3)]],
    ],
  },
  {
    victims: cutting,
    steps: [
      ['town', [fresh[4]!, ...town.slice(1)]],
      ['valley', valley.slice(4)],
    ],
  },
]

/** Every document in its last version. */
const surviving = new Map(rounds.flatMap(({ steps }) => steps))

/** `restart`: stops the broker, and starts it again. */
export async function updatesWithFaults(site: Site, restart: () => Promise<void>): Promise<void> {
  await using llm = await startLlmServer({ latencyMs: 50 })
  const execution = await openExecution(site, { space: 'updates', llmUrl: llm.url })
  const flags = ['--provenance', 'subgraph', '--extractors', extractors.map((name) => name.slice(8)).join()]
  try {
    const start = (names: readonly string[]) =>
      execution.startProcess(names, [...flags, '--session-timeout', '6'])
    const processes = new Map<readonly string[], GraphmillProcess>()
    const all = [cutting, asking, storing]
    await Promise.all(all.map(async (names) => processes.set(names, await start(names))))
    const change = createChanges(execution)
    for (const [round, { victims, steps }] of rounds.entries()) {
      const victim = processes.get(victims)!
      kill(victim.pid, 'SIGSTOP')
      for (const step of steps) await change(step)
      // It dies when there is work for it, on which it has just begun.
      for (let looks = 0; looks < 20 && (await backlogOf(execution, victims)) === 0; looks++) await delay(100)
      kill(victim.pid, 'SIGCONT')
      await delay(5)
      await victim.end('SIGKILL')
      if (round === 2) await restart()
      processes.set(victims, await start(victims))
    }
    await settled(execution)
    const expected = await undisturbed(llm.url)
    expect(difference(await execution.graph(), expected.graph)).toEqual(same)
    expect(difference(await provenanceOf(execution), expected.provenance)).toEqual(same)
    expect(difference(await contextsOf(execution), expected.contexts)).toEqual(same)
    const topics = (await execution.broker.listTopics('updates.')).map(({ name }) => name)
    expect(topics.filter(isDeadTopic)).toEqual([])
    expect(expected.graph.size).toBeGreaterThan(100)
  } finally {
    await execution.close()
  }
}

/** What a fresh flow makes of the surviving versions, on the memory broker. */
async function undisturbed(llmUrl: string) {
  const cluster = createMemoryCluster()
  const site = { brokerUrl: 'memory://', connect: async () => cluster.connect() }
  const execution = await openExecution(site, { space: 'updates', llmUrl })
  try {
    await execution.startRuntime({ provenance: 'subgraph' })
    const change = createChanges(execution)
    for (const step of surviving) if (step[1].length > 0) await change(step)
    await settled(execution)
    return {
      graph: await execution.graph(),
      provenance: await provenanceOf(execution),
      contexts: await contextsOf(execution),
    }
  } finally {
    await execution.close()
  }
}

/** All quads, and how often each stands there but for run ids and times. */
async function provenanceOf(execution: Execution): Promise<Set<string>> {
  const counts = Map.groupBy(canonicalQuads(await execution.quads()), (quad) => quad)
  return new Set([...counts].map(([quad, all]) => `${all.length} ${quad}`))
}

/** Loads a version, or removes the document; each is later than the one before. */
function createChanges({ broker, space }: Execution): (step: Step) => Promise<void> {
  const codec = createCodec(loadSchemas())
  const known = new Map<string, KnownVersion>()
  let time = Date.now()
  return async ([id, paragraphs]) => {
    const { signal } = new AbortController()
    const before = known.get(id)
    const versionTime = ++time
    const clock = { now: () => versionTime }
    const target = { broker, codec, circuits: createCircuits(), clock, ids, space, scope, source: 'test' }
    if (paragraphs.length === 0) {
      await publishRemoval(
        { documentId: id, reason: 'removed', newestTime: before!.versionTime },
        target,
        signal,
      )
      known.set(id, { ...before!, state: 'removed', versionTime })
      return
    }
    const text = paragraphs.join('\n\n')
    const source = {
      ...{ id, title: id, uri: '', mediaType: 'text/plain' },
      async *text() {
        yield text
      },
    }
    const newest = () => before
    const { version } = await loadDocument(source, { ...target, collection: 'default', newest }, signal)
    known.set(id, { state: 'running', collection: 'default', version, versionTime })
  }
}

const inputs: readonly { readonly port: InputPort; readonly processor: string }[] = [
  ...inputLines(),
  { port: 'progress', processor: 'ledger' },
  { port: 'retractions', processor: 'store-triples' },
]

async function backlogOf(
  { broker, space, topic }: Execution,
  processors: readonly string[],
): Promise<number> {
  const lags = inputs
    .filter(({ processor }) => processors.includes(processor))
    .map(({ port, processor }) =>
      untilAvailable(
        () => broker.lag(inputGroup(port, { space, ...scope }, processor), topic(port, processor)),
        {
          signal: AbortSignal.timeout(60_000),
          onFailure() {},
        },
      ),
    )
  return (await Promise.all(lags)).reduce((sum, { total }) => sum + total, 0)
}

/** Resolves when nothing has been left to do for two looks. */
async function settled(execution: Execution): Promise<void> {
  const all = inputs.map(({ processor }) => processor)
  for (let quiet = 0; quiet < 2; ) {
    quiet = (await backlogOf(execution, all)) === 0 ? quiet + 1 : 0
    await delay(200)
  }
}

/** The entity contexts that are not withdrawn, without the ids of their runs. */
async function contextsOf({ messages, topic }: Execution): Promise<Set<string>> {
  const newest = new Map<string, Message<'Retractions'>>()
  for (const message of (await messages(topic('retractions'))) as Message<'Retractions'>[])
    if (message.versionTime >= (newest.get(message.documentId)?.versionTime ?? 0))
      newest.set(message.documentId, message)
  const found = new Set<string>()
  for (const message of (await messages(topic('entity-contexts'))) as Message<'EntityContexts'>[]) {
    const { documentId, chunkId, versionTime, payload } = message
    const retraction = newest.get(documentId)
    const isKept =
      !retraction ||
      versionTime > retraction.versionTime ||
      splitKeys(retraction.payload.kept).includes(emissionKey(message))
    if (isKept) for (const each of payload.entities) found.add(JSON.stringify([documentId, chunkId, each]))
  }
  return found
}
