// The part of the decoder's fuzz that every change runs; a longer one drives the same target.
import { expect, test } from 'vitest'
import { target } from './decoder.ts'
import { seeded } from './target.ts'

const seed = 5

test('20,000 mutated messages: a coded error or a valid message, none over 1 s or 500 MB', {
  timeout: 120_000,
}, async () => {
  const rng = seeded(seed)
  for (let input = 0; input < 20_000; input++) {
    try {
      await target.once(rng)
    } catch (cause) {
      throw new Error(`seed ${seed}, input ${input}: ${(cause as Error).message}`, { cause })
    }
  }
  expect(rng()).toBeLessThan(1)
})
