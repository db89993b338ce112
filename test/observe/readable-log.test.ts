import { expect, test } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { createLogger } from '../../src/observe/log.ts'
import { readableLine } from '../../src/observe/readable-log.ts'

const linesOf = (write: (log: ReturnType<typeof createLogger>) => void) => {
  const lines: string[] = []
  write(createLogger('debug', { write: (line) => void lines.push(readableLine(line)) }))
  return lines.map((line) => line.replace(/^\d\d:\d\d:\d\d/, '12:00:00'))
}

test('is the time, the level, the phrase and the fields', () => {
  const fields = {
    processors: ['prompt', 'ledger'],
    http: 'http://127.0.0.1:8000',
    n: 3,
    flow: 'a b',
    o: { x: 1 },
  }
  expect(linesOf((log) => log.info(fields, 'running'))).toEqual([
    '12:00:00 info  running processors=prompt,ledger http=http://127.0.0.1:8000 n=3 flow="a b" o={"x":1}\n',
  ])
})

test('says what failed, with its code and what to do', () => {
  const err = new GraphmillError('llm_unavailable', 'no answer')
  const [line] = linesOf((log) => log.warn({ err }, 'waiting for the model'))
  expect(line).toMatch(/^12:00:00 warn {2}waiting for the model: no answer \[llm_unavailable\] [A-Z]\w+/)
  const [defect] = linesOf((log) => log.error({ err: new TypeError('x is not a function') }, 'failed'))
  expect(defect).toMatch(
    /^12:00:00 error failed: x is not a function\nTypeError: x is not a function\n {4}at /,
  )
})

test('has no characters that control a terminal, and keeps what is no entry', () => {
  expect(linesOf((log) => log.info({ title: 'a\u001b[31m\n' }, 'x'))[0]).toBe(
    '12:00:00 info  x title="a\\u001b[31m\\n"\n',
  )
  expect(linesOf((log) => log.info('\u001b[31mred\nline'))[0]).toBe('12:00:00 info   [31mred line\n')
  for (const other of ['', 'not JSON', '[1]', '7']) expect(readableLine(other)).toBe(other)
})
