// Bench of the rate limiter in simulated time: what refusals by chance cost, and how many refusals a limit causes.
import { atOnce, atRandom, inWindow, type Limit } from '../test/support/hard-limit.ts'
import { secondsOf } from '../test/support/seconds-of-calls.ts'
import { median, type Row } from './row.ts'

const [calls, mostCalls, callMs, slots] = [2000, 6000, 500, 64]
const rounds = 5
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
  return rows
}

async function refusedShare(limit: Limit): Promise<number> {
  let refused = 0
  await secondsOf(limit, mostCalls, () => refused++)
  return refused / (mostCalls + refused)
}
