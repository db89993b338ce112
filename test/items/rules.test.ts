// Examples of every rule for jsonl replies that the worked cases do not have: in every split, both ways through records,
// and strict. What is told of a reply: its items (`~` repairs), what was rejected (`!`), lines ignored, whether it was cut.
import { describe, expect, test } from 'vitest'
import type { ItemEvent } from '../../src/items/item.ts'
import { createItemsParser } from '../../src/items/parser.ts'
import { createTolerantParser } from '../../src/items/tolerant.ts'
import { compileSchema, type ItemSchema } from '../../src/items/validate.ts'
import { feed, itemSchema, piecesOf } from './replies.ts'

const required = compileSchema(itemSchema)
const a = '{"e":"a","d":"1"}'
const b = '{"e":"b","d":"2"}'
const c = '{"e":"c","d":"3"}'
const long = 'x'.repeat(5000)

function tell(event: ItemEvent): string {
  if (event.type === 'rejected') return `!${event.reason}`
  const { e, d } = event.value as { e?: unknown; d?: unknown }
  const name = (d === undefined ? JSON.stringify(event.value) : String(e)).replace(long, 'long')
  return [name, ...event.repairs].join('~')
}

/** What the tolerant parser makes of `text`, the same in every split: `a b~closed !schema, 2 ignored, cut`. */
function tolerantly(text: string, schema: ItemSchema | undefined): string {
  const whole = feed(createItemsParser(schema), [text])
  for (const size of [1, 2, 3, 64]) {
    expect(feed(createItemsParser(schema), piecesOf(text, size))).toStrictEqual(whole)
    expect(feed(createTolerantParser(schema, { wholeRecords: false }), piecesOf(text, size))).toStrictEqual(
      whole,
    )
  }
  const { ignored, truncated, empty } = whole.end
  const told = whole.events.map(tell).join(' ') || (empty ? 'empty' : 'nothing')
  return `${told}${ignored > 0 ? `, ${ignored} ignored` : ''}${truncated ? ', cut' : ''}`
}

/** How many lines the strict parser keeps and refuses, the same in every split. */
function strictly(text: string, schema: ItemSchema | undefined): [number, number] {
  const strict = () => createItemsParser(schema, { strict: true })
  const whole = feed(strict(), [text])
  for (const size of [1, 2]) expect(feed(strict(), piecesOf(text, size))).toStrictEqual(whole)
  const kept = whole.events.filter((event) => event.type === 'item').length
  return [kept, whole.events.length - kept]
}

type Example = readonly [text: string, tolerant: string, strict: readonly [kept: number, refused: number]]

const rules: Readonly<Record<string, readonly Example[]>> = {
  'a record begins and ends at depth 0, wherever lines do': [
    [`${a}${b}\t${c}`, 'a b c', [0, 1]],
    [`{"e":\n"a"\n,"d":1}{"e":"b",\r\n"d":2}`, 'a b', [0, 4]],
    [`{\r"e":"a",\r"d":"1"\r}\r${b}`, 'a b', [0, 1]],
    [`,, ${a} , ,\t${b},\n,\n\x1e${c}`, 'a b c', [1, 2]],
    [`${a}prose${b}.${c}!`, 'a b c, 1 ignored', [0, 1]],
  ],
  'a string may hold anything, quotes and backslashes at its end too': [
    [
      '{"e":"{","d":"1"}\n{"e":"}","d":"2"}\n{"e":"a {b} c","d":"}{"}\n{"e":"c","d":3}',
      '{ } a {b} c c',
      [4, 0],
    ],
    ['{"e":"a\\\\","d":"}"}\n{"e":"\\\\\\"","d":"{"}\n{"e":"c","d":3}', 'a\\ \\" c', [3, 0]],
    ['{"e":"a","d":"```"}\n{"e":"b","d":"// <think>"}\n{"e":"c","d":"[1]"}', 'a b c', [3, 0]],
  ],
  'a record may be long, nested and pretty': [
    [`{"e":"${long}","d":1}\n[{"e":"${long}","d":{"x":[{}]}},${b}]`, 'long long b', [1, 1]],
    [
      JSON.stringify(
        [
          { e: 'a', d: { x: { y: [{ z: 1 }] } } },
          { e: 'b', d: [] },
        ],
        null,
        2,
      ),
      'a b',
      [0, 18],
    ],
    [`{"e":"a","d":[${'{},'.repeat(20)}{}]}\n{"e":"b","d":{"x":{},"y":{}}}`, 'a b', [2, 0]],
  ],
  'what opens as a record and is none is rejected': [
    ['{"e":"a"}\n{}\n{"e":"a","d":}\n{e: a, d: b}', '!schema !schema !invalid_json !invalid_json', [0, 4]],
    [`[{"e":"a"},${b},{}]`, '!schema b !schema', [0, 1]],
    [`{"quoted"} and {a: b}`, '!invalid_json !invalid_json, 1 ignored', [0, 1]],
  ],
  'a brace that opens no record is prose': [
    [`{1: 2} { { {x y: 1} {name} {-} {(}\n${a}`, 'a, 1 ignored', [1, 1]],
    [`{{ ${a} }}`, 'a, 1 ignored', [0, 1]],
  ],
  'a line that begins with a brace and a word is a broken record, unless another brace follows': [
    [`{broken json\n${a}`, '!invalid_json a', [1, 1]],
    [`${a}\n  { broken json }, \n[{entity "Ada", "e": 1}]\n${b}`, 'a !invalid_json !invalid_json b', [2, 2]],
    [`\`\`\`json\n[{broken json,\n${a}]\n\`\`\``, '!invalid_json a, 2 ignored', [0, 2]],
    [`{broken ${'x'.repeat(2000)}\n${a}`, '!invalid_json a', [1, 1]],
    [`{broken\n${a}`, '!invalid_json a', [1, 1]],
    [`[${a},\n{broken json]\n${b}`, 'a !invalid_json b', [1, 2]],
    [`{"items":[\n{broken json,\n${a}]}`, '!broken a, 1 ignored', [0, 3]],
    [`${a}\n{broken`, 'a, cut', [1, 1]],
    [`{broken ${a}`, 'a, 1 ignored', [0, 1]],
    [`{entity} and {definition}:\n{text} holds:\nas {this one\n${a}`, 'a, 3 ignored', [1, 3]],
  ],
  'an element of an array that begins with a brace and a word is a broken record, wherever it stands': [
    [`[${a},{broken json},${b}]`, 'a !invalid_json b', [0, 1]],
    [
      `[{broken json},{entity Ada "x", ${b} , {broken]`,
      '!invalid_json !invalid_json b !invalid_json',
      [0, 1],
    ],
    [`[{broken ${'x'.repeat(2000)},${a}]`, '!invalid_json a', [0, 1]],
    [`["{name}", {1: 2}, ${a}]`, 'a, 1 ignored', [0, 1]],
  ],
  'a brace of full width that opens no record is prose': [
    [`[${a},｛é x\n:${b}]\n｛风车｝`, 'a b, 3 ignored', [0, 3]],
  ],
  'scalars are ignored and counted, in arrays and in the arrays of a wrapper too': [
    [`"text"\n-1.5e3\ntrue\n[1,"x"]\n${a}`, 'a, 4 ignored', [1, 4]],
    [`["x",\n1,\n${a}\n]`, 'a, 2 ignored', [1, 3]],
    [`{"items":[1,"{ x",${a},null]}`, 'a, 1 ignored', [0, 1]],
    [`{"count":2,\n"items":[\n1,\n${a},\n"x"\n]}`, 'a, 2 ignored', [0, 6]],
  ],
  'a string that parses to one object is decoded once': [
    [JSON.stringify(`\n ${a} \n`), 'a~decoded', [0, 1]],
    [JSON.stringify(JSON.stringify({ e: 'a', d: 1 }, null, 2)), 'a~decoded', [0, 1]],
    [`{"items":[${JSON.stringify(a)},${b}]}`, 'a~decoded b', [0, 1]],
    [JSON.stringify('{"e":"a","d":12345678901234567890}'), 'a~big_integer~decoded', [0, 1]],
    [JSON.stringify('{"e":"a"}'), '!schema', [0, 1]],
    [JSON.stringify(JSON.stringify(a)), 'nothing, 1 ignored', [0, 1]],
  ],
  'a string that holds a list or lines of items is decoded': [
    [`${JSON.stringify(`[${a},${b}]`)}\n${c}`, 'a~decoded b~decoded c', [1, 1]],
    [`${JSON.stringify(`${a}\n${b}`)}\n${c}`, 'a~decoded b~decoded c', [1, 1]],
    [JSON.stringify(`[${a},{"e":1}`), 'a~decoded !schema !broken', [0, 1]],
  ],
  'an object whose text was escaped once is decoded': [
    [`${JSON.stringify(a).slice(1, -1)}\n{\\"e\\":\\"b\\"}\n${c}`, 'a~decoded !schema c', [1, 2]],
    [`[{\\"e\\":\\"a } \\\\\\"\\",\n\\"d\\":1}, ${b}]`, 'a } "~decoded b', [0, 2]],
    [`see {\\"e then ${b}`, 'b, 1 ignored', [0, 1]],
    [`${b}\n{\\"e\\":\\"a`, 'b, cut', [1, 1]],
  ],
  'a string that holds anything else is a scalar': [
    [`"[" ,\n${a}`, 'a, 1 ignored', [1, 1]],
    [`"[" \n${a}`, 'a, 1 ignored', [1, 1]],
    [`"[" `, 'nothing, 1 ignored', [0, 1]],
    [`"[{}]", "see {x: 1} ["\n${c}`, 'c, 1 ignored', [1, 1]],
    [`He said "use {x: 1}", then ${a}\n5" x 7": ${b},\n" ${c}`, 'a b c, 3 ignored', [0, 3]],
  ],
  'comments are ignored to their end': [
    [`/* one */ ${a} /* two ${b} */ ${c} // ${b}`, 'a c, 1 ignored', [0, 1]],
    [`/* one\n${a}\n*/ ${b}`, 'b, 3 ignored', [1, 2]],
    [`[ // one\n${a}, # ${b}\n/*/ ${b} */ ${c}]`, 'a c, 3 ignored', [0, 3]],
    [`/* never closed\n${a}\n/*.txt ${b}\n${c}`, 'a c, 2 ignored', [2, 2]],
  ],
  'fences, list marks, stop tokens and thinking are ignored': [
    [`\`\`\`json${a}\`\`\`${b}`, 'a b, 1 ignored', [0, 0]],
    [`\`\`\`\`json {.x}\n${a}\n\`\`\`\`\r\n`, 'a, 2 ignored', [1, 0]],
    [`1) ${a}\na. ${b}\n- [x] ${c}`, 'a b c, 3 ignored', [0, 3]],
    [`> ${a}\n\`${b}\`\n<item>${c}</item>`, 'a b c, 3 ignored', [0, 3]],
    [`${a}<|im_end|>\n<|im_start|>assistant\n${b}</s>`, 'a b, 3 ignored', [0, 3]],
    [`[${a},<think>${b}</think>${c}]`, 'a c, 1 ignored', [0, 1]],
    [`thinking ${a}\n</think>\n${b}`, 'a b, 2 ignored', [1, 2]],
  ],
  'a wrapper lacks a required key when an element of an array in it passes': [
    [`{"e":"x","items":[${a}],"d":"y"}`, 'a', [1, 0]],
    [`{"e":"x","d":"y","items":[${a}]}`, 'x', [1, 0]],
    [`{"x":[${a}],"y":[${b}]}`, 'a b', [0, 1]],
    [`[{"items":[${a}]},{"items":[[${b}],${c}]}]`, 'a b c', [0, 1]],
    [`{"note":"a [ { ] }","items":[{e:"a",d:1},{"x":1},${b},]}`, 'a~keys !schema b', [0, 1]],
    [`{"items":[{"x":1},{"y":2}]}`, '!schema', [0, 1]],
    [`{"name":"f","arguments":{"items":[\n${a},\n${b}`, 'a b, cut', [1, 2]],
  ],
  'a cut tail is neither an item nor rejected': [
    [`${a}\n{"e":"b","d":fals`, 'a, cut', [1, 1]],
    [`${a}\n{"e":"b","d":"2"\n\n`, 'a, cut', [1, 1]],
    [`{"e":"b","d":"x\ny`, 'nothing, cut', [0, 2]],
    [`[${a},\n${b}\nDone.`, 'a b, 1 ignored, cut', [1, 2]],
    [`{"items":[{"e":"a"`, 'nothing, cut', [0, 1]],
    [`"[{\\"e\\":\\"a\\"`, 'nothing, cut', [0, 1]],
  ],
  'nothing is honest where there is nothing but white space, an empty array or wrapper, or what never counts':
    [
      ['\r\n\t\n', 'empty', [0, 0]],
      ['[ ]\n[[]]\n{"items": [\n]}', 'empty', [0, 4]],
      ['// none\n<think>no</think>\n```\n[]\n```<|eot_id|>', 'empty, 4 ignored', [0, 3]],
      ['[]\nThere are none.', 'nothing, 1 ignored', [0, 2]],
      ['"none"', 'nothing, 1 ignored', [0, 1]],
    ],
  'a number that is not finite rejects its item, however it is written': [
    ['{"e":"a","d":[{"x":-1e999}]}\n{"e":"a","d":NaN}', '!not_finite !not_finite', [0, 2]],
    [`{'e':Infinity,'d':1}\n{"e":"a","d":nan}`, '!not_finite !not_finite', [0, 2]],
    [`{"e":"NaN","d":"Infinity"}\n{"items":[{"e":1e999,"d":1},${b}]}`, 'NaN !not_finite b', [1, 1]],
  ],
  'an integer that a double would change becomes its digits': [
    [
      '{"e":9007199254740993,"d":1}\n{"e":-9007199254740993,"d":1}',
      '9007199254740993~big_integer -9007199254740993~big_integer',
      [2, 0],
    ],
    ['{"e":9007199254740992,"d":1}\n{"e":1e21,"d":1}\n{"e":-0,"d":1}', '9007199254740992 1e+21 0', [3, 0]],
    ['[{"e":"a","d":[12345678901234567890]}]', 'a~big_integer', [0, 1]],
  ],
  '__proto__ is dropped and a lone surrogate replaced, by name': [
    ['{"e":"a","d":{"x":[{"__proto__":1}]}}', 'a~proto', [1, 0]],
    ['{__proto__:{x:1},e:"a",d:2}', 'a~keys~proto', [0, 1]],
    ['{"__proto__":{"e":"a","d":2}}', '!schema', [0, 1]],
    ['{"e":"\ud83d","d":"x"}\n{"e":"\\ude00","d":"x"}', '\ufffd~surrogate \ufffd~surrogate', [2, 0]],
    ['{"e":"\\ud83d\\ude00","d":"\ud83d\ude00"}', '😀', [1, 0]],
  ],
  'a record that lacks its brace is closed when a new one begins on the next line': [
    [`{"e":"a","d":"1"\r\n\n  ${b}`, 'a~closed b', [1, 1]],
    [`{"e":"a","d":{"x":1}\n{"e":"b","d":[2]\n${c}`, 'a~closed b~closed c', [1, 2]],
    [`{"e":"a","d":1\n{"e":"b"}`, 'a~closed !schema', [0, 2]],
    [`{"e":"a"\n${b}`, '!schema b', [1, 1]],
  ],
  'a line that is an item ends a record that is open otherwise, as broken': [
    [`{"e":"a","d":{"x":1\n${b}`, '!broken b', [1, 1]],
    [`{"e":"a","d\n{'e':'b','d':'2'}\n${c}`, '!broken b~quotes c', [1, 2]],
    [`{"e":"a","d":"1"\nand then\n${b}`, '!broken b', [1, 2]],
    [`{"e":"a","d":"1} \n${b}\n${c}`, '!broken b c', [2, 1]],
    [`{"items":[\n{"e":"a","d":"1"\n${b}\n]}`, '!broken b, 1 ignored', [1, 3]],
  ],
  'a raw newline in a string is kept where the record closes and passes without such a line': [
    [`{"e":"a","d":"1\r\n\n2"}\n${b}`, 'a~control b', [1, 2]],
    [`{"e":"a\n{ b","d":"}\n}"}\n${b}`, 'a\n{ b~control b', [1, 3]],
    [`{"e":"a\nb"}\n${b}`, '!schema b', [1, 2]],
  ],
  'limits cost one record': [
    [`${'['.repeat(65)}${']'.repeat(65)}\n[${a},${'['.repeat(64)}\n${b}`, '!too_deep a !too_deep b', [1, 2]],
    [`[${a},{"e":"b","d":${'{"x":'.repeat(64)}1${'}'.repeat(65)},${c}]`, 'a !too_deep c', [0, 1]],
  ],
}

const schemaless: Readonly<Record<string, readonly Example[]>> = {
  'without a schema every object is an item': [
    ['{}\n{"x":1}{"y":[2]}', '{} {"x":1} {"y":[2]}', [1, 1]],
    ['[{"x":1},[{"y":2}],3]', '{"x":1} {"y":2}, 1 ignored', [1, 0]],
    [JSON.stringify('{"x":1}'), '{"x":1}~decoded', [1, 0]],
  ],
  'without a schema only an object whose sole key holds an array of objects is unwrapped': [
    ['{"list":[{"x":1},{"y":2}]}', '{"x":1} {"y":2}', [1, 0]],
    ['{"n":1,"list":[{"x":1}]}', '{"n":1,"list":[{"x":1}]}', [1, 0]],
    ['{"list":[1,{"x":1}]}', '{"list":[1,{"x":1}]}', [1, 0]],
    ['{"a":{"list":[{"x":1}]}}', '{"a":{"list":[{"x":1}]}}', [1, 0]],
    ['{"list":[{"x":1},{"y":2}', 'nothing, cut', [0, 1]],
    ['{"items":[]}', 'empty', [1, 0]],
  ],
  'without a schema scalars are items of the strict parser only': [
    ['1\n"x"\nnull\n[]\n[1]', 'nothing, 4 ignored', [5, 0]],
  ],
}

describe.each([
  { rules, schema: required },
  { rules: schemaless, schema: undefined },
])('jsonl', ({ rules, schema }) => {
  describe.each(Object.entries(rules))('%s', (_, examples) => {
    for (const [text, tolerant, strict] of examples) {
      test(JSON.stringify(text).slice(0, 120), () => {
        expect(tolerantly(text, schema)).toBe(tolerant)
        expect(strictly(text, schema)).toStrictEqual(strict)
      })
    }
  })
})

test('with a schema the strict parser keeps only objects, whatever else the schema allows', () => {
  const untyped = compileSchema({ required: ['e', 'd'] })
  expect(strictly(`42\n[1]\n"x"\n${a}\n{}`, untyped)).toStrictEqual([1, 4])
})
