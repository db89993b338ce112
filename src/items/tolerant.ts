// The tolerant parser turns the scanner's records into items, exact or repaired, or rejects them with a reason. Every record is read and
// validated once; only a wrapper's decision and a resync look a second time.
import { isObject } from '../is-object.ts'
import { excerptOf } from './excerpt.ts'
import type {
  ItemEvent,
  ItemsEnd,
  ItemsOptions,
  ItemsParser,
  RejectReason,
  RepairName,
  Thoughts,
} from './item.ts'
import { type RecordOptions, type RecordReading, readRecord, restoreDigits } from './record.ts'
import { wrapperDepth } from './record-scan.ts'
import type { RecordOutcome, Records } from './records.ts'
import { Scanner } from './scanner.ts'
import { meansWhatItSays } from './string-text.ts'
import type { ItemSchema } from './validate.ts'
import { inspect, isEllipsis, isPlain, WrittenNumbers } from './value.ts'
import { unwrap } from './wrapped.ts'

export const defaultMaxDepth = 64
export const defaultMaxRecord = 1_048_576

/** For tests: `wholeRecords: false` switches the fast path off, which must change nothing. */
export interface TolerantOptions extends ItemsOptions {
  readonly wholeRecords?: boolean
  /** How many levels of JSON texts in strings are read. Default 2. */
  readonly decodes?: number
}

const maxDecodes = 2

export function createTolerantParser(schema: ItemSchema | undefined, options: TolerantOptions): ItemsParser {
  const read = { maxDepth: options.maxDepth ?? defaultMaxDepth }
  const records = new Collector(schema, read, options)
  const scanner = new Scanner(records, {
    maxDepth: read.maxDepth,
    maxRecord: options.maxRecord ?? defaultMaxRecord,
    wholeRecords: options.wholeRecords ?? true,
    root: options.root,
  })
  return {
    get thoughts() {
      return records.thoughts
    },
    get thinking() {
      return scanner.thinking
    },
    push(text) {
      scanner.push(text)
      return records.drain()
    },
    end() {
      const { truncated, tail } = scanner.end()
      const { ignored, prose, endsInThought } = scanner
      const empty = records.silent && !truncated && !prose && !endsInThought
      const end: ItemsEnd = { truncated, ignored, tail: excerptOf(tail), empty }
      return { events: records.drain(), end }
    },
  }
}

const reasons: Readonly<
  Record<'broken' | 'invalid_json' | 'placeholder' | 'too_deep' | 'too_large', string>
> = {
  broken: 'It was not finished when the next record began.',
  invalid_json: 'It is not JSON: it begins with neither a key in quotes nor a key and a colon.',
  placeholder: 'It shows the form of an item: half of its texts or more are an ellipsis.',
  too_deep: 'It nests too deep.',
  too_large: 'It is too large.',
}

const none: readonly RepairName[] = []
const noEvents: readonly ItemEvent[] = []
const nothing = { text: '', thrown: undefined }

class Collector implements Records {
  /** Nothing was found so far: no items and no rejected records. */
  silent = true
  thoughts: Thoughts = { items: 0, rejected: 0 }
  #items = 0
  #rejected = 0
  readonly #schema: ItemSchema | undefined
  readonly #read: RecordOptions
  readonly #options: TolerantOptions
  /** The object that holds it may be the expected wrapper. */
  readonly #rootKey: string | undefined
  /** The last text that was not exact, and what JSON.parse threw for it, if anything. */
  #refused: { readonly text: string; readonly thrown: unknown } = nothing
  #events: ItemEvent[] | undefined

  constructor(schema: ItemSchema | undefined, read: RecordOptions, options: TolerantOptions) {
    this.#schema = schema
    this.#read = read
    this.#options = options
    this.#rootKey = options.root?.slice(1)
  }

  drain(): readonly ItemEvent[] {
    const events = this.#events
    this.#events = undefined
    return events ?? noEvents
  }

  get hasSchema(): boolean {
    return this.#schema !== undefined
  }

  get requires(): boolean {
    return this.#schema?.requires ?? false
  }

  lacks(keys: readonly string[]): boolean {
    return this.#schema?.lacks(keys) ?? false
  }

  exact(text: string, line: number): boolean {
    let value: Record<string, unknown>
    try {
      value = JSON.parse(text)
    } catch (thrown) {
      this.#refused = { text, thrown }
      return false
    }
    const depth = this.#read.maxDepth
    const plain =
      meansWhatItSays(text) &&
      (isPlain(value) || (inspect(value, depth, true) === 0 && !isPlaceholder(value)))
    const rooted = this.#rootKey !== undefined && Object.hasOwn(value, this.#rootKey)
    if (!plain || rooted || (this.#schema ? !this.#schema.test(value) : isEmptyWrapper(value, undefined))) {
      this.#refused = { text, thrown: undefined }
      return false
    }
    this.#say({ type: 'item', value, repairs: none, line })
    return true
  }

  record(text: string, line: number, how: { closed: boolean; recoverable: boolean }): RecordOutcome {
    // An exact record needs no closer look; one that was checked before is not checked again.
    if (!how.closed && this.#refused.text !== text && this.exact(text, line)) return 'taken'
    const { thrown } = how.closed ? nothing : this.#refused
    // The brace is on a line of its own, so that no comment swallows it.
    const reading = readRecord(how.closed ? `${text}\n}` : text, { ...this.#read, thrown })
    this.#refused = nothing
    if (!reading.ok) {
      if (how.recoverable && reading.reason === 'invalid_json') return 'unreadable'
      this.reject(reading.reason, line, text, reading.message)
      return 'taken'
    }
    if (this.#isWrapper(reading.value)) return 'wrapper'
    const judged = this.#judge(reading, how.closed ? ['closed'] : [])
    const { error } = judged
    if ((error !== undefined || !this.#schema) && isEmptyWrapper(reading.value, this.#schema)) return 'taken'
    if (error === undefined) this.#item(judged.value, judged.repairs, line)
    else if (!this.#unwrap(reading, judged.repairs, line))
      this.reject('schema', line, text, error, reading.json)
    return 'taken'
  }

  cut(text: string, line: number): void {
    const reading = readRecord(text, this.#read)
    if (reading.ok) this.#unwrap(reading, reading.repairs, line)
  }

  encoded(text: string, line: number): boolean {
    const inner = parseString(text)?.trim()
    const events = inner === undefined ? [] : this.#decode(inner)
    for (const event of events) this.#take(event, [], line)
    return events.length > 0
  }

  /** Reports what is inside an object that is no item; false when it holds none. */
  #unwrap({ json }: RecordReading, repairs: readonly RepairName[], line: number): boolean {
    if (this.#schema === undefined) return false
    const reading = readRecord(json, { ...this.#read, sources: true })
    if (!reading.ok || !isObject(reading.value)) return false
    const numbers = new WrittenNumbers(reading.numbers)
    const decode = (text: string) => this.#decode(text)
    const held = unwrap(reading.value, { schema: this.#schema, numbers, decode })
    const named = [...repairs, ...restoreDigits(reading)]
    for (const each of held) {
      if (each.type === 'item') this.#item(each.value, [...new Set([...named, ...each.repairs])], line)
      else if (each.type === 'decoded') this.#take(each.event, named, line)
      else {
        const text = JSON.stringify(each.value)
        this.reject('schema', line, text, each.error, text)
      }
    }
    return held.length > 0
  }

  /** The events of a text that was in a string: none unless it is one object, or holds an item. */
  #decode(text: string): readonly ItemEvent[] {
    const { decodes = maxDecodes } = this.#options
    if (decodes === 0) return []
    const parser = createTolerantParser(this.#schema, { ...this.#options, decodes: decodes - 1 })
    const events = [...parser.push(text)]
    const { events: last, end } = parser.end()
    events.push(...last)
    if (!events.some(({ type }) => type === 'item') && !readRecord(text, this.#read).ok) return []
    // The string is complete, so nothing will bring the rest.
    if (end.truncated) {
      const message = 'The text in the string ends in the middle of it.'
      events.push({ type: 'rejected', reason: 'broken', line: 1, text: end.tail, message })
    }
    return events
  }

  #take(event: ItemEvent, repairs: readonly RepairName[], line: number): void {
    if (event.type === 'rejected') this.reject(event.reason, line, event.text, event.message, event.record)
    else this.#item(event.value, [...new Set([...repairs, ...event.repairs, 'decoded' as const])], line)
  }

  thought(): void {
    this.thoughts = { items: this.#items, rejected: this.#rejected }
    this.silent = true
  }

  passes(text: string): boolean {
    const reading = readRecord(text, this.#read)
    if (!reading.ok || !isObject(reading.value)) return false
    if (this.#schema === undefined) return reading.repairs.length === 0
    return this.#judge(reading, []).error === undefined
  }

  reject(reason: RejectReason, line: number, text: string, message?: string, record?: string): void {
    const why = message ?? reasons[reason as keyof typeof reasons] ?? ''
    const whole = record === undefined ? {} : { record }
    this.#say({ type: 'rejected', reason, line, text: excerptOf(text), message: why, ...whole })
  }

  #item(value: unknown, repairs: readonly RepairName[], line: number): void {
    if (this.#schema && isPlaceholder(value)) {
      this.reject('placeholder', line, JSON.stringify(value))
      return
    }
    this.#say({ type: 'item', value, repairs, line })
  }

  #say(event: ItemEvent): void {
    this.silent = false
    if (event.type === 'item') this.#items++
    else this.#rejected++
    // A list of one is the most common by far; growing an empty list would make room for many.
    if (this.#events === undefined) this.#events = [event]
    else this.#events.push(event)
  }

  #judge(reading: RecordReading, repairs: readonly RepairName[]) {
    const { value } = reading
    const named = [...reading.repairs, ...repairs]
    if (this.#schema === undefined || this.#schema.test(value)) {
      return { value, repairs: [...named, ...restoreDigits(reading)], error: undefined }
    }
    return this.#adjust(reading, this.#schema, named)
  }

  #adjust(reading: RecordReading, schema: ItemSchema, named: readonly RepairName[]) {
    // Read again to have the digits of the numbers, so that `reading` stays unchanged.
    const again = readRecord(reading.json, { ...this.#read, sources: true })
    if (!again.ok) return { value: undefined, repairs: [], error: again.message }
    const { value, repairs, error } = schema.adjust(again.value, {
      numbers: new WrittenNumbers(again.numbers),
    })
    return { value, repairs: [...named, ...repairs, ...restoreDigits(again)], error }
  }

  /** Decided at the end of an object, unless it could be decided while reading. */
  #isWrapper(value: unknown): boolean {
    if (!isObject(value)) return false
    if (this.#schema === undefined) {
      const only = soleMember(value)
      return Array.isArray(only) && only.length > 0 && only.every(isObject)
    }
    if (this.#schema.requires || this.#schema.test(value)) return false
    return elementsOf(value, 1).some((element) => this.#passesValue(element))
  }

  #passesValue(value: unknown): boolean {
    return this.passes(JSON.stringify(value))
  }
}

/** The objects in the arrays of `value`, which is `level` deep, as far down as a wrapper's items may be. */
function elementsOf(value: Readonly<Record<string, unknown>> | readonly unknown[], level: number): unknown[] {
  if (level > wrapperDepth) return []
  return Object.values(value).flatMap((member: unknown) => {
    if (Array.isArray(member)) return elementsOf(member, level + 1)
    if (!isObject(member)) return []
    return Array.isArray(value) ? [member] : elementsOf(member, level + 1)
  })
}

/** Without a schema only `{"items":[]}` says "nothing"; an object that fails its schema may use any key. */
function isEmptyWrapper(value: unknown, schema: ItemSchema | undefined): boolean {
  if (!isObject(value)) return false
  const only = soleMember(value)
  return Array.isArray(only) && only.length === 0 && (schema !== undefined || Object.hasOwn(value, 'items'))
}

/** Whether a value only shows how an item is written, such as `{"entity": "..."}`. */
function isPlaceholder(value: unknown): boolean {
  if (!isObject(value)) return false
  const texts = Object.values(value).filter((member) => typeof member === 'string')
  const elided = texts.filter(isEllipsis)
  return elided.length > 0 && elided.length * 2 >= texts.length
}

function soleMember(object: Readonly<Record<string, unknown>>): unknown {
  const keys = Object.keys(object)
  return keys.length === 1 ? object[keys[0]!] : undefined
}

function parseString(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'string' ? value : undefined
  } catch {
    return undefined
  }
}
