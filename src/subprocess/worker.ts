// The thread of a child process in which the work is done. It loads only what its task needs.
import { serialize } from 'node:v8'
import { parentPort, workerData } from 'node:worker_threads'
import { toGraphmillError } from '../errors.ts'
import { answerShare, type Call, type Report } from './subprocess.ts'

/** What every module that is called exports. */
interface Callable {
  run(task: unknown, at: (place: string) => void): Promise<unknown>
}

const { module, task, limits } = workerData as Call
const say = (report: Report) => parentPort?.postMessage(report)

try {
  const { run } = (await import(module)) as Callable
  const bytes = serialize(await run(task, (place) => say({ kind: 'at', place })))
  const isTooLong = bytes.length > limits.memoryMb * answerShare * 1024 * 1024
  say(isTooLong ? { kind: 'exceeded', limit: 'answer' } : { kind: 'value', bytes })
} catch (thrown) {
  const { code, message, details } = toGraphmillError(thrown)
  say({ kind: 'error', code, message, details })
}
