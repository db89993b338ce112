// The rules of the tolerant parser, a sentence each: what is an item, a repair, a rejection, ignored, truncated, empty.
import { describe, expect, test } from 'vitest'
import type { ItemsOptions } from '../../src/items/item.ts'
import { createItemsParser } from '../../src/items/parser.ts'
import { compileSchema, type ItemSchema } from '../../src/items/validate.ts'
import { feed, itemSchema, piecesOf } from './replies.ts'

const required = compileSchema(itemSchema)
const a = '{"e":"a","d":"1"}'
const b = '{"e":"b","d":"2"}'
const c = '{"e":"c","d":"3"}'
const A = { e: 'a', d: '1' }
const B = { e: 'b', d: '2' }
const C = { e: 'c', d: '3' }

function parse(text: string, schema: ItemSchema | undefined = required, options: ItemsOptions = {}) {
  const { events, end } = feed(createItemsParser(schema, options), [text])
  return {
    items: events.flatMap((event) => (event.type === 'item' ? [event.value] : [])),
    repairs: events.flatMap((event) => (event.type === 'item' ? [event.repairs] : [])),
    rejected: events.flatMap((event) =>
      event.type === 'rejected' ? [[event.reason, event.line, event.text]] : [],
    ),
    lines: events.map((event) => event.line),
    ...end,
  }
}
const withoutSchema = (text: string) => {
  const { events, end } = feed(createItemsParser(undefined), [text])
  return { items: events.flatMap((event) => (event.type === 'item' ? [event.value] : [])), events, ...end }
}

describe('text that is skipped', () => {
  test.each([
    ['a byte order mark', `\ufeff${a}`, 0],
    ['CRLF', `${a}\r\n${b}\r\n`, 0],
    ['a bullet', `- ${a}\n* ${b}\n• ${c}`, 3],
    ['fences of any kind, the closer on the last line', `\`\`\`JSONL\n${a}\n${b}\`\`\``, 2],
    ['two fenced blocks with prose between', `\`\`\`\n${a}\n\`\`\`\nand\n\`\`\`\n${b}\n\`\`\``, 5],
    ['scalars', `"text"\n42\nnull\n[1, 2]\n${a}`, 4],
    ['stop tokens', `<|im_start|>assistant\n${a}<|im_end|></s>`, 2],
    ['tags and tables', `<items>\n| ${a} |\n</items>`, 3],
    ['server-sent events', `data: ${a}\n\ndata: [DONE]`, 2],
    ['stray closers', `${a}}\n${b}]`, 2],
    ['a record in a comment', `// ${a}\n# ${a}\n/* ${a} */\n${b}`, 3],
    ['braces that open no record', `Set {x} and { the } and {1: 2} and {{ y }}\n${a}`, 1],
  ])('%s', (_, text, ignored) => {
    const reply = parse(text)
    expect(reply.ignored).toBe(ignored)
    expect(reply.rejected).toStrictEqual([])
    expect(reply.truncated).toBe(false)
    expect(reply.repairs.flat()).toStrictEqual([])
  })

  test('a list mark with a number is not a comment', () => {
    expect(parse(`#1 ${a}\n#2. ${b}`).items).toStrictEqual([A, B])
  })

  test('commas, brackets and record separators are structure, not text', () => {
    expect(parse(`\u001e[${a},\n${b}],\n`).ignored).toBe(0)
  })

  test.each([
    ['with attributes', `<think mode="deep">${a}</think>${b}`],
    ['in any case and spelling', `<Thinking>\n${a}\n</THINKING>\n${b}`],
    ['before a fence', `<think>\n{ ${a}\n[\n</think>\n\`\`\`json\n${b}\n\`\`\``],
  ])('thinking %s', (_, text) => {
    expect(parse(text).items).toStrictEqual([B])
  })

  test('thinking without an end hides everything after it, and the reply was cut', () => {
    expect(parse(`${a}\n<think>\n${b}\n`)).toMatchObject({ items: [A], truncated: true, empty: false })
  })

  test('a lone </think> does not recall items already given', () => {
    expect(parse(`${a}\n</think>\n${b}`).items).toStrictEqual([A, B])
  })

  test.each([
    [`${a}\n{"e":1}\n${b}</think>${c}`, { items: 2, rejected: 1 }],
    [`Let me see.</think>${a}`, { items: 0, rejected: 0 }],
    [`<think>${a}</think>${b}`, { items: 0, rejected: 0 }],
    [`{"e":"</think>","d":1}\n${b}`, { items: 0, rejected: 0 }],
    [`${a}</think>${b}</thinking>${c}`, { items: 2, rejected: 0 }],
  ])('a lone end of thinking says how many given events were a thought: %j', (text, thoughts) => {
    for (const size of [1, 3, 1000]) {
      const parser = createItemsParser(required)
      feed(parser, piecesOf(text, size))
      expect(parser.thoughts).toEqual(thoughts)
    }
  })

  test('an empty reply after thoughts is honest', () => {
    expect(parse('There is nothing.\n</think>\n[]').empty).toBe(true)
    expect(parse('</think>\nThere is nothing.').empty).toBe(false)
  })

  test('thinking inside a record is content', () => {
    expect(parse('{"e":"<think>","d":"</think>"}').items).toStrictEqual([{ e: '<think>', d: '</think>' }])
  })
})

describe('where items are found', () => {
  test('in arrays of arrays, on one line or many', () => {
    expect(parse(`[[${a}],[\n${b}\n],${c}]`).items).toStrictEqual([A, B, C])
  })

  test('one pretty-printed item alone', () => {
    const item = { e: 'a', d: { x: [1, { y: [2] }] } }
    expect(parse(JSON.stringify(item, null, 4)).items).toStrictEqual([item])
  })

  test('with the line on which each begins', () => {
    expect(parse(`\n${a}\n[\n\n${b},\n{\n"e":"c","d":"3"}]`).lines).toStrictEqual([2, 5, 6])
    expect(parse(`{"items":[\n${a},\n${b}]}`).lines).toStrictEqual([2, 3])
  })

  test('in a string that holds JSON, decoded once', () => {
    const once = JSON.stringify(a)
    expect(parse(once)).toMatchObject({ items: [A], repairs: [['decoded']] })
    expect(parse(`[${once}, ${b}]`)).toMatchObject({ items: [A, B], repairs: [['decoded'], []] })
    expect(parse(JSON.stringify(`{"items":[${a},${b}]}`)).items).toStrictEqual([A, B])
    expect(parse(JSON.stringify(once)).items).toStrictEqual([])
    expect(parse(JSON.stringify(`${a}\n${b}`))).toMatchObject({ items: [A, B], rejected: [], ignored: 0 })
    expect(parse(JSON.stringify(`[${a},{"e":1},${b}]`))).toMatchObject({
      items: [A, B],
      repairs: [['decoded'], ['decoded']],
      rejected: [['schema', 1, '{"e":1}']],
    })
    expect(parse(JSON.stringify(`${a}\n{"e":"b`))).toMatchObject({
      items: [A],
      rejected: [['broken', 1, '{"e":"b']],
    })
  })
})

describe('a wrapper', () => {
  test('is an object that lacks a required key when an element of an array in it passes', () => {
    expect(parse(`{"count":2,"items":[${a},${b}],"done":true}\n${c}`).items).toStrictEqual([A, B, C])
    expect(parse(`{'items': [${a}, {e:"b",d:"2"}]}`).items).toStrictEqual([A, B])
  })

  test('is decided once: a key that comes later does not change it', () => {
    expect(parse(`{"items":[${a}],"e":"x","d":"y"}`).items).toStrictEqual([A])
  })

  test('is not an object that has every required key before the array', () => {
    const item = { e: 'x', d: [A, B] }
    expect(parse(JSON.stringify(item)).items).toStrictEqual([item])
    expect(parse(JSON.stringify(item, null, 2)).items).toStrictEqual([item])
    expect(parse(`{"e":"x","d":[\n${a},\n${b}\n]}\n${c}`).items).toStrictEqual([item, C])
  })

  test('holds its array three keys down, or deeper when it is complete', () => {
    for (const open of ['{"items":[', '{"a":{"items":[', '{"a":{"b":{"items":[', '{"a":{"items":[[']) {
      const close = [...open].reverse().flatMap((each) => (each === '{' ? ['}'] : each === '[' ? [']'] : []))
      expect(parse(`${open}${a},${b}${close.join('')}`).items).toStrictEqual([A, B])
    }
    const deeper = `{"a":{"b":{"c":{"items":[${a}]}}}}`
    expect(parse(deeper)).toMatchObject({ items: [A], rejected: [] })
    const tooDeep = `{"a":${'{"b":'.repeat(8)}[${a}]${'}'.repeat(9)}`
    expect(parse(tooDeep)).toMatchObject({ items: [], rejected: [['schema', 1, tooDeep]] })
  })

  test('reports its failing elements as rejected', () => {
    const reply = parse(`{"items":[{"x":1},${a},{"y":2}]}`)
    expect(reply.items).toStrictEqual([A])
    expect(reply.rejected).toStrictEqual([
      ['schema', 1, '{"x":1}'],
      ['schema', 1, '{"y":2}'],
    ])
  })

  test('may be left open: lines that follow are items', () => {
    expect(parse(`{"items":[${a}\n${b}\n${c}`)).toMatchObject({ items: [A, B, C], truncated: true })
    expect(parse(`{"items":[${a}]\n${b}\n${c}`).items).toStrictEqual([A, B, C])
  })

  test('without a required key is decided at its end', () => {
    const loose = compileSchema({
      type: 'object',
      properties: { x: { type: 'number' } },
      additionalProperties: false,
    })
    expect(parse('{"items":[{"x":1},{"x":2}]}', loose).items).toStrictEqual([{ x: 1 }, { x: 2 }])
    expect(parse('{"x":1}', loose).items).toStrictEqual([{ x: 1 }])
  })

  test('without any schema is an object whose only key holds an array of objects', () => {
    expect(withoutSchema(`{"list":[${a},${b}]}`).items).toStrictEqual([A, B])
    const two = { n: 1, list: [A] }
    expect(withoutSchema(JSON.stringify(two)).items).toStrictEqual([two])
    expect(withoutSchema('{"list":[1,{"x":2}]}').items).toStrictEqual([{ list: [1, { x: 2 }] }])
  })

  test('is expected when the reply is known to be one, and lines are still taken', () => {
    const rooted = { root: '/items' } as const
    expect(parse('{"items": [{"x":1},{"x":2}]}', compileSchema({}), rooted).items).toStrictEqual([
      { x: 1 },
      { x: 2 },
    ])
    expect(feed(createItemsParser(undefined, rooted), ['{"items":[{"x":', '1},{"y"']).events).toHaveLength(1)
    expect(parse(`${a}\n${b}`, required, rooted).items).toStrictEqual([A, B])
  })
})

describe('a new record on the next line', () => {
  test('closes one that lacks only its brace, with or without a comment', () => {
    expect(parse(`{"e":"a","d":"1"\n${b}`)).toMatchObject({ items: [A, B], repairs: [['closed'], []] })
    expect(parse(`{"e":"a","d":12 // note\n\n${b}`).items).toStrictEqual([{ e: 'a', d: 12 }, B])
    expect(parse(`[\n{"e":"a","d":"1"\n${b}\n]`).items).toStrictEqual([A, B])
  })

  test('never closes one at the end of the reply', () => {
    expect(parse('{"e":"a","d":"1"\n')).toMatchObject({
      items: [],
      truncated: true,
      tail: '{"e":"a","d":"1"\n',
    })
  })

  test.each([
    ['in a string', '{"e":"a","d":"1\n', '{"e":"a","d":"1'],
    ['after a comma', '{"e":"a","d":"1",\n', '{"e":"a","d":"1",'],
    ['where a value is due', '{"e":"a","d":\n', '{"e":"a","d":'],
    ['in an array', '{"e":"a","d":["x"\n', '{"e":"a","d":["x"'],
    ['in an array, after a comma', '{"e":"a","d":["x",\n', '{"e":"a","d":["x",'],
    ['after a brace in prose', 'see {"this" for the list:\n', '{"this" for the list:'],
    ['after what is no JSON', '{"e":"a":"d"\n', '{"e":"a":"d"'],
  ])('breaks one that is still open %s', (_, text, broken) => {
    const reply = parse(`${text}${b}\n${c}\n`)
    expect(reply.items).toStrictEqual([B, C])
    expect(reply.rejected).toStrictEqual([['broken', 1, broken]])
    expect(parse(`${text}${b}`).items).toStrictEqual([B])
  })

  test('does not break one when it would not be an item itself', () => {
    const item = { e: 'a', d: 'code:\n{"x":1}\nend' }
    const raw = '{"e":"a","d":"code:\n{\\"x\\":1}\nend"}'
    expect(parse(`${raw}\n${b}`)).toMatchObject({ items: [item, B], repairs: [['control'], []] })
  })

  test('after a record separator breaks an open one', () => {
    expect(parse(`\u001e{"a":\u001e${b}\n`)).toMatchObject({ items: [B], rejected: [['broken', 1, '{"a":']] })
  })
})

describe('what is rejected', () => {
  test.each([
    ['invalid_json', '{"e":"a","d":}'],
    ['invalid_json', '{name: value}'],
    ['invalid_json', '{"e":007,"d":1}'],
    ['schema', '{"e":"a"}'],
    ['schema', '{}'],
    ['not_finite', '{"e":"a","d":NaN}'],
    ['not_finite', '{"e":"a","d":[-Infinity]}'],
    ['not_finite', '{"e":"a","d":-1e999}'],
  ])('%s: %s', (reason, text) => {
    expect(parse(`${text}\n${b}`)).toMatchObject({ items: [B], rejected: [[reason, 1, text]] })
  })

  test('a record that nests deeper than 64', () => {
    const nested = (depth: number) => `{"e":"a","d":${'['.repeat(depth)}${']'.repeat(depth)}}`
    expect(parse(nested(63)).items).toHaveLength(1)
    expect(parse(`${nested(64)}\n${b}`)).toMatchObject({
      items: [B],
      rejected: [['too_deep', 1, expect.any(String)]],
    })
    expect(parse(nested(64).replace('"a"', "'a'")).items).toHaveLength(0)
  })

  test('a too deep value after an item, shown from its own brackets on', () => {
    const text = `[${a},[[ [[["x",${b}]]]]]]\n${c}`
    for (const size of [1, 2, text.length]) {
      const { events } = feed(createItemsParser(required, { maxDepth: 4 }), piecesOf(text, size))
      expect(events).toMatchObject([{ value: A }, { reason: 'too_deep', text: '[[ [[' }, { value: C }])
    }
  })

  test('a record that is larger than a MiB, but not the next one', () => {
    const sized = (length: number) => `{"e":"a","d":"${'x'.repeat(length - 16)}"}`
    expect(sized(20)).toHaveLength(20)
    expect(parse(sized(1_048_576)).items).toHaveLength(1)
    expect(parse(`${sized(1_048_577)}\n${b}`)).toMatchObject({
      items: [B],
      rejected: [['too_large', 1, expect.any(String)]],
    })
  })

  test('shows at most 200 characters and never half of one', () => {
    const { rejected } = parse(`{"x":"${'y'.repeat(193)}😀${'y'.repeat(50)}"}`)
    expect(rejected[0]?.[2]).toBe(`{"x":"${'y'.repeat(193)}`)
  })
})

describe('values', () => {
  test('an integer that a double would change is passed on as its digits, after it was checked as a number', () => {
    const numeric = compileSchema({ properties: { d: { type: 'integer' } }, required: ['d'] })
    const reply = parse(
      '{"d":12345678901234567890,"n":[-9007199254740993],"exact":9007199254740992}',
      numeric,
    )
    expect(reply.items).toStrictEqual([
      { d: '12345678901234567890', n: ['-9007199254740993'], exact: 2 ** 53 },
    ])
    expect(reply.repairs).toStrictEqual([['big_integer']])
  })

  test('a __proto__ key is dropped at any depth, however it is written, and changes no prototype', () => {
    const reply = parse('{"e":"a","d":{"__proto__":{"x":1},"k":[{"\\u005f_proto__":2}]},"__proto__":1e999}')
    expect(reply.items).toStrictEqual([{ e: 'a', d: { k: [{}] } }])
    expect(reply.repairs).toStrictEqual([['proto']])
    expect(Object.getPrototypeOf(reply.items[0])).toBe(Object.prototype)
  })

  test('a lone surrogate becomes U+FFFD, in keys too', () => {
    const reply = parse('{"e":"\\ud83d","\\ude00":"x","d":["\\ud83d\\ude00"]}')
    expect(reply.items).toStrictEqual([{ e: '\ufffd', '\ufffd': 'x', d: ['😀'] }])
    expect(reply.repairs).toStrictEqual([['surrogate']])
  })

  test('the last of two equal keys wins', () => {
    expect(parse('{"e":"x","e":"a","d":"1"}').items).toStrictEqual([A])
  })
})

describe('the end of a reply', () => {
  test.each([
    '{"e":"b","d":"2"',
    '{"e":"b","d":tru',
    '{"e":"b","d":12',
    '{"e":"b"',
    '{',
    '{"',
    '[',
    `[${b},`,
    '{"items":[',
    '"{\\"e\\":',
  ])('is cut off in %j', (tail) => {
    const reply = parse(`${a}\n${tail}`)
    expect(reply.truncated).toBe(true)
    expect(reply.items).toStrictEqual(tail.includes('},') ? [A, B] : [A])
    expect(reply.rejected).toStrictEqual([])
  })

  test.each([
    '',
    ' \n\t',
    '[]',
    '{"items":[]}',
    '{"entities": [ ]}',
    '```json\n[]\n```',
    '<think>nothing here</think>\n[]',
  ])('is honestly empty: %j', (text) => {
    expect(parse(text)).toMatchObject({ items: [], rejected: [], empty: true, truncated: false })
  })

  test.each(['I cannot help with that.', 'None', 'null', '{}', '[', '<think>', a, 'There are none: []'])(
    'is not honestly empty: %j',
    (text) => {
      expect(parse(text).empty).toBe(false)
    },
  )

  test('without a schema only "items" may be empty', () => {
    expect(withoutSchema('{"items":[]}')).toMatchObject({ items: [], empty: true })
    expect(withoutSchema('{"tags":[]}')).toMatchObject({ items: [{ tags: [] }], empty: false })
  })
})
