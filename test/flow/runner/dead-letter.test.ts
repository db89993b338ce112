import { expect, test } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { beginningOf, cutHeader, deadLetter, originalHeaders } from '../../../src/flow/runner/dead-letter.ts'

const delivery = (headers: Record<string, string>) =>
  ({
    topic: 't',
    partition: 0,
    position: '7',
    key: 'k',
    value: Buffer.from('v'),
    headers,
    attempt: 1,
  }) as never
const error = new GraphmillError('bytes_undecodable', 'x')
const by = { processor: 'p', time: 0 }

test('a letter has no `dead-*` header that a sender wrote', () => {
  const { headers } = deadLetter(delivery({ [cutHeader]: '5', 'dead-code': 'mine', id: 'i' }), error, by)
  expect(headers[cutHeader]).toBeUndefined()
  expect(headers['dead-code']).toBe('bytes_undecodable')
  expect(originalHeaders(headers)).toEqual({ id: 'i' })
})

test('the beginning of a letter is small, however large a header that is called like ours', () => {
  const letter = deadLetter(delivery({ 'dead-weight': 'x'.repeat(900_000) }), error, by)
  expect(JSON.stringify(beginningOf(letter).headers).length).toBeLessThan(64 * 1024)
})

test('a letter and its beginning keep a header called __proto__', () => {
  const letter = deadLetter(delivery({ ['__proto__']: 'a' }), error, by)
  for (const { headers } of [letter, beginningOf(letter)])
    expect(Object.entries(originalHeaders(headers))).toEqual([['__proto__', 'a']])
})
