// A function of a module, called in a child process with a limit of memory and of time: whatever hostile bytes do to a parser ends
// with that process. The child ends with this process, however this one ends, and has none of its environment.
import { fork } from 'node:child_process'
import { deserialize } from 'node:v8'
import { optionTable } from '../config/options.ts'
import { type ErrorCode, GraphmillError } from '../errors.ts'
import { siblingModule } from '../workers/sibling-module.ts'

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

/** What a child is asked: to call `run(task, at)` of a module. `at` names what it has come to, for errors. */
export interface Call {
  /** URL. */
  readonly module: string
  readonly task: unknown
  readonly limits: SubprocessLimits
}

/** What a child answers. `at` is no answer yet. */
export type Report =
  | { readonly kind: 'at'; readonly place: string }
  | { readonly kind: 'value'; readonly bytes: Uint8Array }
  | {
      readonly kind: 'error'
      readonly code: ErrorCode
      readonly message: string
      readonly details: Readonly<Record<string, unknown>>
    }
  | { readonly kind: 'exceeded'; readonly limit: 'memory' | 'time' | 'answer' }

export type Outcome<T> =
  | { readonly kind: 'value'; readonly value: T }
  /** What the function threw, by its code; anything else is `unexpected`. */
  | { readonly kind: 'error'; readonly error: GraphmillError }
  /** A limit; `message` is a sentence that names it and its setting. */
  | { readonly kind: 'exceeded'; readonly message: string; readonly at: string | undefined }

/** Bytes of the longest input that is worth the attempt: reading it takes several times as much. */
export const maxInputBytes = ({ memoryMb }: SubprocessLimits) => (memoryMb / 4) * 1024 * 1024

/** The share of the memory limit that an answer may take: this process holds it too. */
export const answerShare = 1 / 8

/** Resolves to the outcome of `run(task)` of a module. Throws the reason of the signal; the child is ended first. */
export async function runInSubprocess<T>(
  module: URL,
  task: unknown,
  { limits, signal }: { readonly limits: SubprocessLimits; readonly signal?: AbortSignal | undefined },
): Promise<Outcome<T>> {
  signal?.throwIfAborted()
  const child = fork(siblingModule('child', import.meta.url), {
    serialization: 'advanced',
    execArgv: [],
    // Keys and tokens are not for what reads foreign files; Windows starts nothing without this one.
    env: process.env.SystemRoot === undefined ? {} : { SystemRoot: process.env.SystemRoot },
    // What the libraries print is not for our output.
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    // Ctrl-C in a terminal is for this process, which ends the child.
    detached: true,
    windowsHide: true,
  })
  const { promise, resolve, reject } = Promise.withResolvers<Outcome<T>>()
  let at: string | undefined
  const exceeded = (message: string) => resolve({ kind: 'exceeded', message, at })
  const failed = (message: string) =>
    resolve({ kind: 'error', error: new GraphmillError('unexpected', message) })

  child.on('message', (report: Report) => {
    switch (report.kind) {
      case 'at':
        at = report.place
        return
      case 'value':
        return resolve({ kind: 'value', value: deserialize(report.bytes) as T })
      case 'error':
        return resolve({ kind: 'error', error: new GraphmillError(report.code, report.message, report) })
      case 'exceeded':
        return exceeded(sentenceOf(report.limit, limits))
      default:
        return report satisfies never
    }
  })
  child.on('error', (cause) => failed(`the process that reads it could not be started: ${cause.message}.`))
  child.on('exit', (code, ended) => {
    // V8 without memory aborts; a system without memory kills.
    if (ended === 'SIGABRT' || ended === 'SIGKILL') exceeded(sentenceOf('memory', limits))
    else failed(`the process that reads it ended early (${ended ?? code}).`)
  })
  const stop = () => reject(signal?.reason)
  signal?.addEventListener('abort', stop)
  try {
    child.send({ module: module.href, task, limits } satisfies Call, (error) => {
      if (error) failed(`the process that reads it could not be asked: ${error.message}.`)
    })
    return await promise
  } finally {
    signal?.removeEventListener('abort', stop)
    child.kill('SIGKILL')
  }
}

function sentenceOf(
  limit: Extract<Report, { kind: 'exceeded' }>['limit'],
  { memoryMb, seconds }: SubprocessLimits,
): string {
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
