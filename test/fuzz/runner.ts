// Runs a fuzz target in a process of its own, so that an input that hangs or ends the process is found and named like any
// other failure, and the run goes on behind it.
import { fork } from 'node:child_process'
import { closeSync, openSync, readSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ChildMessage, ChildOptions, Cost, Limits } from './child.ts'

export interface RunOptions {
  readonly name: string
  /** URL of the module that exports the target. */
  readonly module: string
  readonly seed: number
  /** First iteration. Default 0. */
  readonly first?: number
  readonly iterations: number
  /** After this time no further input is begun, but for the least. */
  readonly seconds: number
  /** Inputs that are taken whatever the time, unless one has failed. Default 0. */
  readonly least?: number
  /** An input that takes longer, on the clock, is a hang: its process is ended. Default 30 s. */
  readonly hangMs?: number
  readonly limits?: Partial<Limits>
}

export interface Failure {
  readonly iteration: number
  /** What went wrong; failures that differ only in their numbers are counted together. */
  readonly message: string
  readonly count: number
}

export interface RunReport {
  readonly name: string
  readonly seed: number
  readonly iterations: number
  readonly seconds: number
  readonly slowest: Cost
  readonly largest: Cost
  /** Inputs over the limits that are only reported: 100 ms or 50 MiB. */
  readonly costly: readonly Cost[]
  readonly failures: readonly Failure[]
}

const defaultLimits: Limits = {
  reportMs: 100,
  failMs: 1000,
  reportBytes: 50 * 2 ** 20,
  failBytes: 500 * 2 ** 20,
}
/** The heap of the child, in MiB: what needs more ends it. */
const heapMb = 1024
const pollMs = 100
const defaultHangMs = 30_000
/** A busy machine takes long to start a process. */
const startMs = 60_000

/** Never rejects for what a target does. */
export async function runTarget(options: RunOptions): Promise<RunReport> {
  const { name, module, seed, first = 0, seconds, least = 0 } = options
  const started = Date.now()
  const until = started + seconds * 1000
  const end = first + options.iterations
  const limits = { ...defaultLimits, ...options.limits }
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-fuzz-'))
  const progressFile = join(folder, 'iteration')
  const none: Cost = { iteration: -1, ms: 0, bytes: 0 }
  const report = { name, seed, iterations: 0, slowest: none, largest: none, costly: [] as Cost[] }
  const failures = new Map<string, Failure>()
  try {
    for (let next = first; next < end; ) {
      const untimed = failures.size === 0 ? first + least : next
      if (next >= untimed && Date.now() >= until) break
      next = await runChild({ module, seed, first: next, end, untimed, until, progressFile, limits })
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return { ...report, seconds: (Date.now() - started) / 1000, failures: [...failures.values()] }

  /** Gives the iteration to go on with. */
  async function runChild(child: ChildOptions): Promise<number> {
    const notBegun = child.first - 1
    const mark = Buffer.alloc(8)
    mark.writeDoubleLE(notBegun)
    writeFileSync(progressFile, mark)
    const file = openSync(progressFile, 'r')
    const running = fork(new URL('./child.ts', import.meta.url), [JSON.stringify(child)], {
      execArgv: ['--disable-warning=ExperimentalWarning', `--max-old-space-size=${heapMb}`],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let counted = 0
    let stderr = ''
    running.stderr!.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-4000)
    })
    running.on('message', (message: ChildMessage) => {
      if (message.kind === 'failure') noteFailure(message.iteration, message.message)
      else if (message.kind === 'costly') report.costly.push(message.cost)
      else {
        report.iterations += message.iterations - counted
        counted = message.iterations
        if (message.slowest.ms > report.slowest.ms) report.slowest = message.slowest
        if (message.largest.bytes > report.largest.bytes) report.largest = message.largest
      }
    })
    let hangs = false
    let seen = { iteration: notBegun, since: Date.now() }
    const watch = setInterval(() => {
      const iteration = readMark(file)
      if (iteration !== seen.iteration) seen = { iteration, since: Date.now() }
      else if (
        Date.now() - seen.since >
        (iteration === notBegun ? startMs : (options.hangMs ?? defaultHangMs))
      )
        hangs = running.kill('SIGKILL')
    }, pollMs)
    const killOnExit = () => void running.kill('SIGKILL')
    process.once('exit', killOnExit)
    const [code, signal] = await new Promise<[number | null, string | null]>((done) =>
      running.once('close', (...ended) => done(ended)),
    )
    process.off('exit', killOnExit)
    clearInterval(watch)
    const last = readMark(file)
    closeSync(file)
    if (code === 0) return end
    report.iterations += last + 1 - child.first - counted
    const ending = hangs ? 'hangs' : `ended the process (${code ?? signal})\n${stderr}`
    if (last === notBegun) {
      noteFailure(child.first, `before the first input: ${ending}`)
      return end
    }
    noteFailure(last, ending)
    return last + 1
  }

  function noteFailure(iteration: number, message: string): void {
    const kind = message.split('\n')[0]!.replace(/\d+/g, '#')
    const before = failures.get(kind)
    failures.set(kind, before ? { ...before, count: before.count + 1 } : { iteration, message, count: 1 })
  }
}

function readMark(file: number): number {
  const mark = Buffer.alloc(8)
  readSync(file, mark, 0, 8, 0)
  return mark.readDoubleLE()
}
