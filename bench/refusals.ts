// Bench of refusals: in simulated time, what those by chance cost the rate limiter, and how many a limit causes; and in real time, what it
// costs a flow on Kafka when its model server refuses every twentieth call.
import { openExecution } from '../test/faults/execution.ts'
import { atOnce, atRandom, inWindow, type Limit } from '../test/support/hard-limit.ts'
import { secondsOf } from '../test/support/seconds-of-calls.ts'
import { extractors, type Machines, timeOf, withExtractors, withMachines } from './kafka.ts'
import { program } from './program.ts'
import { median, type Row, rounds } from './row.ts'

const [calls, mostCalls, callMs, slots] = [2000, 6000, 500, 64]
const free = atOnce(100_000)

export async function refusalsBench(): Promise<Row[]> {
  const without = await secondsOf(free, calls)
  const ideal = (calls / slots) * (callMs / 1000)
  const rows: Row[] = [
    {
      name: 'limiter: 2,000 calls from the first, share of the ideal',
      value: ideal / without,
      unit: '',
      bound: '>= 0.95',
    },
  ]
  for (const [percent, bound] of [
    [1, '<= 1.05'],
    [5, '<= 1.2'],
    [20, '<= 1.6'],
  ] as const) {
    const times = []
    for (let round = 0; round < rounds; round++)
      times.push(await secondsOf(atRandom(percent / 100, free), calls + round))
    const row = {
      name: `limiter: time with ${percent}% refused by chance`,
      value: median(times) / without,
      unit: '× without',
    }
    rows.push({ ...row, bound })
  }
  for (const [name, limit] of [
    ['600 calls a minute', inWindow(600)],
    ['600 calls a minute, without Retry-After', inWindow(600, { hint: 'none' })],
    ['4 calls at once', atOnce(4)],
    ['50 calls at once', atOnce(50)],
  ] as const) {
    const title = `limiter: refused by a limit of ${name}`
    rows.push({ name: title, value: await refusedShare(limit), unit: '', bound: '<= 0.05' })
  }
  return [...rows, ...(await withMachines(ofServer))]
}

/** A real server over HTTP, whose refusals say `Retry-After: 1`; the same process without refusals, with them, and without. */
async function ofServer({ site, llm }: Machines): Promise<Row[]> {
  const chunks = 1000
  await llm.set({ latencyMs: callMs })
  const execution = await openExecution(site, { space: 'refusals', llmUrl: llm.url })
  try {
    await execution.startProcess(['--all'], withExtractors, program)
    const seconds = async (number: number, every = Number.MAX_SAFE_INTEGER) => {
      await llm.set({ refuse: { kind: 'rate-limit', every } })
      const { completed } = await llm.counts()
      const begun = performance.now() / 1000
      await execution.load(chunks, number)
      const time = (await timeOf(llm, completed + chunks * extractors.length)) - begun
      await execution.until(({ state }) => state === 'done')
      return time
    }
    await seconds(0)
    const [before, refused, after] = [await seconds(1), await seconds(2, 20), await seconds(3)]
    const row = {
      name: 'limiter: time with every 20th call refused, real server',
      value: (2 * refused) / (before + after),
      unit: '× without',
      bound: '<= 1.2',
      note: `${chunks} chunks, ${callMs} ms a call, Retry-After: 1`,
    }
    return [row]
  } finally {
    await execution.close()
  }
}

async function refusedShare(limit: Limit): Promise<number> {
  let refused = 0
  await secondsOf(limit, mostCalls, () => refused++)
  return refused / (mostCalls + refused)
}
