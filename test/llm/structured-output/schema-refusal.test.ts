import { expect, it } from 'vitest'
import { Refusals, type Way } from '../../../src/llm/structured-output/schema-refusal.ts'

const ways: readonly Way<undefined>[] = (['server', 'loose', 'prompt'] as const).map((aid) => ({
  aid,
  mode: undefined,
}))
const ofOne = { isGeneral: false, isIgnored: false }
const schema = (title: number) => ({ title: String(title), type: 'object' })

it('remembers the latest thousand schemas that a server refused, and says each refusal once', () => {
  const refusals = new Refusals({ model: 'm', destination: 'http://gpu-box/v1' })
  for (let title = 0; title < 1001; title++) {
    expect(refusals.learn(ofOne, 'loose', schema(title))).toBe(
      'm at http://gpu-box/v1 does not take the schema. It is sent without `strict`.',
    )
    expect(refusals.learn(ofOne, 'loose', schema(title))).toBeUndefined()
  }
  const firstWay = (title: number) => refusals.left(ways, schema(title))[0]?.aid
  expect([0, 1, 1000].map(firstWay)).toEqual(['server', 'loose', 'loose'])
})

it('remembers for all schemas that a server ignores them', () => {
  const refusals = new Refusals({ model: 'm', destination: 'http://gpu-box/v1' })
  expect(refusals.learn({ isGeneral: true, isIgnored: true }, 'prompt', schema(1))).toMatch(
    /does not keep to/,
  )
  expect(refusals.left(ways, schema(2)).map(({ aid }) => aid)).toEqual(['prompt'])
})
