import { expect, test } from 'vitest'
import { createItemsParser } from '../../src/items/parser.ts'
import { compileSchema } from '../../src/items/validate.ts'
import { feed, itemSchema } from './replies.ts'

const strict = (text: string, schema?: ReturnType<typeof compileSchema>) =>
  feed(createItemsParser(schema, { strict: true }), [text]).events.map((event) =>
    event.type === 'item' ? event.value : `${event.reason} ${event.line}`,
  )

test.each([
  ['values of any kind, without a schema', '1\n"x"\nnull\n[]\n{}', [1, 'x', null, [], {}]],
  ['an unterminated last line', '1\n2', [1, 2]],
  ['no line that another newline ends', '{}\r{}', ['invalid_json 1']],
  ['U+2028 as content', '{"a":"x\u2028y"}\n', [{ a: 'x\u2028y' }]],
  ['no two values on a line', '{} {}\n', ['invalid_json 1']],
  ['no value on two lines', '{"a":\n1}\n', ['invalid_json 1', 'invalid_json 2']],
  [
    'lines without white space, as Python strips it',
    '\u001e{}\u0085\n\u001c\u001f\n{}\r\n\u3000{}',
    [{}, {}, {}],
  ],
  ['no byte order mark', '\ufeff{}', ['invalid_json 1']],
  ['nothing in lines that begin with three backticks', '``` {}\n  ```json\n{}\n```', [{}]],
  ['a fence at the end of a line as an error', '{}```', ['invalid_json 1']],
  ['numbers that are finite', '{"a":1e999}\n1e999', ['not_finite 1', 'not_finite 2']],
  ['words for numbers that are not finite', '{"a":NaN}\n{"a":"NaN",}', ['not_finite 1', 'invalid_json 2']],
  ['64 levels', `${'['.repeat(65)}${']'.repeat(65)}\n[[]]`, ['too_deep 1', [[]]]],
  ['no repairs', '{\'a\':1}\n{"a":True}\n{"a":1},', ['invalid_json 1', 'invalid_json 2', 'invalid_json 3']],
])('takes %s', (_, text, expected) => {
  expect(strict(text)).toStrictEqual(expected)
})

test('with a schema takes only values that pass unchanged', () => {
  const schema = compileSchema({ ...itemSchema, properties: { d: { type: 'string' } } })
  expect(strict('1\n{"e":1,"d":"x"}\n{"e":1,"d":2}\n{"items":[{"e":1,"d":"x"}]}', schema)).toStrictEqual([
    'schema 1',
    { e: 1, d: 'x' },
    'schema 3',
    'schema 4',
  ])
})

test('never rounds an integer silently', () => {
  const { events } = feed(createItemsParser(undefined, { strict: true }), ['{"a":9007199254740993}'])
  expect(events).toStrictEqual([
    { type: 'item', value: { a: '9007199254740993' }, repairs: ['big_integer'], line: 1 },
  ])
})
