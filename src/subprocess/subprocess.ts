// Calls a function of a module in a child process with a limit of memory and time: whatever hostile bytes do to a parser ends with that
// process. A worker thread would not do, since it cannot limit the memory outside of its heap. The child ends with this process, however
// this one ends, and has none of its environment.
import { type ChildProcess, fork } from 'node:child_process'
import { deserialize } from 'node:v8'
import { optionTable } from '../config/options.ts'
import { type ErrorCode, GraphmillError } from '../errors.ts'
import { unlessAborted } from '../wait.ts'
import { siblingModule } from '../workers/sibling-module.ts'

/** What a child process may take, such as the one that reads a PDF or HTML file. */
export interface SubprocessLimits {
  /** Resident memory of the whole child, in MiB (`--document-memory`). */
  readonly memoryMb: number
  /** Time from the child's start to its answer, in seconds (`--document-timeout`). */
  readonly seconds: number
}

export const defaultLimits: SubprocessLimits = {
  memoryMb: optionTable['document-memory'].default,
  seconds: optionTable['document-timeout'].default,
}

/** The request to a child: it calls `run(task, at)` of a module, which reports its progress through `at`, for errors. */
export interface SubprocessCall {
  /** URL. */
  readonly module: string
  readonly task: unknown
  readonly limits: SubprocessLimits
}

/** What a child reports: `at` is progress, every other kind is the answer. */
export type SubprocessReport =
  | { readonly kind: 'at'; readonly place: string }
  | { readonly kind: 'value'; readonly bytes: Uint8Array }
  | {
      readonly kind: 'error'
      readonly code: ErrorCode
      readonly message: string
      readonly details: Readonly<Record<string, unknown>>
    }
  | { readonly kind: 'exceeded'; readonly limit: ExceededLimit }

type ExceededLimit = 'memory' | 'time' | 'answer'

export type SubprocessOutcome<T> =
  | { readonly kind: 'value'; readonly value: T }
  /** The error that the function threw, by its code; a foreign error is `unexpected`. */
  | { readonly kind: 'error'; readonly error: GraphmillError }
  /** A limit was exceeded; `message` is a sentence that names the limit and its option. */
  | { readonly kind: 'exceeded'; readonly message: string; readonly at: string | undefined }

/** Bytes of the longest input that is worth an attempt: reading takes several times as much memory. */
export const maxInputBytes = ({ memoryMb }: SubprocessLimits) => (memoryMb / 4) * 1024 * 1024

/** The share of the memory limit that an answer may take, since this process holds it, too. */
export const answerShare = 1 / 8

/** Resolves to the outcome of `run(task)` of a module. Throws the reason of the signal. The child is always ended first. */
export async function runInSubprocess<T>(
  module: URL,
  task: unknown,
  { limits, signal }: { readonly limits: SubprocessLimits; readonly signal?: AbortSignal | undefined },
): Promise<SubprocessOutcome<T>> {
  signal?.throwIfAborted()
  const child = startChild()
  try {
    const outcome = outcomeOf<T>(child, { module: module.href, task, limits })
    return await (signal ? unlessAborted(outcome, signal) : outcome)
  } finally {
    child.kill('SIGKILL')
  }
}

function startChild(): ChildProcess {
  return fork(siblingModule('child', import.meta.url), {
    serialization: 'advanced',
    execArgv: [],
    // Code that reads foreign files must not see keys and tokens. Windows starts no process without this variable.
    env: process.env.SystemRoot === undefined ? {} : { SystemRoot: process.env.SystemRoot },
    // The output of libraries must not mix with ours.
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    // Ctrl-C in a terminal is for this process, which ends the child.
    detached: true,
    windowsHide: true,
  })
}

function outcomeOf<T>(child: ChildProcess, call: SubprocessCall): Promise<SubprocessOutcome<T>> {
  const { promise, resolve } = Promise.withResolvers<SubprocessOutcome<T>>()
  let at: string | undefined
  const exceeded = (limit: ExceededLimit) =>
    resolve({ kind: 'exceeded', message: sentenceOf(limit, call.limits), at })
  const failed = (message: string) =>
    resolve({ kind: 'error', error: new GraphmillError('unexpected', message) })

  child.on('message', (report: SubprocessReport) => {
    switch (report.kind) {
      case 'at':
        at = report.place
        return
      case 'value':
        return resolve({ kind: 'value', value: deserialize(report.bytes) as T })
      case 'error':
        return resolve({ kind: 'error', error: new GraphmillError(report.code, report.message, report) })
      case 'exceeded':
        return exceeded(report.limit)
      default:
        return report satisfies never
    }
  })
  child.on('error', (cause) => failed(`the process that reads it could not be started: ${cause.message}.`))
  child.on('exit', (code, ended) => {
    // Without memory V8 aborts, and the system kills.
    if (ended === 'SIGABRT' || ended === 'SIGKILL') exceeded('memory')
    else failed(`the process that reads it ended early (${ended ?? code}).`)
  })
  child.send(call, (error) => {
    if (error) failed(`the process that reads it could not be asked: ${error.message}.`)
  })
  return promise
}

function sentenceOf(limit: ExceededLimit, { memoryMb, seconds }: SubprocessLimits): string {
  switch (limit) {
    case 'memory':
      return `reading it takes more than ${memoryMb} MiB of memory (--document-memory).`
    case 'time':
      return `reading it takes longer than ${seconds} s (--document-timeout).`
    case 'answer':
      return `what it unpacks to takes more than ${memoryMb * answerShare} MiB, an eighth of --document-memory.`
    default:
      return limit satisfies never
  }
}
