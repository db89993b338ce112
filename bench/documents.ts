// Documents that change, through the whole flow on a real Kafka, as it is installed: removing one of 1,000 chunks from stores, and what
// each process takes for 10,000 documents, their removal by collection included. The store's own time is that of its answers to the
// updates that withdraw.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { chunkText } from '../processors/chunk-text.ts'
import { uuids as ids, systemClock } from '../src/flow/clock.ts'
import { loadDocuments } from '../src/flow/load-documents.ts'
import { inputGroup } from '../src/flow/ports.ts'
import type { AnyProcessor } from '../src/flow/processor.ts'
import { publishRemoval } from '../src/flow/removal.ts'
import { createCircuits } from '../src/flow/runner/circuits.ts'
import { createCodec } from '../src/messages/codec.ts'
import { loadSchemas } from '../src/messages/registry.ts'
import { type Execution, inputLines, openExecution } from '../test/faults/execution.ts'
import { startFuseki } from '../test/support/fuseki-server.ts'
import { bookOf } from '../test/support/graph.ts'
import { installOxigraph, startOxigraph } from '../test/support/oxigraph-server.ts'
import { graphmill } from '../test/support/processes.ts'
import { type Machines, withMachines } from './kafka.ts'
import { cpuOf, memoryOf, peakOf } from './process-usage.ts'
import { program } from './program.ts'
import type { Row } from './row.ts'

const scope = { workspace: 'default', flow: 'default' }
const [chunks, documents] = [1000, Number(process.env['BENCH_DOCUMENTS'] ?? 10_000)]
const never = new AbortController().signal

export const documentsBench = () =>
  withMachines(async (machines) => [
    ...(await cutting(machines)),
    ...(await many(machines)),
    ...(await removals(machines)),
  ])

/** What messages about documents need. */
const targetOf = ({ broker, space }: Execution) => ({
  ...{ broker, space, scope, ids, clock: systemClock, source: 'bench', collection: 'default' },
  ...{ codec: createCodec(loadSchemas()), circuits: createCircuits() },
})

const textOf = (id: string, text: string) => ({
  ...{ id, title: id, name: id, uri: '', mediaType: 'text/plain', holds: text.length },
  async *text() {
    yield text
  },
})

/** Seconds until no group of the flow has anything left to read, of the processors that run. */
async function settle({ broker, space, topic }: Execution, running?: readonly string[]): Promise<number> {
  const begun = performance.now()
  const all = [
    ...inputLines(),
    { port: 'progress' as const, processor: 'ledger' },
    { port: 'retractions' as const, processor: 'store-triples' },
  ]
  const lines = all.filter(({ processor }) => running?.includes(processor) ?? true)
  let last = performance.now()
  for (let quiet = 0; quiet < 3; ) {
    const lags = await Promise.all(
      lines.map(({ port, processor }) =>
        broker.lag(inputGroup(port, { space, ...scope }, processor), topic(port, processor)),
      ),
    )
    const isQuiet = lags.every(({ total }) => total === 0)
    if (!isQuiet) last = performance.now()
    quiet = isQuiet ? quiet + 1 : 0
    await delay(100)
  }
  return (last - begun) / 1000
}

/** Passes requests on to a store, and counts the time of its answers. */
async function startTimer(target: string) {
  let seconds = 0
  const server = createServer(async (asked, answer) => {
    const body = await buffer(asked)
    const begun = performance.now()
    const headers = { 'content-type': asked.headers['content-type']!, connection: 'close' }
    const told = await fetch(target, { method: 'POST', headers, body })
    const said = await told.text()
    seconds += (performance.now() - begun) / 1000
    answer.writeHead(told.status).end(said)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    taken: () => seconds,
    stop: () => server.close(),
  }
}

/** chunk-text alone, over short documents and over a long one: as it is, two at a time, and without an order by key. */
async function cutting({ site, llm }: Machines): Promise<Row[]> {
  const count = 2000
  const long = bookOf(20_000)
  const ways: readonly (readonly [string, Partial<AnyProcessor>])[] = [
    ['', {}],
    [', two at a time', { maxInFlight: 2 }],
    [', without an order', { ordering: 'none' }],
  ]
  const rows: Row[] = []
  for (const round of [0, 1])
    for (const [name, more] of ways) {
      const execution = await openExecution(site, { space: `cut${rows.length}`, llmUrl: llm.url })
      const target = targetOf(execution)
      const newest = () => undefined
      const instead = [{ ...chunkText, ...more } as AnyProcessor]
      await execution.startRuntime({ only: ['chunk-text'] }).then((made) => made.stop())
      const texts = Array.from({ length: count }, (_, number) => textOf(`urn:${number}`, bookOf(1, number)))
      await loadDocuments(iterate(texts), { ...target, newest, onOutcome() {} }, never)
      const measure = async (what: string, documents: number) => {
        const begun = performance.now()
        const runtime = await execution.startRuntime({ only: ['chunk-text'], instead })
        const group = inputGroup('document', { space: execution.space, ...scope }, 'chunk-text')
        while ((await execution.broker.lag(group, execution.topic('document'))).total > 0) await delay(20)
        const value = (performance.now() - begun) / 1000
        await runtime.stop()
        const note = `${documents} documents, round ${round + 1}`
        rows.push({ name: `documents: ${what} cut${name}`, value, unit: 's', note })
      }
      await measure('short ones', count)
      await loadDocuments(iterate([textOf('long', long)]), { ...target, newest, onOutcome() {} }, never)
      await measure('a long one', 1)
      await execution.close()
    }
  return rows
}

interface Site {
  readonly update: string
  stop(): Promise<unknown>
}

async function removals({ site, llm }: Machines): Promise<Row[]> {
  const stores: (readonly [string, (() => Promise<Site>) | undefined])[] = [
    ['a folder', undefined],
    [
      'Fuseki',
      () => startFuseki({ heap: 1024 }).then((server) => ({ ...server, update: `${server.dataset}/update` })),
    ],
  ]
  if (installOxigraph() === undefined) stores.push(['Oxigraph', startOxigraph])
  const rows: Row[] = []
  for (const [name, open] of stores) {
    const store = await open?.()
    const timer = store && (await startTimer(store.update))
    const execution = await openExecution(site, { space: `removal${rows.length}`, llmUrl: llm.url })
    const place = timer ? ['--store', timer.url] : []
    await execution.startProcess(['--all'], ['--provenance', 'subgraph', ...place], program)
    const target = targetOf(execution)
    const newest = () => undefined
    const found = [textOf('book', bookOf(chunks, 1))].values()
    await loadDocuments(iterate(found), { ...target, newest, onOutcome() {} }, never)
    await settle(execution)
    const [calls, own] = [(await llm.counts()).calls, timer?.taken() ?? 0]
    await publishRemoval({ documentId: 'book', reason: 'removed', newestTime: Date.now() }, target, never)
    const seconds = await settle(execution)
    const storeSeconds = (timer?.taken() ?? 0) - own
    const asked = (await llm.counts()).calls - calls
    const note = `${chunks} chunks of three extractors with provenance; ${asked} model calls`
    rows.push({ name: `documents: removed from ${name}, whole`, value: seconds, unit: 's', note })
    if (timer)
      rows.push({ name: `documents: of this the answers of ${name}`, value: storeSeconds, unit: 's' })
    await execution.close()
    timer?.stop()
    await store?.stop()
  }
  return rows
}

async function* iterate<T>(values: Iterable<T>): AsyncGenerator<T> {
  yield* values
}

const parts = [
  ['chunk-text'],
  ['prompt'],
  ['extract-definitions'],
  ['emit-triples', 'store-triples'],
  ['ledger'],
]

/** Short documents, which are loaded, edited and removed. */
async function many({ site, llm }: Machines): Promise<Row[]> {
  const execution = await openExecution(site, { space: 'many', llmUrl: llm.url })
  const flags = ['--extractors', 'definitions', '--provenance', 'none']
  const processes = await Promise.all(
    parts.map(async (names) => ({ names, process: await execution.startProcess(names, flags, program) })),
  )
  const rows: Row[] = []
  const cpu = () => processes.map(({ process: { pid } }) => cpuOf(pid))
  const measure = async (name: string, act: () => Promise<void>) => {
    const before = cpu()
    const begun = performance.now()
    await act()
    const acted = (performance.now() - begun) / 1000
    const seconds = acted + (await settle(execution, parts.flat()))
    const used = cpu().map(
      (value, at) => `${processes[at]!.names.at(-1)} ${(value - before[at]!).toFixed(1)}`,
    )
    const note = `${acted.toFixed(1)} s to publish; CPU seconds: ${used.join(', ')}`
    rows.push({ name: `documents: ${documents} ${name}`, value: seconds, unit: 's', note })
  }
  const target = targetOf(execution)
  let known: number | undefined
  const load = async (text: (number: number) => string) => {
    const time = known
    const newest = () =>
      time === undefined
        ? undefined
        : { state: 'done', collection: 'default', version: 'v', versionTime: time }
    const found = Array.from({ length: documents }, (_, number) =>
      textOf(`urn:${number}`, text(number)),
    ).values()
    await loadDocuments(iterate(found), { ...target, newest, onOutcome() {} }, never)
    known = Date.now()
  }
  const idle = processes.map(({ process: { pid } }) => memoryOf(pid, 'VmRSS'))
  await measure('loaded', () => load((number) => bookOf(1, number)))
  await measure('replaced', () => load((number) => `${bookOf(1, number)} Again.`))
  await measure('removed by their collection', async () => {
    await graphmill('remove', '--collection', 'default', '--broker', site.brokerUrl, '--space', 'many')
  })
  for (const [
    at,
    {
      names,
      process: { pid },
    },
  ] of processes.entries()) {
    const note = `the most that was resident; ${idle[at]!.toFixed(0)} before, ${memoryOf(pid, 'VmRSS').toFixed(0)} after`
    rows.push({
      ...{ name: `documents: memory of ${names.join(', ')}, ${documents} documents`, note },
      ...{ value: peakOf(pid), unit: 'MiB', bound: '<= 110' },
    })
  }
  await execution.close()
  return rows
}
