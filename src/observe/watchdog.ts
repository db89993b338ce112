// Ends a process whose main thread is blocked: such a process does no work, answers no request and handles no signal. A thread of
// its own watches a counter that the main thread increments, and ends the process by SIGABRT (exit code 134), as V8 does when it
// runs out of memory. It exchanges no messages with the main thread, which could not answer them.
import { url as debuggerUrl } from 'node:inspector'
import { Worker } from 'node:worker_threads'
import { siblingModule } from '../workers/sibling-module.ts'
import type { WatchdogData } from './watchdog-worker.ts'

export interface WatchdogOptions {
  /** How long the main thread may be blocked, in milliseconds. */
  readonly blockedMs: number
}

const beatMs = 500

/** Watches the calling thread, which must be the main one, until `stop`. While a debugger may be attached the process is not ended. */
export function startWatchdog({ blockedMs }: WatchdogOptions): { stop(): Promise<number> } {
  const beats = new Int32Array(new SharedArrayBuffer(8))
  const workerData: WatchdogData = { beats, blockedMs }
  const worker = new Worker(siblingModule('watchdog-worker', import.meta.url), {
    workerData,
    execArgv: ['--disable-warning=ExperimentalWarning'],
  })
  worker.unref()
  const beat = () => {
    Atomics.add(beats, 0, 1)
    Atomics.store(beats, 1, debuggerUrl() === undefined ? 0 : 1)
  }
  const timer = setInterval(beat, beatMs).unref()
  return {
    stop() {
      clearInterval(timer)
      return worker.terminate()
    },
  }
}
