import { expect, it } from 'vitest'
import type { Message } from '../../src/messages/envelope.ts'
import type { Spent } from '../../src/messages/generated.ts'
import { createTokenUsage } from '../../src/progress/token-usage.ts'

const progress = (documentId: string, unit: string, spent: readonly Partial<Spent>[]) =>
  ({
    documentId,
    payload: {
      unit,
      usage: {
        spent: spent.map((each) => ({
          model: 'm',
          reason: 'first',
          calls: 1,
          promptTokens: 10,
          completionTokens: 5,
          ...each,
        })),
      },
    },
  }) as unknown as Message<'Progress'>

it('adds tokens up by document, unit, model and reason', () => {
  const spending = createTokenUsage()
  spending.add(progress('a', 'u', [{}, { reason: 'continuation', calls: 2 }]))
  spending.add(progress('a', 'u', [{}, { model: 'n' }]))
  spending.add(progress('b', 'u', [{ completionTokens: null }]))
  spending.add({ documentId: 'a', payload: { unit: 'u', usage: null } } as unknown as Message<'Progress'>)
  const first = { unit: 'u', model: 'm', reason: 'first' }
  expect(spending.rows()).toEqual([
    { documentId: 'a', ...first, calls: 2, promptTokens: 20, completionTokens: 10, unreported: 0 },
    {
      documentId: 'a',
      ...first,
      reason: 'continuation',
      calls: 2,
      promptTokens: 10,
      completionTokens: 5,
      unreported: 0,
    },
    { documentId: 'a', ...first, model: 'n', calls: 1, promptTokens: 10, completionTokens: 5, unreported: 0 },
    { documentId: 'b', ...first, calls: 1, promptTokens: 10, completionTokens: 0, unreported: 1 },
  ])
})
