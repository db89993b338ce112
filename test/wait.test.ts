import { expect, test } from 'vitest'
import { pause, unlessAborted, wait } from '../src/wait.ts'

test('a wait throws the reason of its signal', async () => {
  const stopping = new AbortController()
  const waiting = wait(60_000, stopping.signal)
  stopping.abort(new Error('stopped'))
  await expect(waiting).rejects.toThrow('stopped')
  await wait(0)
})

test('a pause ends with its signal', async () => {
  const stopping = new AbortController()
  const pausing = pause(60_000, stopping.signal)
  stopping.abort()
  await pausing
})

test('a promise is waited for until the signal aborts', async () => {
  const stopping = new AbortController()
  expect(await unlessAborted(Promise.resolve(1), stopping.signal)).toBe(1)
  const waiting = unlessAborted(new Promise(() => {}), stopping.signal)
  stopping.abort(new Error('stopped'))
  await expect(waiting).rejects.toThrow('stopped')
})
