// Calls that end without saying whether the model or store is back must not hold up those behind them.
import { expect, test } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { guardLlm, guardStore } from '../../../src/flow/runner/circuit-guards.ts'
import { createCircuits } from '../../../src/flow/runner/circuits.ts'
import { createRateLimiter } from '../../../src/llm/limits/rate-limiter.ts'
import type { Llm } from '../../../src/llm/llm.ts'
import type { TripleStore } from '../../../src/rdf/store.ts'
import { noLlm, scope } from '../../support/flow.ts'

const never = new AbortController().signal
const refused = new GraphmillError('llm_authentication', 'a wrong key')
const minute = 60_000

/** A model behind circuits with a clock of their own; `act` is what each call does. */
function gated(act: (signal: AbortSignal) => Promise<void>) {
  let now = 0
  const circuits = createCircuits({ now: () => now })
  const model: Llm = {
    ...noLlm,
    async *stream(_, signal) {
      await act(signal)
      yield { type: 'delta', kind: 'content', text: 'well' }
    },
  }
  const caller = { ...scope, lane: 'bulk' } as const
  const llm = guardLlm(model, {
    rateLimiter: createRateLimiter(),
    circuits,
    caller,
    drains: never,
    called() {},
  })
  return {
    circuits,
    later: () => {
      now += minute
    },
    async call(signal = never) {
      for await (const event of llm.stream({ messages: [] }, signal)) return event
      return undefined
    },
  }
}

test('a limit of the rate says that the model is back', async () => {
  const faults = [refused, new GraphmillError('llm_rate_limited', 'slowly')]
  const { circuits, later, call } = gated(async () => {
    const fault = faults.shift()
    if (fault) throw fault
  })
  await expect(call()).rejects.toThrow('a wrong key')
  expect(circuits.open()).toEqual([noLlm.circuit])
  later()
  await expect(call()).rejects.toThrow('slowly')
  expect(circuits.open()).toEqual([])
  expect(await call()).toEqual({ type: 'delta', kind: 'content', text: 'well' })
})

test.each([
  ['is dropped', 'aborted'],
  ['fails for its own sake', 'llm_request_invalid'],
] as const)('after a call of a model that %s the next one may try', async (_, code) => {
  const faults = [refused, new GraphmillError(code, 'no verdict')]
  const { later, call } = gated(async () => {
    const fault = faults.shift()
    if (fault) throw fault
  })
  await expect(call()).rejects.toThrow('a wrong key')
  later()
  await expect(call()).rejects.toThrow('no verdict')
  expect(await call()).toEqual({ type: 'delta', kind: 'content', text: 'well' })
})

test('after a write that is dropped the next one may try', async () => {
  let now = 0
  const circuits = createCircuits({ now: () => now })
  const faults = [new GraphmillError('store_failed', 'away'), new GraphmillError('aborted', 'dropped')]
  const store = {
    destination: 'a store',
    async write() {
      const fault = faults.shift()
      if (fault) throw fault
    },
  } as unknown as TripleStore
  const { write } = guardStore(store, circuits, never)
  await expect(write([], scope, never)).rejects.toThrow('away')
  now += minute
  await expect(write([], scope, never)).rejects.toThrow('dropped')
  await write([], scope, never)
  expect(circuits.open()).toEqual([])
})
