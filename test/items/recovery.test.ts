// Awkward replies, each with the items that stand in it: whole, in every split, cut anywhere, and never an invented item.
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { createItemsParser } from '../../src/items/parser.ts'
import { createTolerantParser } from '../../src/items/tolerant.ts'
import { compileSchema, type ItemSchema } from '../../src/items/validate.ts'
import { feed, piecesOf, valuesOf } from './replies.ts'

interface RecoveryCase {
  readonly name: string
  readonly schema: object
  readonly reply: string
  readonly expected: readonly unknown[]
  /** Who writes such replies, if known. */
  readonly writer?: string
}

const fixtures = ['recovery-cases.json', 'escapes-cases.json', 'directed-cases.json', 'formats-cases.json']
const cases = fixtures.flatMap((file): RecoveryCase[] =>
  JSON.parse(readFileSync(new URL(`fixtures/${file}`, import.meta.url), 'utf8')),
)

function itemsIn(reply: string, schema: ItemSchema): unknown[] {
  return valuesOf(feed(createItemsParser(schema), [reply]))
}

/** The texts, numbers and booleans in a value. */
function leavesOf(value: unknown): unknown[] {
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(leavesOf) : [value]
}

/** The letters and digits of a text in lower case, after the escapes and entities that name characters. */
function bare(text: string): string {
  const named = text
    .replace(/&(?:quot|amp|lt|gt|#34|#x22);/g, '')
    .replace(/\\u\{([0-9a-f]+)\}|\\U([0-9a-f]{8})/gi, (_, braced, long) =>
      String.fromCodePoint(Number.parseInt(braced ?? long, 16)),
    )
    .replace(/\\u([0-9a-f]{4})/gi, (_, unit) => String.fromCharCode(Number.parseInt(unit, 16)))
    .replace(/(?:\\x[0-9a-f]{2})+/gi, (bytes) => {
      const read = Buffer.from(bytes.replaceAll('\\x', ''), 'hex')
      return read.length > 1 ? read.toString() : read.toString('latin1')
    })
  return named.toLowerCase().replace(/\\[nrt]|[^\p{L}\p{N}\p{So}]|\ufffd/gu, '')
}

describe.each(cases)('$name', ({ schema: given, reply, expected }) => {
  const schema = compileSchema(given)

  test('gives the items that stand in it, in every split, by both ways through records', () => {
    const whole = feed(createItemsParser(schema), [reply])
    expect(valuesOf(whole)).toStrictEqual(expected)
    for (const size of [1, 2, 3, 7, 64]) {
      expect(feed(createItemsParser(schema), piecesOf(reply, size))).toStrictEqual(whole)
      expect(
        feed(createTolerantParser(schema, { wholeRecords: false }), piecesOf(reply, size)),
      ).toStrictEqual(whole)
    }
  })

  test('gives the first of these items wherever it is cut, and with more text never fewer', () => {
    let complete = 0
    for (let end = 0; end <= reply.length; end++) {
      const items = itemsIn(reply.slice(0, end), schema)
      expect(items).toStrictEqual(expected.slice(0, items.length))
      expect(items.length).toBeGreaterThanOrEqual(complete)
      complete = items.length
    }
  })

  test('invents nothing: every value stands in it, apart from the kind, which the schema knows', () => {
    const written = bare(reply)
    const kind = schema.discriminator?.property ?? ''
    const said = expected.map((item) => Object.entries(item as object).filter(([key]) => key !== kind))
    for (const leaf of leavesOf(said.map(Object.fromEntries))) {
      if (typeof leaf === 'boolean') expect(reply).toMatch(leaf ? /true|yes/i : /false|no/i)
      else if (typeof leaf === 'number') expect(reply).toContain(String(leaf).replace(/^0\./, '.'))
      else expect(written).toContain(bare(String(leaf)))
    }
  })

  test('changes no item that fits: written again as lines, each is exact', () => {
    const fitting = expected.filter((item) => schema.test(item))
    const { events } = feed(createItemsParser(schema), [
      fitting.map((item) => JSON.stringify(item)).join('\n'),
    ])
    expect(events).toMatchObject(fitting.map((value) => ({ type: 'item', value, repairs: [] })))
  })
})
