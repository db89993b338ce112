// The process in which one target runs. It writes the iteration into a file before each input, so that the runner knows
// which input hangs or ends the process.
import { openSync, writeSync } from 'node:fs'
import { seededRng } from './random.ts'
import type { FuzzTarget } from './target.ts'

/** What the runner asks for, as JSON in the process's first argument. */
export interface ChildOptions {
  /** URL of the module that exports the target. */
  readonly module: string
  readonly seed: number
  readonly first: number
  readonly end: number
  /** Iterations before this one are taken whatever the time. */
  readonly untimed: number
  /** Milliseconds since 1970 at which no further input is begun. */
  readonly until: number
  /** Eight bytes, little-endian: the iteration in work; one less than the first before it begins. */
  readonly progressFile: string
  readonly limits: Limits
}

export interface Limits {
  readonly reportMs: number
  readonly failMs: number
  readonly reportBytes: number
  readonly failBytes: number
}

/** What one input took. */
export interface Cost {
  readonly iteration: number
  readonly ms: number
  readonly bytes: number
}

export type ChildMessage =
  | { readonly kind: 'failure'; readonly iteration: number; readonly message: string }
  | { readonly kind: 'costly'; readonly cost: Cost }
  | { readonly kind: 'counts'; readonly iterations: number; readonly slowest: Cost; readonly largest: Cost }

const options = JSON.parse(process.argv[2]!) as ChildOptions
const { module, seed, first, end, untimed, until, progressFile, limits } = options
const target = targetOf((await import(module)) as Record<string, unknown>)
const progress = openSync(progressFile, 'r+')
const mark = Buffer.alloc(8)

/** So often an input over the time limit is run again before it counts: a collection of garbage may have been in it. */
const repeats = 2
const countsEveryMs = 500

const none: Cost = { iteration: -1, ms: 0, bytes: 0 }
let [slowest, largest] = [none, none]
let iterations = 0
let lastCounts = Date.now()
for (let iteration = first; iteration < end && (iteration < untimed || Date.now() < until); iteration++) {
  mark.writeDoubleLE(iteration)
  writeSync(progress, mark, 0, 8, 0)
  const cost = await run(iteration)
  iterations++
  if (cost.ms > slowest.ms) slowest = cost
  if (cost.bytes > largest.bytes) largest = cost
  if (Date.now() - lastCounts < countsEveryMs) continue
  lastCounts = Date.now()
  await send({ kind: 'counts', iterations, slowest, largest })
}
await send({ kind: 'counts', iterations, slowest, largest })
process.exit(0)

async function run(iteration: number): Promise<Cost> {
  const peak = process.resourceUsage().maxRSS
  let ms = await timed(iteration)
  // The peak never falls, so this is what the input needed beyond all inputs before it.
  const bytes = (process.resourceUsage().maxRSS - peak) * 1024
  for (let again = 0; again < repeats && ms > limits.failMs; again++)
    ms = Math.min(ms, await timed(iteration))
  const cost = { iteration, ms, bytes }
  if (ms > limits.reportMs || bytes > limits.reportBytes) await send({ kind: 'costly', cost })
  if (ms > limits.failMs) await fail(iteration, `took over ${limits.failMs} ms`)
  if (bytes > limits.failBytes) await fail(iteration, `took over ${limits.failBytes / 2 ** 20} MiB`)
  return cost
}

async function timed(iteration: number): Promise<number> {
  const start = cpuMs()
  try {
    await target.once(seededRng(seed, iteration))
  } catch (thrown) {
    await fail(iteration, thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown))
  }
  return cpuMs() - start
}

/** Time of the processor: a busy machine makes no input slow. What waits for long is a hang, and the runner's to find. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

function fail(iteration: number, message: string): Promise<void> {
  return send({ kind: 'failure', iteration, message })
}

function send(message: ChildMessage): Promise<void> {
  return new Promise((done) => process.send!(message, () => done()))
}

function targetOf(exported: Record<string, unknown>): FuzzTarget {
  const found = Object.values(exported).find((value) => typeof (value as FuzzTarget)?.once === 'function')
  if (found === undefined) throw new Error(`${module} exports no FuzzTarget`)
  return found as FuzzTarget
}
