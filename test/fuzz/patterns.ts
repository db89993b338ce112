// Patterns of schemas over texts that models write: refused with a code when the schema is compiled, or matched soon.
import assert from 'node:assert/strict'
import { GraphmillError } from '../../src/errors.ts'
import { compileSchema, type ItemSchema } from '../../src/items/validate.ts'
import { below, chance, many, pick, type Rng, size, text } from './random.ts'
import type { FuzzTarget } from './target.ts'

export const patterns: FuzzTarget = {
  name: 'patterns',
  once(rng) {
    const pattern = patternOf(rng, 3)
    let schema: ItemSchema
    try {
      schema = compileSchema({ properties: { d: { pattern } }, patternProperties: { [pattern]: true } })
    } catch (thrown) {
      assert.ok(thrown instanceof GraphmillError && thrown.code === 'schema_invalid', thrown as Error)
      return
    }
    const piece = chance(rng, 0.7)
      ? pick(rng, ['a', 'ab', 'aab', 'é', ' ', '0'])
      : text(rng, 1 + size(rng, 20))
    const subject = piece.repeat(size(rng, 700_000 / piece.length)) + pick(rng, ['', '!', 'b'])
    schema.check({ d: subject, [subject.slice(0, 100)]: 1 })
  },
}

const atoms = ['a', 'b', 'ab', '.', '\\d', '\\w', '\\s', '\\p{L}', '[^<]', '[a-f]', '(?i)', '\\b', '']
const counts = ['', '', '*', '+', '?', '{2}', '{0,1000}', '{100}', '{1,30}', '*?', '{2,}']

function patternOf(rng: Rng, depth: number): string {
  const parts = many(1 + below(rng, 4), () => {
    if (depth === 0 || chance(rng, 0.5)) return pick(rng, atoms) + pick(rng, counts)
    const inner = patternOf(rng, depth - 1)
    const group = pick(rng, [`(${inner})`, `(?:${inner}|${patternOf(rng, depth - 1)})`, inner])
    return group + pick(rng, counts)
  }).join('')
  const repeated = chance(rng, 0.1) ? parts.repeat(1 + size(rng, 20)) : parts
  return pick(rng, ['', '^']) + repeated + pick(rng, ['', '$'])
}
