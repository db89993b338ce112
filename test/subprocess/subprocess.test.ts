import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { runInSubprocess, type SubprocessOutcome } from '../../src/subprocess/subprocess.ts'
import type { Task } from '../support/subprocess-task.ts'

const module = new URL('../support/subprocess-task.ts', import.meta.url)
const limits = { memoryMb: 256, seconds: 120 }

let folder: string
let pidFile: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-subprocess-'))
  pidFile = join(folder, 'pid')
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const outcomeOf = <T>(task: Task, given = limits, signal?: AbortSignal): Promise<SubprocessOutcome<T>> =>
  runInSubprocess<T>(module, task, { limits: given, signal })

const waiting = { timeout: 60_000, interval: 50 }
const pidOf = () =>
  vi.waitFor(async () => {
    const pid = Number(await readFile(pidFile, 'utf8'))
    expect(pid).toBeGreaterThan(0)
    return pid
  }, waiting)
const isGone = (pid: number) => vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'), waiting)

test('answers with a value of any kind that can be cloned', async () => {
  const value = { text: 'Mühle', map: new Map([['a', new Set([1])]]), bytes: new Uint8Array([1, 2]) }
  expect(await outcomeOf({ act: 'echo', value })).toEqual({ kind: 'value', value })
})

test('answers with the error that the function threw', async () => {
  const error = { code: 'document_scanned', message: 'there is no text.', details: { pages: 2 } }
  expect(await outcomeOf({ act: 'throw' })).toMatchObject({ kind: 'error', error })
})

test('the child has no environment variables, which may hold keys', async () => {
  const { value } = (await outcomeOf<string[]>({ act: 'environment' })) as { value: string[] }
  expect(value.filter((name) => !name.startsWith('NODE_CHANNEL'))).toEqual([])
})

test.each(['buffers', 'heap'] as const)('a child that takes too much memory (%s) is ended', async (act) => {
  expect(await outcomeOf({ act })).toEqual({
    kind: 'exceeded',
    message: 'reading it takes more than 256 MiB of memory (--document-memory).',
    at: `the act ${act}`,
  })
})

test('a child that is busy for too long is ended', async () => {
  const outcome = await outcomeOf({ act: 'spin', file: pidFile }, { memoryMb: 256, seconds: 5 })
  expect(outcome).toMatchObject({
    kind: 'exceeded',
    message: 'reading it takes longer than 5 s (--document-timeout).',
  })
  await readFile(pidFile, 'utf8').then((pid) => isGone(Number(pid)))
})

test('an answer that is too long is refused', async () => {
  expect(await outcomeOf({ act: 'long' })).toMatchObject({
    kind: 'exceeded',
    message: 'what it unpacks to takes more than 32 MiB, an eighth of --document-memory.',
  })
})

test('a child that ends without an answer is an error, one that the system kills had no memory left', async () => {
  expect(await outcomeOf({ act: 'exit' })).toMatchObject({ kind: 'error', error: { code: 'unexpected' } })
  expect(await outcomeOf({ act: 'killed' })).toMatchObject({ kind: 'exceeded' })
})

test('a child is ended when nobody waits for it any more', async () => {
  const stop = new AbortController()
  const asked = outcomeOf({ act: 'spin', file: pidFile }, limits, stop.signal)
  const pid = await pidOf()
  stop.abort(new Error('enough'))
  await expect(asked).rejects.toThrow('enough')
  await isGone(pid)
})

test.each(['SIGKILL', 'SIGTERM'] as const)(
  'a child ends with its parent, also by %s, however busy it is',
  async (signal) => {
    const parent = spawn(
      process.execPath,
      [join(import.meta.dirname, '../support/subprocess-parent.ts'), pidFile],
      {
        stdio: 'ignore',
      },
    )
    const pid = await pidOf()
    parent.kill(signal)
    await isGone(pid)
  },
)
