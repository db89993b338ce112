// The resident memory of `graphmill run` on a real Kafka, as it is installed: idle, and over 1,000 chunks with a model that answers at
// once, with provenance. Every round starts the processes again; NODE_OPTIONS reaches them.
import { setTimeout as delay } from 'node:timers/promises'
import { openExecution } from '../test/faults/execution.ts'
import { type Machines, withMachines } from './kafka.ts'
import { cpuOf, memoryOf, shareOf } from './process-usage.ts'
import { program } from './program.ts'
import { median, type Row, rounds } from './row.ts'

const chunks = 1000
/** From "running" until memory is read: what the start left is collected by then. */
const idleMs = 5000

const lookMs = 500

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

/** How a flow may be divided: all in one process, or five, of which the third is one extractor alone. */
const one = [['--all']]
const five = [
  ['chunk-text'],
  ['prompt', 'text-completion'],
  ['extract-definitions'],
  ['extract-relationships', 'extract-topics'],
  ['emit-triples', 'store-triples', 'ledger'],
]

/** MiB of each process, and CPU seconds of all of them together. */
interface Round {
  readonly idle: readonly number[]
  readonly loaded: readonly number[]
  /** Of all processes, each page counted once: at the moment when it was most. */
  readonly together: number
  readonly cpu: number
}

export const memoryBench = () =>
  withMachines(async (machines) => {
    const seen = { one: [] as Round[], five: [] as Round[] }
    for (let round = 0; round < rounds; round++) {
      seen.one.push(await measure(machines, `one${round}`, one))
      seen.five.push(await measure(machines, `five${round}`, five))
    }
    return [...rowsOf(seen.one, seen.five)]
  })

async function measure({ site, llm }: Machines, space: string, parts: readonly string[][]): Promise<Round> {
  const execution = await openExecution(site, { space, llmUrl: llm.url })
  let looking: NodeJS.Timeout | undefined
  try {
    const processes = await Promise.all(
      parts.map((names) => execution.startProcess(names, ['--http', '127.0.0.1:0'], program)),
    )
    const pids = processes.map(({ pid }) => pid)
    const used = () => sum(pids.map(cpuOf))
    await delay(idleMs)
    const idle = pids.map((pid) => memoryOf(pid, 'VmRSS'))
    const before = used()
    let together = 0
    const look = () => {
      together = Math.max(together, sum(pids.map(shareOf)))
    }
    looking = setInterval(look, lookMs)
    await execution.load(chunks)
    await execution.until(({ state }) => state === 'done')
    await execution.settled()
    return { idle, loaded: pids.map((pid) => memoryOf(pid, 'VmHWM')), together, cpu: used() - before }
  } finally {
    clearInterval(looking)
    await execution.close()
  }
}

function* rowsOf(one: readonly Round[], five: readonly Round[]): Generator<Row> {
  const note = `median of ${rounds}`
  const row = (name: string, values: readonly number[], bound?: string): Row => ({
    name: `memory: ${name}`,
    value: median(values),
    unit: 'MiB',
    note,
    ...(bound && { bound }),
  })
  yield row(
    'an extractor, idle',
    five.map(({ idle }) => idle[2]!),
    '<= 80',
  )
  yield row(
    'an extractor, the most in 1,000 chunks',
    five.map(({ loaded }) => loaded[2]!),
    '<= 110',
  )
  yield row(
    'run --all, idle',
    one.map(({ idle }) => idle[0]!),
    '<= 120',
  )
  yield row(
    'run --all, the most in 1,000 chunks',
    one.map(({ loaded }) => loaded[0]!),
    '<= 200',
  )
  yield row(
    'five processes, idle',
    five.map(({ idle }) => sum(idle)),
  )
  yield row(
    'five processes, the most in 1,000 chunks',
    five.map(({ loaded }) => sum(loaded)),
    '<= 500',
  )
  yield row(
    'five processes, the most at a time, shared pages once',
    five.map(({ together }) => together),
  )
  const unit = 's/1,000 chunks'
  yield { name: 'memory: CPU of run --all', value: median(one.map(({ cpu }) => cpu)), unit, note }
  yield { name: 'memory: CPU of five processes', value: median(five.map(({ cpu }) => cpu)), unit, note }
}
