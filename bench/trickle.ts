// Two extractors in one process on a real Kafka, with a model that answers at once, with one of 500 ms a call, whose messages come one by
// one, and with one that writes 50 tokens a second: CPU and requests to Kafka a chunk, the share of the ideal rate, and the time to the
// first triple.
import { readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { inputGroup } from '../src/flow/ports.ts'
import { type Execution, openExecution } from '../test/faults/execution.ts'
import type { GraphmillProcess } from '../test/support/processes.ts'
import { extractors, type Machines, timeOf, withExtractors } from './kafka.ts'
import type { LlmProcess } from './llm-process.ts'
import { cpuOf } from './process-usage.ts'
import { program } from './program.ts'
import { median, type Row, rounds } from './row.ts'

/** 64 calls at once of 500 ms each. */
const idealCallsPerSecond = 128
/** Between two documents of an idle flow. */
const idleMs = 1000
const counter = join(import.meta.dirname, 'request-counter.ts')

type Requests = Readonly<Record<string, number>>

interface Process extends GraphmillProcess {
  requests(): Promise<Requests>
}

async function startCounted(execution: Execution): Promise<Process> {
  const file = join(tmpdir(), `graphmill-requests-${process.pid}-${execution.space}.json`)
  process.env['NODE_OPTIONS'] = `--import=${counter}`
  process.env['REQUEST_COUNTS'] = file
  const started = await execution.startProcess(['--all'], withExtractors, program).finally(() => {
    delete process.env['NODE_OPTIONS']
    delete process.env['REQUEST_COUNTS']
  })
  return {
    ...started,
    async requests() {
      rmSync(file, { force: true })
      process.kill(started.pid, 'SIGUSR2')
      for (;;) {
        await delay(10)
        try {
          return JSON.parse(readFileSync(file, 'utf8')) as Requests
        } catch {
          // Not written yet.
        }
      }
    },
  }
}

/** Requests of all kinds that a chunk cost, and those of each kind. */
function requestsOf(before: Requests, after: Requests, chunks: number) {
  const kinds = Object.keys(after)
    .map((kind) => ({ kind, each: (after[kind]! - (before[kind] ?? 0)) / chunks }))
    .filter(({ each }) => each >= 0.05)
    .sort((a, b) => b.each - a.each)
  const each = kinds.reduce((sum, kind) => sum + kind.each, 0)
  return { each, note: kinds.map((kind) => `${kind.kind} ${kind.each.toFixed(1)}`).join(', ') }
}

interface Pass {
  readonly cpu: number
  readonly requests: { readonly each: number; readonly note: string }
}

/** One document of so many chunks, from `load` to the last stored triple. */
async function pass(execution: Execution, graphmill: Process, chunks: number): Promise<Pass> {
  const cpu = cpuOf(graphmill.pid)
  const before = await graphmill.requests()
  await execution.load(chunks)
  await execution.until(({ state }) => state === 'done')
  const topic = execution.topic('triples')
  const group = inputGroup(
    'triples',
    { space: execution.space, workspace: 'default', flow: 'default' },
    'store-triples',
  )
  while ((await execution.broker.lag(group, topic)).total > 0) await delay(50)
  const requests = requestsOf(before, await graphmill.requests(), chunks)
  return { cpu: ((cpuOf(graphmill.pid) - cpu) / chunks) * 1000, requests }
}

/** Milliseconds from `load` to the first message on `triples` with an idle process and a model of 0 ms; a chunk is a document. */
async function firstTriples(execution: Execution, documents: number): Promise<number> {
  const times: number[] = []
  const over = new AbortController()
  const range = { topic: execution.topic('triples'), from: 'latest', until: 'never' } as const
  const triples = execution.broker.read(range, over.signal)[Symbol.asyncIterator]()
  let next = triples.next()
  await delay(idleMs)
  for (let document = 0; document < documents; document++) {
    const begun = Date.now()
    await execution.load(1, 1000 + document)
    for (let isOurs = false; !isOurs; next = triples.next()) {
      const { value } = await next
      isOurs = value?.headers['documentId'] === execution.documentId()
      if (isOurs) times.push(value!.timestamp - begun)
    }
    await execution.until(({ state }) => state === 'done')
    // Documents that follow each other at once are a load, whose requests keep a pace.
    await delay(idleMs)
  }
  over.abort()
  await next
  return median(times)
}

/** Each run in a process of its own. Requests are counted on Kafka. */
export async function trickle({ site, llm }: Pick<Machines, 'site' | 'llm'>): Promise<Row[]> {
  return [...(await instantRun(site, llm)), ...(await slowRun(site, llm)), ...(await streamedRun(site, llm))]
}

type Site = Machines['site']

async function instantRun(site: Site, llm: LlmProcess): Promise<Row[]> {
  const chunks = 1000
  const execution = await openExecution(site, { space: 'at-once', llmUrl: llm.url })
  const graphmill = await startCounted(execution)
  const passes: Pass[] = []
  // Each is a document of its own: the same text would be the same document.
  for (let round = 0; round <= rounds; round++) passes.push(await pass(execution, graphmill, chunks + round))
  const first = await firstTriples(execution, 15)
  await execution.close()
  const seen = passes.slice(1)
  return [
    {
      name: 'trickle: CPU with a model of 0 ms',
      value: median(seen.map(({ cpu }) => cpu)),
      unit: 's/1,000 chunks',
      bound: '<= 9',
    },
    requestsRow('trickle: requests to Kafka with a model of 0 ms', seen),
    {
      name: 'trickle: first triple of an idle flow',
      value: first,
      unit: 'ms',
      note: 'from load, model of 0 ms',
    },
  ]
}

function requestsRow(name: string, passes: readonly Pass[]): Row {
  const value = median(passes.map(({ requests }) => requests.each))
  const { note } = passes.find(({ requests }) => requests.each === value)!.requests
  return { name, value, unit: 'a chunk', note }
}

interface SlowPass extends Pass {
  /** Shares of the ideal rate. */
  readonly onceRunIn: number
  readonly fromFirstCall: number
  readonly fromLoad: number
}

const slow = { chunks: 2000, runIn: 1200 }

async function slowPass(site: Site, llm: LlmProcess, round: number): Promise<SlowPass> {
  const calls = slow.chunks * extractors.length
  const execution = await openExecution(site, { space: `one-by-one-${round}`, llmUrl: llm.url })
  const graphmill = await startCounted(execution)
  const calledBefore = (await llm.counts()).completed
  const begun = performance.now() / 1000
  const passed = pass(execution, graphmill, slow.chunks)
  const firstCall = await firstCallOf(llm, calledBefore)
  // The last calls are fewer than 64 at once.
  const nearEnd = calls - 200
  const from = await timeOf(llm, calledBefore + slow.runIn)
  const to = await timeOf(llm, calledBefore + nearEnd)
  const end = await timeOf(llm, calledBefore + calls)
  const seen = await passed
  await execution.close()
  return {
    ...seen,
    onceRunIn: (nearEnd - slow.runIn) / (to - from) / idealCallsPerSecond,
    fromFirstCall: calls / (end - firstCall) / idealCallsPerSecond,
    fromLoad: calls / (end - begun) / idealCallsPerSecond,
  }
}

async function slowRun(site: Site, llm: LlmProcess): Promise<Row[]> {
  await llm.set({ latencyMs: 500 })
  const passes: SlowPass[] = []
  for (let round = 0; round < rounds; round++) passes.push(await slowPass(site, llm, round))
  await llm.set({ latencyMs: 0 })
  const middle = (of: 'cpu' | 'onceRunIn' | 'fromFirstCall' | 'fromLoad') =>
    median(passes.map((each) => each[of]))
  const { chunks, runIn } = slow
  return [
    {
      name: 'trickle: CPU with a model of 500 ms',
      value: middle('cpu'),
      unit: 's/1,000 chunks',
      bound: '<= 9',
    },
    requestsRow('trickle: requests to Kafka with a model of 500 ms', passes),
    {
      name: 'trickle: calls of 500 ms, share of the ideal once run in',
      value: middle('onceRunIn'),
      unit: '',
      bound: '>= 0.97',
      note: `from call ${runIn}, 64 at once; median of ${rounds}`,
    },
    {
      name: 'trickle: calls of 500 ms, share of the ideal from the first call',
      value: middle('fromFirstCall'),
      unit: '',
      bound: '>= 0.95',
      note: `${chunks} chunks, to the last reply; ${middle('fromLoad').toFixed(3)} from load`,
    },
  ]
}

/** The time in seconds at which the model was called first. */
async function firstCallOf(llm: LlmProcess, before: number): Promise<number> {
  for (;;) {
    const { completed, concurrent } = await llm.counts()
    if (completed + concurrent > before) return performance.now() / 1000
    await delay(10)
  }
}

const streamed = { warmUp: 300, chunks: 400 }

/** 64 replies at once, each with 50 tokens a second. */
async function streamedPass(
  site: Site,
  llm: LlmProcess,
  round: number,
): Promise<Pass & { readonly rate: number }> {
  const execution = await openExecution(site, { space: `streamed-${round}`, llmUrl: llm.url })
  const graphmill = await startCounted(execution)
  await pass(execution, graphmill, streamed.warmUp)
  await llm.set({ tokensPerSecond: 50 })
  const calls = streamed.chunks * extractors.length
  const before = (await llm.counts()).completed
  const passed = pass(execution, graphmill, streamed.chunks)
  // All 64 are in work: neither the first calls, nor the last.
  const from = await timeOf(llm, before + 100)
  const to = await timeOf(llm, before + calls - 100)
  const seen = await passed
  await execution.close()
  await llm.set({ tokensPerSecond: 0 })
  return { ...seen, rate: (calls - 200) / (to - from) }
}

async function streamedRun(site: Site, llm: LlmProcess): Promise<Row[]> {
  const passes: Awaited<ReturnType<typeof streamedPass>>[] = []
  for (let round = 0; round < rounds; round++) passes.push(await streamedPass(site, llm, round))
  const name = 'trickle: 64 replies at once of 50 tokens/s'
  return [
    {
      name: `${name}, CPU`,
      value: median(passes.map(({ cpu }) => cpu)),
      unit: 's/1,000 chunks',
      note: `${median(passes.map(({ rate }) => rate)).toFixed(1)} calls/s; medians of ${rounds}`,
    },
    requestsRow(`${name}, requests to Kafka`, passes),
  ]
}
