import { afterEach, expect, test, vi } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { defineProcessor } from '../../../src/flow/processor.ts'
import { createCircuits } from '../../../src/flow/runner/circuits.ts'
import type { Llm } from '../../../src/llm/llm.ts'
import { noLlm, startFlow } from '../../support/flow.ts'

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
  const { circuits } = flow.runtime
  open(circuits)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 60_000 })
  await circuits.enter('topic:x', AbortSignal.timeout(20_000))
  await flow.stop()
  expect.hasAssertions()
})

test('one at a time probes what is unavailable, and the others go on when it is back', async () => {
  let now = 0
  const circuits = createCircuits({ now: () => now, random: () => 1 })
  const signal = AbortSignal.timeout(20_000)
  open(circuits)
  expect(circuits.reason('topic:x')).toBe(away)
  now = 1001
  await circuits.enter('topic:x', signal)
  let entered = false
  const other = circuits.enter('topic:x', signal)!.then(() => {
    entered = true
  })
  await new Promise((resolve) => setTimeout(resolve, 150))
  expect(entered).toBe(false)
  circuits.succeeded('topic:x')
  await other
  expect(circuits.open()).toEqual([])
})

test('a caller that leaves does not wait for what is unavailable', async () => {
  const circuits = createCircuits({ now: () => 0, random: () => 1 })
  const signal = AbortSignal.timeout(20_000)
  const leaving = new AbortController()
  await circuits.enter('topic:x', signal, AbortSignal.abort())
  open(circuits)
  const waiting = circuits.enter('topic:x', signal, leaving.signal)
  leaving.abort()
  await expect(waiting).rejects.toBe(away)
  await expect(circuits.enter('topic:x', signal, leaving.signal)).rejects.toBe(away)
})

test('a flow that drains while its model is unavailable hands back at once what waits for it', async () => {
  const asked: string[] = []
  const llm: Llm = {
    ...noLlm,
    // biome-ignore lint/correctness/useYield: it fails
    async *stream() {
      asked.push('call')
      throw new GraphmillError('llm_unavailable', 'away')
    },
  }
  const asking = defineProcessor({
    name: 'asking',
    inputs: ['chunk'],
    outputs: [],
    // biome-ignore lint/correctness/useYield: it gives out nothing
    async *handle(_, context) {
      for await (const _event of context.llm.stream({ messages: [] }, context.signal));
    },
  })
  const flow = await startFlow([asking], { llm })
  for (let n = 0; n < 20; n++) await flow.send('chunk', { text: `${n}` })
  await expect.poll(() => flow.runtime.circuits.open()).toEqual([llm.circuit])
  const begun = performance.now()
  await flow.runtime.stop(60_000)
  expect(performance.now() - begun).toBeLessThan(20_000)
  expect((await flow.broker.lag('gm.asking.chunk.default.default', flow.topic('chunk'))).total).toBe(20)
  await flow.stop()
})
