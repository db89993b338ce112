// The items engine over replies as models write them and worse: it never throws, and gives the same events for every split.
import assert from 'node:assert/strict'
import type { ItemsOptions } from '../../src/items/item.ts'
import { valueIn } from '../../src/items/json-value.ts'
import { createItemsParser } from '../../src/items/parser.ts'
import { compileSchema } from '../../src/items/validate.ts'
import { feed, itemSchema } from '../items/replies.ts'
import { below, chance, many, mutated, pick, type Rng, size, split, text } from './random.ts'
import type { FuzzTarget } from './target.ts'

const schemas = [
  undefined,
  compileSchema(itemSchema),
  compileSchema({
    type: 'object',
    required: ['type', 'e'],
    properties: {
      type: { enum: ['definition', 'relationship'] },
      e: { type: 'string', minLength: 1, pattern: '^[^<]*$' },
      n: { type: 'number' },
      b: { type: 'boolean' },
      list: { type: 'array', uniqueItems: true, items: { type: 'string' } },
    },
  }),
]

export const items: FuzzTarget = {
  name: 'items',
  once(rng) {
    const reply = replyOf(rng)
    const schema = pick(rng, schemas)
    const options: ItemsOptions = {
      strict: chance(rng, 0.2),
      ...(chance(rng, 0.2) && { maxDepth: 1 + below(rng, 8) }),
      ...(chance(rng, 0.2) && { maxRecord: 1 + below(rng, 200) }),
    }
    const whole = feed(createItemsParser(schema, options), [reply])
    assert.deepStrictEqual(feed(createItemsParser(schema, options), split(rng, reply)), whole)
    for (const event of whole.events)
      if (event.type === 'item' && schema !== undefined && !options.strict)
        assert.ok(schema.test(event.value))
    if (chance(rng, 0.2)) valueIn(reply, { schema, objects: chance(rng, 0.5) })
  },
}

const pieces = [
  '{"e":"a","d":"1"}',
  '{"type":"definition","e":"a","n":1}',
  '{"type":"Relationship","e":"b","n":"2","b":"true","list":["x","x"]}',
  "{'e': 'it's', d: True}",
  '{"e": "say "no" to it", "d": NaN}',
  '{"items":[{"e":"a","d":"1"},{"e":"b","d":"2"}]}',
  '"{\\"e\\":\\"a\\",\\"d\\":1}"',
  '{“e”: “a”, “d”: 12345678901234567890}',
  '{"__proto__":{"x":1},"e":"\\ud83d","d":null,}',
  '{"e": "C:\\Users\\new", "d": "\\frac"}',
  '{"e": "a \\$5 \\(x\\)", "d": "\\xe9\\x41"}',
  '{"e": """a "b", c""", "d": "x" + "y"}',
  '{"e": "the "mill", as", "d": 1}',
  '{e" => "a", ["d"] = 1}',
  '{`e`：「a」，d: «1»｝',
  '"""',
  '\\n',
  ' + ',
  '...',
  '=>',
  '：',
  '，',
  '｛',
  '“',
  '`',
  '[THINK]',
  '[/THINK]',
  '◁think▷',
  '<|channel|>',
  'analysis',
  'final',
  '<|message|>',
  '<|start|>assistant to=',
  '<|end|>',
  '```json\n',
  '```\n',
  '<think>',
  '</think>',
  '<|im_end|>',
  'data: ',
  '- ',
  '// note\n',
  '/* note */',
  '\n',
  '\r\n',
  '[',
  ']',
  '{',
  '}',
  '"',
  "'",
  '\\',
  ',',
  ':',
  '"e":',
  '\u001e',
  ' ',
] as const

function replyOf(rng: Rng): string {
  const parts = many(1 + size(rng, 40), () =>
    chance(rng, 0.1) ? text(rng, size(rng, 40)) : pick(rng, pieces) + pick(rng, ['', '', '\n', ' ', ',']),
  )
  // One piece many times over shows what takes more than linear time.
  if (chance(rng, 0.1)) parts.splice(below(rng, parts.length), 0, pick(rng, parts).repeat(size(rng, 5000)))
  const reply = parts.join('')
  if (!chance(rng, 0.4)) return reply
  return mutated(rng, Buffer.from(reply)).toString(chance(rng, 0.5) ? 'utf8' : 'latin1')
}
