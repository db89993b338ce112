// The worked cases of the specification, tolerant and strict, whole and in pieces.
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { createItemsParser } from '../../src/items/parser.ts'
import { compileSchema } from '../../src/items/validate.ts'
import { feed, itemSchema, piecesOf, valuesOf } from './replies.ts'

interface Case {
  readonly id: string
  readonly name: string
  readonly input: string | null
  readonly input_is?: string
  readonly strict: string
  readonly expected: unknown
}

const cases: Case[] = JSON.parse(readFileSync(new URL('fixtures/jsonl-cases.json', import.meta.url), 'utf8'))
const a = '{"e":"a","d":"1"}'
const b = '{"e":"b","d":"2"}'
/** What `input_is` describes. */
const described: Readonly<Record<string, string>> = {
  C61: `${'['.repeat(5000)}${']'.repeat(5000)}\n${a}`,
  C63: `{"e":"a","d":"${'x'.repeat(12_000_000)}"}\n${b}`,
  C75: `${`${a}\n`.repeat(2000)}{"e":"a","d`,
}
const truncated = new Set(['C21', 'C23', 'C29', 'C48', 'C49', 'C51', 'C75'])
const schema = compileSchema(itemSchema)

function inputOf(each: Case): string {
  const input = each.input ?? described[each.id]
  if (input === undefined) throw new Error(`no input for ${each.id}`)
  return input
}

function expectedOf(each: Case): unknown {
  return each.id === 'C75' ? new Array(2000).fill({ e: 'a', d: '1' }) : each.expected
}

describe.each(cases)('$id $name', (each) => {
  const input = inputOf(each)

  test('gives the expected items, from the whole text and in pieces', () => {
    const whole = feed(createItemsParser(schema), [input])
    expect(valuesOf(whole)).toStrictEqual(expectedOf(each))
    expect(whole.end.truncated).toBe(truncated.has(each.id))
    for (const size of input.length > 100_000 ? [64] : [1, 2, 7, 64]) {
      expect(feed(createItemsParser(schema), piecesOf(input, size))).toStrictEqual(whole)
    }
  })

  test('gives what the line parser gives, when strict', () => {
    const { events } = feed(createItemsParser(undefined, { strict: true }), piecesOf(input, 4096))
    const counted = /^n=(\d+) w=(\d+)/.exec(each.strict)
    // Rejections here, where Python keeps Infinity or throws.
    const [kept, refused] =
      each.id === 'C37' ? [0, 1] : each.id === 'C61' ? [1, 1] : [Number(counted?.[1]), Number(counted?.[2])]
    expect(events.filter((event) => event.type === 'item')).toHaveLength(kept)
    expect(events.filter((event) => event.type === 'rejected')).toHaveLength(refused)
  })
})
