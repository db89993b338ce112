import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createRandom } from '../../src/evaluation/bootstrap.ts'
import { type DamagedReply, damageNames, damages } from '../../src/evaluation/damage.ts'
import { damageOf } from '../../src/evaluation/replay.ts'
import { parseReply } from '../../src/items/parse.ts'

const name = fc.string({
  unit: fc.constantFrom(...'abc XYZ éß水車“”’\'"(),:;.!?-&/0123'),
  minLength: 1,
  maxLength: 20,
})
const item = fc.record({ entity: name, definition: name, power: fc.oneof(fc.integer(), fc.boolean()) })

async function* once(text: string) {
  yield text
}

describe('a damaged reply', () => {
  test.each(damageNames)('has all of its items for the items engine: %s', async (damage) => {
    const given = fc.tuple(fc.array(item, { minLength: 1, maxLength: 5 }), fc.nat())
    await fc.assert(
      fc.asyncProperty(given, async ([items, seed]) => {
        const lines = items.map((each) => JSON.stringify(each))
        const { text, finishReason }: DamagedReply = damages[damage](lines, createRandom(seed))
        const parsed = await parseReply(once(text), {
          responseType: 'jsonl',
          schema: undefined,
          strict: false,
        })
        const found = 'items' in parsed ? parsed.items : []
        // The item in which a reply was cut off is asked for again.
        const isWhole = (_: unknown, n: number) => lines.slice(0, n + 1).join('\n').length <= text.length
        expect(found, text).toEqual(finishReason === 'length' ? items.filter(isWhole) : items)
      }),
      { numRuns: 60, seed: 14 },
    )
  })

  test('is damaged in the same way every time, and every way occurs', () => {
    const chosen = Array.from({ length: 200 }, (_, n) => damageOf({ id: `d${n}` }))
    expect(chosen).toEqual(Array.from({ length: 200 }, (_, n) => damageOf({ id: `d${n}` })))
    expect(new Set(chosen)).toEqual(new Set(damageNames))
  })
})
