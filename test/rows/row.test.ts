import { describe, expect, test } from 'vitest'
import { readTable } from '../../src/rows/definition.ts'
import { pythonText, readRow } from '../../src/rows/row.ts'
import { type RowSchema, rowSchema } from '../../src/rows/row-schema.ts'

function schemaOf(...fields: object[]): RowSchema {
  const table = readTable(
    'mill',
    { fields },
    { at: [], report: (path, message) => expect.fail(`${path}: ${message}`) },
  )
  return rowSchema(table!)
}

const one = (field: object, value: unknown) => {
  const read = readRow({ id: 'a', value }, schemaOf({ name: 'id' }, { name: 'value', ...field }))
  return 'refused' in read ? read.refused : (JSON.parse(read.row.typed) as { value: unknown }).value
}

describe('a value', () => {
  test.each([
    [{ type: 'integer' }, 1786, 1786],
    [{ type: 'int' }, '1786', 1786],
    [{ type: 'long' }, '9007199254740993', '9007199254740993'],
    [{ type: 'long' }, '12345678901234567890', '12345678901234567890'],
    [{ type: 'long', size: 8 }, '-9007199254740993', '-9007199254740993'],
    [{ type: 'integer', size: 2 }, 32767, 32767],
    [{ type: 'float' }, 1.5, 1.5],
    [{ type: 'double' }, '2.5e3', 2500],
    [{ type: 'number' }, 3, 3],
    [{ type: 'boolean' }, 'True', true],
    [{ type: 'bool' }, false, false],
    [{ type: 'bool' }, 1, true],
    [{ type: 'boolean', required: true }, 0, false],
    [{ type: 'boolean' }, '1', true],
    [{ type: 'integer' }, 1, 1],
    [{ type: 'string' }, '[the Mill]', '[the Mill]'],
    [{ type: 'string' }, '[1786, 1791]', '[1786, 1791]'],
    [{ type: 'string' }, '{the Mill}', '{the Mill}'],
    [{ type: 'string' }, 5, '5'],
    [{ type: 'STRING', size: 3 }, '𝒳é文', '𝒳é文'],
    [{ type: 'timestamp' }, '1786-03-01T10:00:00Z', '1786-03-01T10:00:00Z'],
    [{ type: 'timestamp' }, '1786-03-01 10:00:00', '1786-03-01 10:00:00'],
    [{ type: 'timestamp' }, '1786-03-01', '1786-03-01'],
    [{ type: 'date' }, '2024-02-29', '2024-02-29'],
    [{ type: 'time' }, '10:00:00', '10:00:00'],
    [{ type: 'uuid' }, '0198c0de-0000-7000-8000-000000000001', '0198c0de-0000-7000-8000-000000000001'],
    [{ type: 'integer', enum: ['1', '2'] }, '2', 2],
    [{ type: 'string', enum: ['water', 'wind'] }, 'wind', 'wind'],
    [{ type: 'string', enum: ['water'] }, null, null],
    [{ type: 'integer' }, null, null],
    [{ type: 'timestamp' }, null, null],
  ])('of %j may be %j', (field, value, typed) => {
    expect(one(field, value)).toEqual(typed)
  })

  test.each([
    [{ type: 'integer' }, 'many'],
    [{ type: 'integer' }, 1.5],
    [{ type: 'integer' }, true],
    [{ type: 'integer' }, ''],
    [{ type: 'integer', size: 2 }, 32768],
    [{ type: 'integer', size: 4 }, '9007199254740993'],
    [{ type: 'float' }, 'NaN'],
    [{ type: 'boolean' }, 'perhaps'],
    [{ type: 'boolean' }, 2],
    [{ type: 'boolean' }, -0.5],
    [{ type: 'string' }, { nested: 1 }],
    [{ type: 'string' }, '{"nested": 1}'],
    [{ type: 'string' }, " [{'nested': 1}] "],
    [{ type: 'string' }, '{"a":'.repeat(80) + 1 + '}'.repeat(80)],
    [{ type: 'string' }, ['a']],
    [{ type: 'string', size: 3 }, 'four'],
    [{ type: 'string', enum: ['water'] }, 'watery'],
    [{ type: 'string', enum: ['water', 'WATER'] }, 'Water'],
    [{ type: 'integer', enum: [1] }, 2],
    [{ type: 'timestamp' }, 'yesterday'],
    [{ type: 'timestamp' }, 1786],
    [{ type: 'date' }, '2023-02-29'],
    [{ type: 'time' }, '25:00:00'],
    [{ type: 'uuid' }, 'abc'],
    [{ type: 'string', required: true }, null],
    [{ type: 'string', required: true, enum: ['a'] }, null],
    [{ type: 'string', primary_key: true }, ''],
    [{ type: 'string', primary_key: true }, '  '],
    [{ type: 'string', primary_key: true }, null],
  ])('of %j may not be %j', (field, value) => {
    expect(one(field, value)).toBe('schema')
  })
})

test('an object in the form of a text is refused, even in a field that the table does not name', () => {
  const nested = JSON.stringify({ value: 'Albion' })
  expect(readRow({ value: 'Albion', mill: nested }, schemaOf({ name: 'value' }))).toEqual({
    refused: 'schema',
    message: '/mill: is an object written as a text',
  })
})

describe('a row', () => {
  const runtimes = schemaOf(
    { name: 'name', type: 'string', primary_key: true },
    { name: 'opened', type: 'integer', required: true },
    { name: 'height', type: 'double' },
    { name: 'working', type: 'boolean' },
  )

  test('has its values as TrustGraph writes them, and with their types', () => {
    const item = { name: 'Albion Mills', opened: 1786, height: null, working: false }
    const row = { ...item, parts: ['é', 1], note: { a: 0.5 } }
    expect(readRow(row, runtimes)).toEqual({
      row: {
        values: {
          name: 'Albion Mills',
          opened: '1786',
          height: '',
          working: 'False',
          parts: '["\\u00e9", 1]',
          note: '{"a": 0.5}',
        },
        typed: JSON.stringify(row),
      },
    })
  })

  test.each([
    [{ opened: 1786 }, "must have required property 'name'"],
    [{ name: 'Albion Mills' }, "must have required property 'opened'"],
    [{ name: 'Albion Mills', opened: 'soon' }, '/opened: must be integer'],
  ])('%j is refused with what is wrong', (item, message) => {
    expect(readRow(item, runtimes)).toEqual({ refused: 'schema', message })
  })

  test.each([[{}], [{ mill: '{"name": "nested"}' }], [{ name: null, opened: null }], [{ name: '' }]])(
    '%j is none, for it has no value for the table',
    (item) => expect(readRow(item, runtimes)).toMatchObject({ refused: 'empty' }),
  )

  test('with an endless text is refused', () => {
    expect(readRow({ name: 'x'.repeat(100_001), opened: 1 }, runtimes)).toMatchObject({ refused: 'too_long' })
  })

  test('may have columns named like the properties that objects have', () => {
    const schema = schemaOf({ name: 'constructor' }, { name: 'type', required: true })
    expect(readRow({ type: 'water' }, schema)).toMatchObject({ row: { values: { type: 'water' } } })
    expect(readRow({ constructor: 'Rennie' }, schema)).toMatchObject({ refused: 'schema' })
  })
})

test.each([
  [null, ''],
  [true, 'True'],
  [false, 'False'],
  [0, '0'],
  [-0, '0'],
  [1786, '1786'],
  [0.1, '0.1'],
  [1e-4, '0.0001'],
  [1e-5, '1e-05'],
  [1.5e-7, '1.5e-07'],
  [1e16, '1e+16'],
  [1.25e21, '1.25e+21'],
  [123456789012345.6, '123456789012345.6'],
  ['text', 'text'],
  [[], '[]'],
  [{ a: [true, null, 'ü😀"'] }, '{"a": [true, null, "\\u00fc\\ud83d\\ude00\\""]}'],
])('%j as text equals Python’s', (value, text) => {
  expect(pythonText(value)).toBe(text)
})
