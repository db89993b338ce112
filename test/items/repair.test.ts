import { describe, expect, test } from 'vitest'
import { readRecord } from '../../src/items/record.ts'
import { repairText } from '../../src/items/repair.ts'

const read = (text: string) => {
  const repaired = repairText(text, 64)
  return repaired && { value: JSON.parse(repaired.json), repairs: repaired.repairs }
}

describe('a repair', () => {
  test.each([
    ['keys', '{object-entity: true, имя: 1, $x_1.y: 2}', { 'object-entity': true, имя: 1, '$x_1.y': 2 }],
    ['quotes', `{'a': 'say "x"', 'b': 'it\\'s', 'c': ''}`, { a: 'say "x"', b: "it's", c: '' }],
    ['quotes', '{“a”: “b”, ‘c’: ‘d’}', { a: 'b', c: 'd' }],
    ['inner_quotes', '{"a":"the "big" one"}', { a: 'the "big" one' }],
    ['inner_quotes', '{"a":"6" nails","b":["a "b" c"]}', { a: '6" nails', b: ['a "b" c'] }],
    ['trailing_comma', '{"a":[1,2,],"b":{"c":1,},}', { a: [1, 2], b: { c: 1 } }],
    [
      'missing_comma',
      '{"a":"x" "b":1 "c":[1 2 {"d":1} {"e":2}]}',
      { a: 'x', b: 1, c: [1, 2, { d: 1 }, { e: 2 }] },
    ],
    ['missing_comma', '{"a":"x"\n"b":"y"\n}', { a: 'x', b: 'y' }],
    [
      'literals',
      '{"a":True,"b":FALSE,"c":None,"d":nil,"e":undefined}',
      { a: true, b: false, c: null, d: null, e: null },
    ],
    ['literals', '{"a":+1,"b":.5,"c":-5.,"d":+.5e3}', { a: 1, b: 0.5, c: -5, d: 500 }],
    ['escape', '{"a":"C:\\path\\x41\\u12\\\'"}', { a: "C:\\path\\x41\\u12\\'" }],
    ['control', '{"a":"x\ty\nz\u0000"}', { a: 'x\ty\nz\u0000' }],
    ['separators', '{"a" => "x", "b"： 1，"c" = 2; "d": 3}', { a: 'x', b: 1, c: 2, d: 3 }],
    ['joined', '{"a":"x" + "y","b":"p"\n"q"}', { a: 'xy', b: 'pq' }],
    [
      'inner_quotes',
      '{"a":"the "b", or "c", of d","e":"6", 8" long"}',
      { a: 'the "b", or "c", of d', e: '6", 8" long' },
    ],
    ['quotes', `{"a":\`x\`,"b":"""y "z", """,«c»:「d」}`, { a: 'x', b: 'y "z", ', c: 'd' }],
    ['comment', '{"a":1, // one\n/* two } */ "b":"x" # three\n}', { a: 1, b: 'x' }],
    ['space', '{\u00a0"a":\u20281}', { a: 1 }],
  ])('%s: %s', (name, text, value) => {
    expect(read(text)).toStrictEqual({ value, repairs: [name] })
  })

  test('names each that was made', () => {
    expect(read(`{a: 'x "y"', "b": "p "q" r",}`)).toStrictEqual({
      value: { a: 'x "y"', b: 'p "q" r' },
      repairs: ['keys', 'quotes', 'inner_quotes', 'trailing_comma'],
    })
  })
})

describe('what stays unreadable', () => {
  test.each([
    ['a cut string', '{"a":"x'],
    ['a cut number', '{"a":12'],
    ['a cut word', '{"a":tru}'],
    ['a missing value', '{"a":}'],
    ['a missing colon before a number', '{"a" 1}'],
    ['a string without quotes', '{"a":hello}'],
    ['a number that may be a name', '{"a":007}'],
    ['a hole in an array', '{"a":[1,,2]}'],
    ['a closer of the wrong kind', '{"a":[1}'],
    ['two strings side by side in an object', '{"a":"b" "c"}'],
    ['a string that may have ended before a comma', '{"a":"x","b"}'],
    ['two strings side by side in an array', '{"a":["x" "y"]}'],
    ['something after the end', '{"a":1} x'],
    ['an endless comment', '{"a":1 /* }'],
  ])('%s', (_, text) => {
    expect(read(text)).toBeUndefined()
  })
})

describe('reading a record', () => {
  test('says what is wrong without quoting the text', () => {
    expect(readRecord('{"a":secret}', { maxDepth: 64 })).toStrictEqual({
      ok: false,
      reason: 'invalid_json',
      message: expect.not.stringContaining('secret'),
    })
  })

  test('finds numbers that are not finite in repaired text', () => {
    expect(readRecord("{'a':NaN}", { maxDepth: 64 })).toMatchObject({ ok: false, reason: 'not_finite' })
    expect(readRecord("{'a':NaN", { maxDepth: 64 })).toMatchObject({ ok: false, reason: 'invalid_json' })
  })

  test('repairs nothing in exact mode, except the digits of large integers', () => {
    expect(readRecord("{'a':1}", { maxDepth: 64, exact: true })).toMatchObject({ ok: false })
    const reading = readRecord('{"__proto__":1,"a":"\\ud83d"}', { maxDepth: 64, exact: true })
    expect(reading).toMatchObject({ ok: true, repairs: [], value: { a: '\ud83d' } })
  })
})
