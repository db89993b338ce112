// The one value that a json reply holds: the whole text, its fenced block, or the JSON somewhere in it. When there are several, the one that
// fits the schema is taken, and none when more than one fits. Only when none fits as it stands, the repairs of items are tried.
import { isObject } from '../is-object.ts'
import type { ItemEvent } from './item.ts'
import { jsonBlocks } from './json-in-text.ts'
import {
  countLines,
  fencedBlock,
  type JsonValue,
  jsonFromReply,
  type NoJson,
  type TextPlace,
} from './json-reply.ts'
import { readRecord, restoreDigits } from './record.ts'
import { answerStart } from './thinking-markers.ts'
import { createTolerantParser, defaultMaxDepth } from './tolerant.ts'
import type { ItemSchema } from './validate.ts'
import { fingerprint, WrittenNumbers } from './value.ts'

export interface WantedValue {
  readonly schema: ItemSchema | undefined
  /** Objects were asked for: nothing else is an answer. */
  readonly objects: boolean
}

/** The value that was asked for. Never throws. The time is linear in the text. */
export function valueIn(reply: string, wanted: WantedValue): JsonValue | NoJson {
  const start = answerStart(reply)
  const thoughts = reply.slice(0, start)
  const found = valueInAnswer(reply.slice(start), wanted)
  const ignored = found.ignored + countLines(thoughts, true)
  return start === 0 ? found : { ...found, line: found.line + countLines(thoughts, false), ignored }
}

function valueInAnswer(text: string, wanted: WantedValue): JsonValue | NoJson {
  const { schema, objects } = wanted
  const check = (value: unknown) => schema?.check(value)
  const whole = jsonFromReply(text)
  const first = 'error' in whole || (objects && !isContainer(whole.value)) ? undefined : whole
  const problem = first && check(first.value)
  if (first && problem === undefined && !(objects && !isObjects(first.value))) return first

  const blocks = blocksIn(text, objects)
  const values = blocks.map(({ value }) => value)
  if (blocks.length > 1 && check(values) === undefined) return { ...placed(text, blocks), value: values }
  const fitting = distinct(blocks.filter(({ value }) => check(value) === undefined))
  const failed = { ...failedAt(text, whole), reason: 'schema' as const }
  if (fitting.length > 1) return { ...failed, error: tooMany(fitting.length) }
  if (fitting[0]) return { ...placed(text, fitting), value: fitting[0].value }

  const repaired = repairedValue(text, wanted)
  if ('value' in repaired) return repaired
  const error =
    problem ??
    repaired.problem ??
    (values.length > 0 ? check(values.length === 1 ? values[0] : values) : undefined)
  if (error !== undefined) return { ...failed, error }
  return 'error' in whole
    ? whole
    : { ...failedAt(text, whole), reason: 'invalid_json', error: 'there is no JSON object' }
}

/** A value in the text, and the block that holds it. */
interface Block extends Pick<JsonValue, 'value' | 'repairs'> {
  readonly block: string
}

function blocksIn(text: string, objects: boolean): Block[] {
  return jsonBlocks(text).flatMap((block) => {
    const read = jsonFromReply(block)
    if ('error' in read) return []
    const { repairs } = read
    if (!objects) return [{ block, value: read.value, repairs }]
    return [read.value].flat().flatMap((value) => (isObject(value) ? [{ block, value, repairs }] : []))
  })
}

/** What is known of a value that the text holds in these blocks. */
function placed(text: string, blocks: readonly Block[]): Omit<JsonValue, 'value'> {
  const start = text.indexOf(blocks[0]!.block)
  const last = blocks.at(-1)!.block
  const end = text.indexOf(last, start) + last.length
  return { ...around(text, { start, end }), repairs: [...new Set(blocks.flatMap(({ repairs }) => repairs))] }
}

function around(text: string, place: TextPlace): Pick<JsonValue, 'line' | 'ignored'> {
  const { end } = place
  const start = place.start + text.slice(place.start, end).search(/\S|$/)
  const ignored = countLines(text.slice(0, start), true) + countLines(text.slice(end), true)
  return { line: countLines(text.slice(0, start), false) + 1, ignored }
}

function failedAt(text: string, { line, ignored }: Pick<JsonValue, 'line' | 'ignored'>) {
  return { line, ignored, text: text.trim(), truncated: false }
}

/** The value after repairs of its text, or as its schema directs; otherwise what is wrong with it, if it is JSON at all. */
function repairedValue(
  text: string,
  { schema, objects }: WantedValue,
): JsonValue | { readonly problem?: string } {
  let problem: string | undefined
  const whole = { start: 0, end: text.length }
  for (const place of new Set([whole, fencedBlock(text) ?? whole])) {
    const reading = readRecord(text.slice(place.start, place.end).trim(), {
      maxDepth: defaultMaxDepth,
      sources: true,
    })
    // A word of prose is no value.
    if (!reading.ok || !(isContainer(reading.value) || reading.repairs.length === 0)) continue
    const numbers = new WrittenNumbers(reading.numbers)
    const { value, repairs, error } = schema?.adjust(reading.value, { numbers }) ?? {
      ...reading,
      repairs: [],
      error: undefined,
    }
    if (error === undefined && (!objects || isObjects(value)))
      return {
        ...around(text, place),
        value,
        repairs: [...reading.repairs, ...repairs, ...restoreDigits(reading)],
      }
    if (isContainer(reading.value)) problem ??= error
  }
  if (schema === undefined) return {}
  const listed = objects ? undefined : listIn(text, schema)
  if (listed && 'value' in listed) return listed
  const found = listed?.truncated ? noItems : itemsIn(text, schema)
  const items = distinct(found.events.filter((event) => event.type === 'item'))
  if (items.length > 1) return { problem: tooMany(items.length) }
  if (items[0]) return { ...items[0], ignored: found.ignored }
  return problem === undefined ? {} : { problem }
}

/** The objects of a text as the list that a schema asks for, if nothing of them is broken. */
function listIn(text: string, schema: ItemSchema): JsonValue | { readonly truncated: boolean } {
  const { events, ignored, truncated } = itemsIn(text, undefined)
  const items = events.filter((event) => event.type === 'item')
  if (items.length === 0 || items.length < events.length) return { truncated }
  const list = items.map(({ value }) => value)
  const { value, repairs, error } = schema.adjust(list, { numbers: new WrittenNumbers([]) })
  if (error !== undefined) return { truncated }
  const named = new Set([...items.flatMap((item) => item.repairs), ...repairs])
  // The list was not written as a list, so at least one repair is named.
  return { value, repairs: named.size === 0 ? ['unwrapped'] : [...named], line: items[0]!.line, ignored }
}

interface ItemsInText {
  readonly events: readonly ItemEvent[]
  readonly ignored: number
  readonly truncated: boolean
}

const noItems: ItemsInText = { events: [], ignored: 0, truncated: true }

/** The items of a text, none if it ends in the middle of one, which no schema changes. */
function itemsIn(text: string, schema: ItemSchema | undefined): ItemsInText {
  const parser = createTolerantParser(schema, { maxRecord: text.length })
  const events = [...parser.push(text)]
  const { events: last, end } = parser.end()
  const { truncated, ignored } = end
  return truncated ? noItems : { events: [...events, ...last], ignored, truncated }
}

function distinct<T extends { readonly value: unknown }>(found: readonly T[]): T[] {
  return [...new Map(found.map((each) => [fingerprint(each.value), each])).values()]
}

function tooMany(count: number): string {
  return `there are ${count} answers, and one is due`
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isObjects(value: unknown): boolean {
  if (!Array.isArray(value)) return isContainer(value)
  return value.length > 0 && value.every(isObject)
}
