import { afterEach, expect, test, vi } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { createCircuits } from '../../src/flow/circuits.ts'
import { startFlow } from '../support/flow.ts'

const away = new GraphmillError('broker_unavailable', 'away')
const open = (circuits: ReturnType<typeof createCircuits>) => {
  for (let failure = 0; failure < 5; failure++) circuits.failed('topic:x', away)
  expect(circuits.open()).toEqual(['topic:x'])
}

afterEach(() => {
  vi.useRealTimers()
})

test('a circuit is open no longer because the clock was set back', async () => {
  const flow = await startFlow([])
  const { circuits } = flow.mill
  open(circuits)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 60_000 })
  await circuits.enter('topic:x', AbortSignal.timeout(20_000))
  await flow.stop()
  expect.hasAssertions()
})

test('one at a time probes what is away, and the others go on when it is back', async () => {
  let now = 0
  const circuits = createCircuits({ now: () => now, random: () => 1 })
  const signal = AbortSignal.timeout(20_000)
  open(circuits)
  expect(circuits.reason('topic:x')).toBe(away)
  now = 1001
  await circuits.enter('topic:x', signal)
  let entered = false
  const other = circuits.enter('topic:x', signal).then(() => {
    entered = true
  })
  await new Promise((resolve) => setTimeout(resolve, 150))
  expect(entered).toBe(false)
  circuits.succeeded('topic:x')
  await other
  expect(circuits.open()).toEqual([])
})
