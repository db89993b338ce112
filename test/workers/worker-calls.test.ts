import { spawnSync } from 'node:child_process'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { siblingModule } from '../../src/workers/sibling-module.ts'
import { type CallableWorker, startWorker } from '../../src/workers/worker-calls.ts'
import type { EchoTask } from './echo-worker.ts'

const notices: unknown[] = []
let worker: CallableWorker

function start(): CallableWorker {
  worker = startWorker(siblingModule('echo-worker', import.meta.url), {
    subject: 'The echo',
    onNotice: (notice) => notices.push(notice),
  })
  return worker
}

const ask = (task: EchoTask, signal?: AbortSignal) => worker.call(task, signal)

afterEach(() => worker.close())

describe('a call to a thread', () => {
  it('is answered with the value of its own task', async () => {
    start()
    const values = [1, 'two', new Map([[3, 4]]), undefined]
    expect(await Promise.all(values.map((value) => ask({ act: 'echo', value })))).toEqual(values)
  })

  it('fails with what the thread threw, its causes included', async () => {
    start()
    const error = await ask({ act: 'throw' }).catch((thrown: GraphmillError) => thrown)
    expect(error).toBeInstanceOf(GraphmillError)
    expect(error).toMatchObject({
      code: 'llm_rate_limited',
      message: 'too fast',
      retryAfterMs: 5,
      circuit: 'llm:x',
      details: { category: 'x' },
      cause: { message: 'refused', code: 'ECONNREFUSED' },
    })
  })

  it('fails without the details that cannot be sent', async () => {
    start()
    await expect(ask({ act: 'throw-function' })).rejects.toMatchObject({ message: 'too fast', details: {} })
  })

  it('is aborted in the thread when nobody waits for it any more', async () => {
    start()
    const stopping = new AbortController()
    const waiting = ask({ act: 'wait' }, stopping.signal)
    stopping.abort(new Error('not wanted'))
    await expect(waiting).rejects.toThrow('not wanted')
    await vi.waitFor(() => expect(notices).toContain('aborted'))
    await ask({ act: 'notify' })
    expect(notices).toContain('noticed')
  })

  it('fails when the thread is closed or breaks down, and so do all later ones', async () => {
    start()
    const closed = expect(ask({ act: 'wait' })).rejects.toMatchObject({ code: 'aborted' })
    await worker.close()
    await closed
    await expect(ask({ act: 'echo', value: 1 })).rejects.toBe(worker.ended)

    start()
    const broken = { code: 'unexpected', message: 'The echo broke down: it ended with 3.' }
    const waiting = expect(ask({ act: 'wait' })).rejects.toMatchObject(broken)
    await expect(ask({ act: 'exit' })).rejects.toMatchObject(broken)
    await waiting
    await expect(ask({ act: 'echo', value: 1 })).rejects.toBe(worker.ended)
  })

  it('keeps the process alive until it is answered, and no longer', () => {
    start()
    const program = `
      import { startWorker } from './src/workers/worker-calls.ts'
      const file = new URL('${siblingModule('echo-worker', import.meta.url)}')
      const worker = startWorker(file, { subject: 'The echo', execArgv: [] })
      console.log(await worker.call({ act: 'echo', value: 'alive' }))`
    const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program]
    const child = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 20_000 })
    expect({ out: child.stdout, status: child.status }).toEqual({ out: 'alive\n', status: 0 })
  })
})
