import { describe, expect, test } from 'vitest'
import { type ModelText, parseItems } from '../../src/items/parse-items.ts'

const schema = { type: 'object', properties: { e: { type: 'string' } }, required: ['e'] }
const text = 'Sure:\n{"e":"é"}\n{"x":1}\n{"E":"b"}\n{"e":"c'

async function eventsOf(source: ModelText) {
  const events = []
  for await (const event of parseItems(source, schema)) events.push(event)
  return events
}

async function* pieces() {
  for (const character of text) yield character
}

const bytes = [...new TextEncoder().encode(text)].map((byte) => Uint8Array.of(byte))

describe('parseItems', () => {
  test('gives items, rejections and the end, named repairs included', async () => {
    expect(await eventsOf(text)).toMatchObject([
      { type: 'item', value: { e: 'é' }, repairs: [], line: 2 },
      { type: 'rejected', reason: 'schema', line: 3, message: "must have required property 'e'" },
      { type: 'item', value: { e: 'b' }, repairs: ['names'], line: 4 },
      { type: 'end', truncated: true, tail: '{"e":"c', ignored: 1, empty: false, thoughts: { items: 0 } },
    ])
  })

  test.each<[string, ModelText]>([
    ['a list of texts', ['Sure:\n{"e":', text.slice(11)]],
    ['a generator of texts', pieces()],
    ['a stream of texts', ReadableStream.from(pieces())],
    ['a stream of bytes', ReadableStream.from(bytes)],
    ['the body of a response', new Response(text).body!],
  ])('gives the same for %s', async (_, source) => {
    expect(await eventsOf(source)).toStrictEqual(await eventsOf(text))
  })

  test('reads a schema by the draft that it names', async () => {
    const draft04 = { $schema: 'http://json-schema.org/draft-04/schema#', ...schema }
    const n = { type: 'integer', minimum: 3, exclusiveMinimum: true }
    const given = { ...draft04, properties: { ...schema.properties, n } }
    const events = []
    for await (const event of parseItems('{"e":"a","n":3}\n{"e":"b","n":4}', given)) events.push(event)
    expect(events).toMatchObject([
      { type: 'rejected', reason: 'schema', line: 1, message: '/n: must be > 3' },
      { type: 'item', value: { e: 'b', n: 4 } },
      { type: 'end' },
    ])
  })

  test('gives an item before the next piece is asked for', async () => {
    let asked = 0
    const source = (async function* () {
      for (const line of ['{"e":"a"}\n', '{"e":"b"}\n']) {
        asked++
        yield line
      }
    })()
    for await (const event of parseItems(source, schema)) {
      expect(event).toMatchObject({ type: 'item' })
      break
    }
    expect(asked).toBe(1)
  })

  test('takes every object without a schema, and reads strictly when asked', async () => {
    const found = []
    for await (const event of parseItems(`{"x":1}\n{'y':2}`, undefined, { strict: true }))
      found.push(event.type)
    for await (const event of parseItems(`{"x":1}\n{'y':2}`)) found.push(event.type)
    expect(found).toEqual(['item', 'rejected', 'end', 'item', 'item', 'end'])
  })

  test('refuses a schema that cannot be used, and passes on what its text throws', async () => {
    await expect(parseItems('', { type: 'nothing' }).next()).rejects.toMatchObject({ code: 'schema_invalid' })
    const broken = (async function* () {
      yield '{"e":'
      throw new Error('gone')
    })()
    await expect(eventsOf(broken)).rejects.toThrow('gone')
  })
})
