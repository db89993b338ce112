import { describe, expect, test } from 'vitest'
import { extractRows } from '../../processors/extract-rows.ts'
import { readTable } from '../../src/rows/definition.ts'
import { type RowSchema, rowSchema } from '../../src/rows/row-schema.ts'
import { documentStatus, extractChunk } from '../support/extract-chunk.ts'

function schema(name: string, ...fields: object[]): RowSchema {
  return rowSchema(readTable(name, { fields }, { at: [], report: (_, message) => expect.fail(message) })!)
}

const mill = schema(
  'mill',
  { name: 'name', primary_key: true },
  { name: 'opened', type: 'integer', required: true },
)
const river = schema('river', { name: 'name', primary_key: true }, { name: 'navigable', type: 'boolean' })
const rowSchemas = [mill, river]

/** Replies by the table that the prompt asks for. */
const byTable =
  (replies: Readonly<Record<string, string>>) => (request: { messages: readonly { content: string }[] }) =>
    replies[/the table "(.+?)"/.exec(request.messages.at(-1)!.content)![1]!] ?? ''

describe('rows', () => {
  test('are asked for once for each schema, and each schema is a unit of work', async () => {
    const { prompts, progress } = await extractChunk(
      extractRows,
      byTable({ mill: '{"name": "Albion Mills", "opened": 1786}' }),
      {
        settings: { rowSchemas },
      },
    )
    expect(prompts.map((prompt) => /the table "(.+?)"/.exec(prompt)?.[1]).sort()).toEqual(['mill', 'river'])
    expect(prompts.every((prompt) => prompt.includes('Once upon a time'))).toBe(true)
    const last = progress.filter((entry) => entry.last).map(({ unit, incomplete }) => [unit, incomplete])
    expect(last.sort()).toEqual([
      ['extract-rows:mill', null],
      ['extract-rows:river', null],
    ])
  })

  test('become a message of their table, with texts, typed values and the span of the chunk', async () => {
    const text = `Albion Mills opened in 1786. ${'x'.repeat(70)}😀 and so on.`
    const reply =
      '{"name": "Albion Mills", "opened": "1786"}\n{"name": "Kirk Mill", "opened": 1785, "note": null}\n'
    const { rows, counted } = await extractChunk(extractRows, [reply, ''], {
      settings: { rowSchemas: [mill] },
      chunk: { text, offset: 4000, part: 1, index: 2 },
    })
    const payloads = rows.map(({ payload }) => payload)
    expect(payloads.flatMap(({ values }) => values)).toEqual([
      { name: 'Albion Mills', opened: '1786' },
      { name: 'Kirk Mill', opened: '1785', note: '' },
    ])
    expect(payloads.flatMap(({ typed }) => typed)).toEqual([
      '{"name":"Albion Mills","opened":1786}',
      '{"name":"Kirk Mill","opened":1785,"note":null}',
    ])
    const span = { offset: 4000, length: text.length, text: text.slice(0, 99) }
    for (const payload of payloads)
      expect(payload).toMatchObject({ schemaName: 'mill', confidence: 0.8, sourceSpan: span })
    expect(counted).toEqual({ facts: { rows: 2 }, rejected: {} })
  })

  test('that break their schema are rejected with the reason, and the others of the reply are kept', async () => {
    const reply = [
      '{"name": "Albion Mills", "opened": "soon"}',
      '{"name": "", "opened": 1}',
      '{"opened": 1}',
      '{"x": 1}',
      '{"name": "Kirk Mill", "opened": 1785}',
    ].join('\n')
    const { rows, rejected, counted } = await extractChunk(extractRows, [reply, ''], {
      settings: { rowSchemas: [mill] },
    })
    expect(rows.flatMap(({ payload }) => payload.values)).toEqual([{ name: 'Kirk Mill', opened: '1785' }])
    expect(rejected.map(({ message }) => message).sort()).toEqual([
      '/name: must NOT have fewer than 1 characters',
      '/opened: must be integer',
      'The row has no value for any field of mill.',
      "must have required property 'name'",
    ])
    expect(counted).toEqual({ facts: { rows: 1 }, rejected: { schema: 3, empty: 1 } })
  })

  test('that are all refused leave the unit of their table partial, without another call, and no other unit', async () => {
    const replies = { mill: '{"opened": 1}\n{"name": "Kirk Mill", "opened": "soon"}', river: '' }
    const { prompts, progress } = await extractChunk(extractRows, byTable(replies), {
      settings: { rowSchemas },
    })
    expect(prompts).toHaveLength(2)
    const units = ['extract-rows:mill', 'extract-rows:river']
    expect(documentStatus(progress, units)).toMatchObject({
      state: 'partial',
      units: { done: 1, partial: 1 },
      incomplete: { no_facts: 1 },
      totals: { rejected: { schema: 2 } },
    })
    const kept = await extractChunk(
      extractRows,
      byTable({ ...replies, river: '{"name": "Thames", "navigable": 1}' }),
      {
        settings: { rowSchemas },
      },
    )
    expect(kept.rows.map(({ payload }) => [payload.values, payload.typed])).toEqual([
      [[{ name: 'Thames', navigable: 'True' }], ['{"name":"Thames","navigable":true}']],
    ])
  })

  test('with a list or an object for a boolean are rejected, whatever it holds, and cost no other row', async () => {
    const reply = [[1], [[0]], { toString: 1 }, 1].map((navigable) =>
      JSON.stringify({ name: 'Thames', navigable }),
    )
    const { rows, rejected } = await extractChunk(extractRows, [reply.join('\n')], {
      settings: { rowSchemas: [river] },
    })
    expect(rows.flatMap(({ payload }) => payload.typed)).toEqual(['{"name":"Thames","navigable":true}'])
    expect(rejected.map(({ message }) => message)).toEqual(Array(3).fill('/navigable: must be boolean,null'))
  })

  test('have booleans and numbers in a text field as Python writes them', async () => {
    const reply = '{"name": true, "opened": 1}\n{"name": 1e-7, "opened": 2}'
    const { rows } = await extractChunk(extractRows, [reply], { settings: { rowSchemas: [mill] } })
    expect(rows.flatMap(({ payload }) => payload.values.map(({ name }) => name))).toEqual(['True', '1e-07'])
  })

  test('of nothing are nothing: no message, and the unit is done when the model said so', async () => {
    const { rows, progress } = await extractChunk(extractRows, ['[]'], { settings: { rowSchemas: [mill] } })
    expect(rows).toEqual([])
    expect(progress.at(-1)).toMatchObject({ unit: 'extract-rows:mill', last: true, incomplete: null })
  })

  test('are not asked for without a schema', async () => {
    const { prompts, progress } = await extractChunk(extractRows, ['{"name": "x"}'])
    expect([...prompts, ...progress]).toEqual([])
  })

  test('with huge texts are split so that every message fits', async () => {
    // Characters without a phrase that repeats: the reading of a reply stops at a loop.
    const text = String.fromCharCode(...Array.from({ length: 60_000 }, (_, at) => 0x4e00 + (at % 20_000)))
    const reply = Array.from({ length: 6 }, (_, index) =>
      JSON.stringify({ name: `${index}${text}`, opened: index }),
    ).join('\n')
    const { rows, counted } = await extractChunk(extractRows, [reply, ''], {
      settings: { rowSchemas: [mill] },
    })
    expect(rows.flatMap(({ payload }) => payload.values)).toHaveLength(6)
    expect(counted.facts).toEqual({ rows: 6 })
  })
})

test('a reply for a schema that is gone is dead, and its unit with it', async () => {
  const changing = [mill]
  const script = () => {
    changing[0] = river // while the model writes
    return '{"name": "Albion Mills", "opened": 1786}'
  }
  const { rows, progress } = await extractChunk(extractRows, script, { settings: { rowSchemas: changing } })
  expect(rows).toEqual([])
  const error = expect.objectContaining({ type: 'row_schema_unknown' })
  for (const entry of progress)
    expect(entry).toMatchObject({ kind: 'dead', unit: 'extract-rows:mill', error })
  expect(progress.length).toBeGreaterThan(0)
})
