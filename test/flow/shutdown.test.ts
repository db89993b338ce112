import { expect, test } from 'vitest'
import { onShutdown, type ShutdownOptions } from '../../src/flow/shutdown.ts'
import { stuckCalls, systemCall } from '../../src/system-calls.ts'

/** Hears signals at times that the test sets; `ended` holds those that ended the process. */
function listen(options: ShutdownOptions = {}) {
  let time = 1000
  const ended: string[] = []
  const shutdown = onShutdown({ clock: () => time, end: (signal) => ended.push(signal), ...options })
  const hear = (signal: 'SIGINT' | 'SIGTERM', laterMs: number) => {
    time += laterMs
    process.emit(signal, signal)
  }
  return { shutdown, ended, hear, [Symbol.dispose]: () => shutdown.dispose() }
}

test('the first signal asks for an end, as a coded error, and a second one ends the process', () => {
  using heard = listen()
  heard.hear('SIGTERM', 0)
  expect(heard.shutdown.asked.reason).toMatchObject({ code: 'aborted', message: 'Stopped by SIGTERM.' })
  expect([heard.shutdown.now.aborted, heard.ended]).toEqual([false, []])
  heard.hear('SIGINT', 1000)
  expect([heard.shutdown.now.aborted, heard.ended]).toEqual([true, ['SIGINT']])
})

test('a second signal leaves as much time as is asked for, a third one none', () => {
  using heard = listen({ lastMs: 60_000 })
  heard.hear('SIGTERM', 0)
  heard.hear('SIGTERM', 1000)
  expect([heard.shutdown.now.aborted, heard.ended]).toEqual([true, []])
  heard.hear('SIGTERM', 1000)
  expect(heard.ended).toEqual(['SIGTERM'])
})

test('the time that a second signal leaves is over once', async () => {
  const ended = Promise.withResolvers<string>()
  using heard = listen({ lastMs: 1, end: ended.resolve })
  heard.hear('SIGINT', 0)
  heard.hear('SIGINT', 1000)
  expect(await ended.promise).toBe('SIGINT')
})

test('a process that was asked to end and does not is ended when its time is over, and what is stuck is named', async () => {
  const stuck = Promise.withResolvers<void>()
  const calling = systemCall('write /out/a.nq', stuck.promise)
  const late = Promise.withResolvers<readonly string[]>()
  const ended = Promise.withResolvers<string>()
  using heard = listen({ graceMs: () => 1200, onLate: late.resolve, end: ended.resolve })
  heard.hear('SIGTERM', 0)
  expect(await late.promise).toEqual([expect.stringMatching(/^write \/out\/a\.nq \(for \d+ s\)$/)])
  expect(await ended.promise).toBe('SIGTERM')
  stuck.resolve()
  await calling
  expect(stuckCalls(-1)).toEqual([])
})

test('a process that ends by a fault has a deadline, too', async () => {
  const ended = Promise.withResolvers<string>()
  using heard = listen({ onLate: () => {}, end: ended.resolve })
  heard.shutdown.endWithin(1)
  expect(await ended.promise).toBe('SIGTERM')
})

test('a Ctrl-C that comes from the terminal and from npm counts once', () => {
  using heard = listen()
  heard.hear('SIGINT', 0)
  heard.hear('SIGINT', 5)
  expect([heard.shutdown.asked.aborted, heard.shutdown.now.aborted, heard.ended]).toEqual([true, false, []])
})

test('a disposed one no longer listens', () => {
  const before = process.listenerCount('SIGINT')
  const { shutdown } = listen()
  expect(process.listenerCount('SIGINT')).toBe(before + 1)
  shutdown.dispose()
  expect(process.listenerCount('SIGINT')).toBe(before)
})
