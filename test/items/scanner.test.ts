// What holds for every reply: the same events for every split, both ways through records, every cut, in linear time.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createItemsParser } from '../../src/items/parser.ts'
import { createTolerantParser } from '../../src/items/tolerant.ts'
import { compileSchema } from '../../src/items/validate.ts'
import { cutAnywhere, feed, itemSchema, piecesOf, plainItem, reply, valuesOf } from './replies.ts'

const strictly = compileSchema(itemSchema)
const schemas = [
  strictly,
  undefined,
  compileSchema({ type: 'object' }),
  compileSchema({ type: 'object', properties: { e: { type: 'string' }, d: { type: 'string' } } }),
]
const anySchema = fc.constantFrom(...schemas)
const anyRoot = fc.constantFrom({}, { root: '/items' } as const)

describe('every split of a reply', () => {
  test('gives the same events', () => {
    fc.assert(
      fc.property(cutAnywhere(reply), anySchema, ({ whole, pieces }, schema) => {
        const expected = feed(createItemsParser(schema), [whole])
        expect(feed(createItemsParser(schema), pieces)).toStrictEqual(expected)
        expect(feed(createItemsParser(schema), piecesOf(whole, 1))).toStrictEqual(expected)
      }),
      { numRuns: 600 },
    )
  })

  test('gives the same events when strict', () => {
    fc.assert(
      fc.property(cutAnywhere(reply), anySchema, ({ whole, pieces }, schema) => {
        const expected = feed(createItemsParser(schema, { strict: true }), [whole])
        expect(feed(createItemsParser(schema, { strict: true }), pieces)).toStrictEqual(expected)
      }),
      { numRuns: 200 },
    )
  })

  test('gives the same events as reading every record slowly', () => {
    fc.assert(
      fc.property(cutAnywhere(reply), anySchema, anyRoot, ({ whole, pieces }, schema, root) => {
        const slow = () => createTolerantParser(schema, { ...root, wholeRecords: false })
        const expected = feed(createTolerantParser(schema, root), [whole])
        expect(feed(slow(), [whole])).toStrictEqual(expected)
        expect(feed(slow(), pieces)).toStrictEqual(expected)
      }),
      { numRuns: 600 },
    )
  })

  test('gives the same events for limits that a record just meets or misses', () => {
    const limits = { maxDepth: 4, maxRecord: 30 }
    fc.assert(
      fc.property(cutAnywhere(reply), anySchema, ({ whole, pieces }, schema) => {
        const expected = feed(createItemsParser(schema, limits), [whole])
        expect(feed(createItemsParser(schema, limits), pieces)).toStrictEqual(expected)
        expect(feed(createTolerantParser(schema, { ...limits, wholeRecords: false }), pieces)).toStrictEqual(
          expected,
        )
      }),
      { numRuns: 600 },
    )
  })

  test('never throws on garbage', () => {
    const garbage = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 200 }),
      fc.stringMatching(/^[{}[\]",:'\\/#<>a\n ]{0,60}$/),
    )
    fc.assert(
      fc.property(cutAnywhere(garbage), anySchema, ({ whole, pieces }, schema) => {
        expect(feed(createItemsParser(schema), pieces)).toStrictEqual(
          feed(createItemsParser(schema), [whole]),
        )
      }),
      { numRuns: 500 },
    )
  })

  test('may fall inside a surrogate pair', () => {
    const line = '{"e":"😀","d":"1"}'
    const middle = line.indexOf('😀') + 1
    const { events } = feed(createItemsParser(strictly), [line.slice(0, middle), line.slice(middle)])
    expect(events).toStrictEqual([{ type: 'item', value: { e: '😀', d: '1' }, repairs: [], line: 1 }])
  })
})

describe('a reply cut at any character', () => {
  const forms: Record<string, (items: unknown[]) => string> = {
    lines: (items) => items.map((item) => JSON.stringify(item)).join('\n'),
    pretty: (items) => items.map((item) => JSON.stringify(item, null, 2)).join('\n'),
    'an array': (items) => JSON.stringify(items),
    'a pretty array': (items) => JSON.stringify(items, null, 1),
    'an array, one item a line': (items) => `[\n${items.map((item) => JSON.stringify(item)).join(',\n')}\n]`,
    'a wrapper': (items) => JSON.stringify({ count: 2, items, done: true }),
    'a pretty wrapper': (items) => JSON.stringify({ name: 'f', arguments: { items } }, null, 2),
    fenced: (items) =>
      `Sure {here}:\n\`\`\`json\n${items.map((item) => JSON.stringify(item)).join('\n')}\n\`\`\``,
    'commas and marks': (items) =>
      items.map((item, index) => `${index}. ${JSON.stringify(item)},`).join('\n'),
    'unquoted keys': (items) => items.map((item) => JSON.stringify(item).replace('"e"', 'e')).join('\n'),
  }
  test.each(Object.entries(forms))('keeps every complete item and invents none: %s', (_, write) => {
    fc.assert(
      fc.property(fc.array(plainItem, { minLength: 1, maxLength: 3 }), (items) => {
        const text = write(items)
        expect(valuesOf(feed(createItemsParser(strictly), [text]))).toStrictEqual(items)
        let complete = 0
        for (let end = 0; end <= text.length; end++) {
          const values = valuesOf(feed(createItemsParser(strictly), [text.slice(0, end)]))
          expect(values).toStrictEqual(items.slice(0, values.length))
          expect(values.length).toBeGreaterThanOrEqual(complete)
          complete = values.length
        }
        expect(complete).toBe(items.length)
      }),
      { numRuns: 8 },
    )
  })
})

describe('an item', () => {
  test.each([
    ['a line', '{"e":"a","d":"1"}\n{"e":"b","d":"2"}\n'],
    ['in an array', '[{"e":"a","d":"1"},{"e":"b","d":"2"}]'],
    ['in a wrapper on one line', '{"items":[{"e":"a","d":"1"},{"e":"b","d":"2"}]}'],
    [
      'in a pretty wrapper',
      JSON.stringify(
        {
          items: [
            { e: 'a', d: '1' },
            { e: 'b', d: '2' },
          ],
        },
        null,
        2,
      ),
    ],
  ])('is given as soon as it is complete: %s', (_, text) => {
    const parser = createItemsParser(strictly)
    const given: number[] = []
    for (let at = 0; at < text.length; at++) {
      if (parser.push(text[at]!).length > 0) given.push(at)
    }
    const ends = [text.indexOf('}'), text.indexOf('}', text.indexOf('}') + 1)]
    expect(given).toStrictEqual(ends)
  })
})

describe('time and memory', () => {
  const time = (pieces: Iterable<string>) => {
    const start = performance.now()
    feed(createItemsParser(strictly), pieces)
    return performance.now() - start
  }
  const shapes: Record<string, (count: number) => string> = {
    'clean lines': (count) => '{"e":"a","d":"1"}\n'.repeat(count),
    'one endless string': (count) => `{"e":"${'x'.repeat(18 * count)}`,
    'one endless line of white space': (count) => `{${' '.repeat(18 * count)}`,
    'an array without elements that pass': (count) => `{"a":[${'{"x":1},'.repeat(2 * count)}`,
    'lines that begin like records': (count) => `{"e":[${'\n{"e":'.repeat(3 * count)}`,
    'unclosed strings': (count) => '{"e":"a","d":"1\n'.repeat(count),
    'quotes and braces': (count) => '{"'.repeat(9 * count),
    tags: (count) => '<think <'.repeat(2 * count),
    'nested arrays of records': (count) => `{"a":[\n{"e":1,"d":2}\n,`.repeat(count),
    'broken records': (count) => '{broken json\n'.repeat(count),
    'one endless broken record': (count) => `{broken ${'x } '.repeat(4 * count)}`,
    'escaped objects': (count) => '{\\"e\\":'.repeat(2 * count),
    'escaped objects, then a bare quote': (count) => `${'{\\"e\\":'.repeat(2 * count)}"`,
    'maps of maps': (count) => `{"a":{"b":{"e":1}},${'"x":{"e":{}},'.repeat(count)}`,
    'quotes and spaces': (count) => '" '.repeat(9 * count),
    'thoughts that are not closed': (count) => `<think>${'</thin [/ ◁'.repeat(2 * count)}`,
    'thoughts in plain words': (count) => `analysisA${'assistantfin '.repeat(2 * count)}`,
    'marks of channels': (count) => '<|channel|>x <|start|>y to='.repeat(count),
    'backslashes in a string': (count) => `{"e":"C:\\U${'\\n\\\\x'.repeat(4 * count)}"}`,
    'hex escapes in a string': (count) => `{"e":"${'\\xc3'.repeat(4 * count)}","d":1}`,
    'formulas in a string': (count) => `{"e":"${'\\( '.repeat(6 * count)}","d":1}`,
    'quotes before commas': (count) => `{"e":"${'"a", '.repeat(4 * count)}","d":1}`,
    'quotes before commas and letters': (count) => `{"e":"${'x", y '.repeat(4 * count)}","d":1}`,
    'joined strings': (count) => `{"e":"a"${' + "b"'.repeat(4 * count)},"d":1}`,
    'three quotes that are not closed': (count) => `{"e":${'"""'.repeat(6 * count)}`,
    'keys that lack a quote': (count) => '{entity" '.repeat(2 * count),
    'keys after keys': (count) => `{"e: "a", ${'"e: '.repeat(4 * count)}}`,
  }
  test.each(Object.entries(shapes))('grow with the text only: %s', (_, write) => {
    const best = (text: string) => Math.min(...[1, 2, 3].map(() => time(piecesOf(text, 64))))
    const small = best(write(4_000))
    // Eight times the text: quadratic would be 64 times. The machine may be busy.
    expect(best(write(32_000))).toBeLessThan(32 * small + 100)
  })

  test('a reply of 50 MB of garbage is skipped in bounded memory', () => {
    const parser = createItemsParser(strictly)
    const piece = 'x{"e":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.repeat(64)
    const before = process.memoryUsage().heapUsed
    let events = 0
    for (let fed = 0; fed < 50_000_000; fed += piece.length) events += parser.push(piece).length
    const { end } = parser.end()
    expect(end.truncated).toBe(true)
    expect(events).toBe(1)
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(150e6)
  })

  test('200,000 levels of nesting are one rejection, and do not delay the other lines', () => {
    const deep = 200_000
    for (const bomb of [
      `${'['.repeat(deep)}${']'.repeat(deep)}`,
      '['.repeat(deep),
      `${'{"a":'.repeat(deep)}1${'}'.repeat(deep)}`,
      `{"e":"a","d":${'['.repeat(deep)}`,
    ]) {
      const text = `{"e":"a","d":"1"}\n${bomb}\n{"e":"b","d":"2"}\n`
      for (const strict of [false, true]) {
        const { events } = feed(createItemsParser(strictly, { strict }), piecesOf(text, 65_536))
        expect(events.map((event) => (event.type === 'item' ? event.value : event.type))).toStrictEqual([
          { e: 'a', d: '1' },
          'rejected',
          { e: 'b', d: '2' },
        ])
      }
    }
  })
})
