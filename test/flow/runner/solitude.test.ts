import { expect, test } from 'vitest'
import { createSolitude } from '../../../src/flow/runner/solitude.ts'

test('one that is alone waits for those at work, and those behind it for it', async () => {
  const solitude = createSolitude()
  const said: string[] = []
  const enter = (name: string, alone: boolean) =>
    Promise.resolve(solitude.enter(alone)).then(() => void said.push(name))
  await enter('one', false)
  await enter('two', false)
  const alone = enter('alone', true)
  const behind = [enter('three', false), enter('four', false)]
  solitude.leave()
  await Promise.resolve()
  expect(said).toEqual(['one', 'two'])
  solitude.leave()
  await alone
  expect(said).toEqual(['one', 'two', 'alone'])
  solitude.leave()
  await Promise.all(behind)
  expect(said).toEqual(['one', 'two', 'alone', 'three', 'four'])
})

test('no handler waits when none runs alone', () => {
  const solitude = createSolitude()
  expect([solitude.enter(false), solitude.enter(false)]).toEqual([undefined, undefined])
})
