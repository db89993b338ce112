// The thread of the watchdog. It counts its own looks instead of the clock's time, so that a machine that sleeps, or a process that
// is stopped, does not count as blocked.
import { writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { workerData } from 'node:worker_threads'

export interface WatchdogData {
  /** How often the main thread has run, and whether a debugger may hold it. */
  readonly beats: Int32Array
  readonly blockedMs: number
}

const { beats, blockedMs } = workerData as WatchdogData
const lookMs = Math.min(1000, blockedMs / 4)
const idle = new Int32Array(new SharedArrayBuffer(4))

let last = -1
let looks = 0
while (looks * lookMs < blockedMs) {
  Atomics.wait(idle, 0, 0, lookMs)
  const beat = Atomics.load(beats, 0)
  looks = beat === last && Atomics.load(beats, 1) === 0 ? looks + 1 : 0
  last = beat
}
const line = {
  level: 60,
  time: new Date().toISOString(),
  blockedMs,
  msg: 'the main thread is blocked: the process ends',
}
writeSync(2, `${JSON.stringify(line)}\n`)
process.kill(process.pid, 'SIGABRT')
Atomics.wait(idle, 0, 0, 1000) // on a busy machine the signal takes a moment
// The first process of a container ignores signals from itself that it has no handler for: then V8 ends it, with exit code 139.
setFlagsFromString('--allow-natives-syntax')
new Function('%Abort("blocked")')()
