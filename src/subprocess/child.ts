// The child process. Its main thread only watches, so it is never blocked; the work is done in a thread (`worker.ts`). The child ends when
// the parent does, and reports when the thread takes too long or the process takes too much memory, buffers outside the heap included.
import { writeFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { siblingModule } from '../workers/sibling-module.ts'
import type { SubprocessCall, SubprocessReport } from './subprocess.ts'

/** How often the memory is checked, in milliseconds. In between, the process may exceed the limit. */
const lookEveryMs = 20

/** Stack of the thread, in MiB: the library for HTML goes one call deeper with each tag inside another. */
const stackMb = 64

/** The heap's share of the memory: the rest is for buffers, code and the process itself. */
const heapShare = 3 / 4

// A thread that is busy in a library can be ended only with its process.
const end = () => process.kill(process.pid, 'SIGKILL')

process.on('disconnect', end)
// When the system runs out of memory, it ends this process first, and not the parent. (Only Linux has this file.)
try {
  writeFileSync('/proc/self/oom_score_adj', '1000')
} catch {}
// Signals go to a whole container or service; the parent decides when the work is over.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)

process.once('message', ({ module, task, limits }: SubprocessCall) => {
  const most = limits.memoryMb * 1024 * 1024
  let isOver = false

  function report(said: SubprocessReport): void {
    if (isOver) return
    isOver = said.kind !== 'at'
    if (isOver) clearInterval(look)
    if (isOver) clearTimeout(deadline)
    process.send?.(said)
  }

  const exceeded = (limit: 'memory' | 'time') => report({ kind: 'exceeded', limit })
  const look = setInterval(() => {
    if (process.memoryUsage.rss() > most) exceeded('memory')
  }, lookEveryMs)
  const deadline = setTimeout(() => exceeded('time'), limits.seconds * 1000)

  const worker = new Worker(siblingModule('worker', import.meta.url), {
    workerData: { module, task, limits } satisfies SubprocessCall,
    resourceLimits: { maxOldGenerationSizeMb: limits.memoryMb * heapShare, stackSizeMb: stackMb },
  })
  worker.on('message', report)
  worker.on('error', (cause: Error & { code?: string }) => {
    if (cause.code === 'ERR_WORKER_OUT_OF_MEMORY') exceeded('memory')
    else report({ kind: 'error', code: 'unexpected', message: `${cause.message}.`, details: {} })
  })
  worker.on('exit', () =>
    report({ kind: 'error', code: 'unexpected', message: 'reading it ended early.', details: {} }),
  )
})
