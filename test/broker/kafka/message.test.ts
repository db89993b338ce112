import { expect, test } from 'vitest'
import { readMessage } from '../../../src/broker/kafka/message.ts'

test('a header counts with its last value, whatever its name', () => {
  const headers = {
    ['__proto__']: Buffer.from('a'),
    toString: [Buffer.from('b'), Buffer.from('c')],
    none: undefined,
  }
  const message = { key: null, value: null, timestamp: '5', attributes: 0, offset: '7', headers }
  expect(Object.entries(readMessage('t', 0, message).headers)).toEqual([
    ['__proto__', 'a'],
    ['toString', 'c'],
    ['none', ''],
  ])
})
