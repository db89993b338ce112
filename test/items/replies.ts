// Replies as models write them, and worse: arbitraries for the properties of the items engine, and ways to feed it.
import fc from 'fast-check'
import type { ItemEvent, ItemsEnd, ItemsParser } from '../../src/items/item.ts'

export interface Outcome {
  readonly events: ItemEvent[]
  readonly end: ItemsEnd
}

/** Feeds a parser with pieces. */
export function feed(parser: ItemsParser, pieces: Iterable<string>): Outcome {
  const events: ItemEvent[] = []
  for (const piece of pieces) events.push(...parser.push(piece))
  const last = parser.end()
  return { events: [...events, ...last.events], end: last.end }
}

/** The text in pieces of `size` UTF-16 units. */
export function* piecesOf(text: string, size: number): Generator<string> {
  for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size)
}

export function valuesOf(outcome: Outcome): unknown[] {
  return outcome.events.flatMap((event) => (event.type === 'item' ? [event.value] : []))
}

export const itemSchema = { type: 'object', required: ['e', 'd'] }

const word = fc.constantFrom(
  'a',
  'b',
  'é',
  '😀',
  'x y',
  'use } here',
  '[1]',
  '"big"',
  'C:\\p',
  '``` ',
  '',
  'it’s',
  '\u2028',
  '{"e":1}',
  '\ud83d',
  '</think>',
)
const scalar: fc.Arbitrary<unknown> = fc.oneof(
  word,
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.constant(1e21),
  fc.array(word, { maxLength: 2 }),
  fc.record({ n: word }),
  fc.array(fc.record({ e: word, d: word }), { maxLength: 2 }),
)
export const item = fc.oneof(
  { weight: 4, arbitrary: fc.record({ e: word, d: scalar }) },
  fc.record({ d: word, e: word, x: scalar }),
  fc.record({ e: word }),
)

/** Passes `itemSchema`, and neither asks for a repair nor holds an item. */
export const plainItem = fc.record(
  {
    e: fc.constantFrom(
      'a',
      'é',
      '😀',
      'use } here',
      '[1]',
      '"big"',
      'C:\\p',
      '``` ',
      '',
      '</think>',
      '{"x":1}',
      'a\nb',
    ),
    d: fc.oneof(
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.constantFrom('x', '// y', ', ', '\u2028'),
      fc.array(fc.nat(), { maxLength: 2 }),
    ),
  },
  { noNullPrototype: true },
)

const written = fc
  .tuple(item, fc.constantFrom(undefined, undefined, 1, 2))
  .map(([value, indent]) => JSON.stringify(value, null, indent))

const noise = fc.constantFrom(
  '\n',
  '\n',
  '\n',
  '\n',
  '\r\n',
  '\r',
  ' ',
  ',',
  ',\n',
  '\n\n',
  '[',
  ']',
  ']\n',
  '}',
  '{',
  '"',
  "'",
  ':',
  '```json\n',
  '```\n',
  '~~~\n',
  'Here is { the list:\n',
  'Sure! ',
  '- ',
  '1. ',
  '// note\n',
  '# note\n',
  '/* c */',
  '/* c\n',
  '*/',
  '"[{\\"e\\":1}]",',
  '"see { or ["\n',
  '"\\n {\\"e\\":\\"a\\",\\"d\\":1}"',
  '<think>',
  '</think>\n',
  '<think a="b">\n',
  '<|eot_id|>',
  '<',
  '\u001e',
  '\ufeff',
  '\\',
  '\\u',
  '\u2028',
  'null\n',
  '42\n',
  '"text"\n',
  '{"items":[',
  '{"a":{"items":[',
  ']}',
  ']}\n',
  '{"e":"a","d":"1"',
  '{"e":"a","d":"1\n',
  '{"e":"a","d":\n',
  '{"e":"a","d":[\n',
  "{'e':'a','d':'it's'}\n",
  '{e:"a",d:1}\n',
  '{“e”:“a”,“d”:“b”}\n',
  '{"e":"a","d":"the "big" one"}\n',
  '{"e":"a" "d":"1"}\n',
  '{"e":"a","d":NaN}\n',
  '{"e":"a","d":1e999}\n',
  '{"e":"a","d":12345678901234567890}\n',
  '{"e":"a","d":True,}\n',
  '{"__proto__":{"x":1},"e":"a","d":"1"}\n',
  '{"e":"\\ud83d","d":"1"}\n',
  '"{\\"e\\":\\"a\\",\\"d\\":\\"1\\"}"\n',
  '"{\\"e\\":',
  '{"items":[]}',
  '{}',
  '[]',
  '{"e":"a", // c\n"d":"1"}\n',
  '{ /* c */ "e":"a","d":"1"}\n',
  '{"x":1},',
  '{name: x}\n',
  '{"e":"C:\\Users\\new","d":"1"}\n',
  '{"e":"\\frac","d":"\\$1"}\n',
  '{"e":"""a",b"""',
  '{"e":"a" + "b","d":1}\n',
  '{"e":"the "mill", as he","d":"1"}\n',
  '{"e":"the "mill", ',
  '{e" => "a", :d => 1}\n',
  '{["e"] = "a", d = "1"}\n',
  '{`e`：“a”，"d"：1｝\n',
  '\\n',
  '"""',
  '...',
  '[THINK]',
  '[/THINK]\n',
  '◁think▷',
  '<|channel|>analysis<|message|>',
  '<|end|><|start|>assistant<|channel|>final<|message|>',
  'analysisWe',
  'assistantfinal',
  '{broken json\n',
  '{broken',
  '{{',
  '}}',
)

/** A reply of items and noise in any order. */
export const reply = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: written },
      { weight: 2, arbitrary: noise },
      { weight: 1, arbitrary: fc.constant('\n') },
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''))

/** A text and the places at which it is cut. */
export function cutAnywhere(text: fc.Arbitrary<string>): fc.Arbitrary<{ whole: string; pieces: string[] }> {
  return fc
    .tuple(text, fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 12 }))
    .map(([whole, sizes]) => {
      const pieces: string[] = []
      let at = 0
      for (let turn = 0; at < whole.length; turn++) {
        const size = 1 + (sizes[turn % sizes.length] ?? 0) ** 2
        pieces.push(whole.slice(at, at + size))
        at += size
      }
      return { whole, pieces }
    })
}
