// The thread of a child process that does the work. It loads only what its task needs.
import { serialize } from 'node:v8'
import { parentPort, workerData } from 'node:worker_threads'
import { toGraphmillError } from '../errors.ts'
import { answerShare, type SubprocessCall, type SubprocessReport } from './subprocess.ts'

/** The export of a module that can be called. */
interface Callable {
  run(task: unknown, at: (place: string) => void): Promise<unknown>
}

const { module, task, limits } = workerData as SubprocessCall
const say = (report: SubprocessReport) => parentPort?.postMessage(report)

try {
  const { run } = (await import(module)) as Callable
  const bytes = serialize(await run(task, (place) => say({ kind: 'at', place })))
  const isTooLong = bytes.length > limits.memoryMb * answerShare * 1024 * 1024
  say(isTooLong ? { kind: 'exceeded', limit: 'answer' } : { kind: 'value', bytes })
} catch (thrown) {
  const { code, message, details } = toGraphmillError(thrown)
  say({ kind: 'error', code, message, details })
}
