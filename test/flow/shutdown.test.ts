import { expect, test } from 'vitest'
import { onShutdown } from '../../src/flow/shutdown.ts'

test('the first signal asks for an end, a second one for an end at once', () => {
  let time = 1000
  const shutdown = onShutdown(() => time)
  try {
    process.emit('SIGTERM', 'SIGTERM')
    expect([shutdown.asked.reason, shutdown.now.aborted]).toEqual(['SIGTERM', false])
    time += 1000
    process.emit('SIGTERM', 'SIGTERM')
    expect(shutdown.now.aborted).toBe(true)
  } finally {
    shutdown.dispose()
  }
})

test('a Ctrl-C that comes from the terminal and from npm counts once', () => {
  let time = 1000
  const shutdown = onShutdown(() => time)
  try {
    process.emit('SIGINT', 'SIGINT')
    time += 5
    process.emit('SIGINT', 'SIGINT')
    expect([shutdown.asked.aborted, shutdown.now.aborted]).toEqual([true, false])
  } finally {
    shutdown.dispose()
  }
})

test('a disposed one no longer listens', () => {
  const before = process.listenerCount('SIGINT')
  const shutdown = onShutdown()
  expect(process.listenerCount('SIGINT')).toBe(before + 1)
  shutdown.dispose()
  expect(process.listenerCount('SIGINT')).toBe(before)
})
