// Parses the text of one record: JSON.parse, or the named repairs, then the checks for every value. An exact value is passed on as it is; a
// value is never completed and never silently changed.
import type { RejectReason, RepairName } from './item.ts'
import { repairText } from './repair.ts'
import { swallowsLetters } from './string-text.ts'
import {
  clean,
  Finding,
  inspect,
  isChangedInteger,
  isPlainlyWellFormed,
  type NumberSource,
  parseWithSources,
} from './value.ts'

export interface RecordReading {
  readonly ok: true
  readonly value: unknown
  /** The record as JSON text, after the repairs. */
  readonly json: string
  readonly repairs: readonly RepairName[]
  /** The integers in `value` that a double changed. */
  readonly bigIntegers: readonly NumberSource[]
  /** How every number in `value` was written, if `sources` was set. */
  readonly numbers: readonly NumberSource[]
}

export interface Unreadable {
  readonly ok: false
  readonly reason: RejectReason
  readonly message: string
}

export interface RecordOptions {
  readonly maxDepth: number
  /** Leave the text with its keys and strings unchanged: no repairs except `big_integer`. */
  readonly exact?: boolean
  readonly sources?: boolean
  /** What JSON.parse threw for this very text, so that it is not called again. */
  readonly thrown?: unknown
}

/** Reads one record. Unless `exact`, its text must not nest much deeper than `maxDepth`. */
export function readRecord(text: string, options: RecordOptions): RecordReading | Unreadable {
  const parsed = parse(text, options)
  if (!parsed.ok) return parsed
  const { json, repairs } = parsed
  let { value } = parsed
  const found = inspect(value, options.maxDepth, isPlainlyWellFormed(json))
  if (found & Finding.tooDeep) {
    return { ok: false, reason: 'too_deep', message: `It nests more than ${options.maxDepth} levels.` }
  }
  if (found & Finding.notFinite || parsed.notFinite) {
    return { ok: false, reason: 'not_finite', message: 'It holds a number that is not finite.' }
  }
  let numbers: NumberSource[] = []
  if (options.sources || found & Finding.bigInteger) {
    const again = parseWithSources(json)
    value = again.value
    numbers = again.numbers
  }
  if (!options.exact && found & (Finding.proto | Finding.surrogate)) {
    clean(value)
    if (found & Finding.proto) repairs.push('proto')
    if (found & Finding.surrogate) {
      repairs.push('surrogate')
      numbers = numbers.map((number) => ({ ...number, key: number.key.toWellFormed() }))
    }
  }
  const bigIntegers = numbers.filter(({ holder, key, source }) => {
    const number = holder[key]
    return typeof number === 'number' && isChangedInteger(number, source)
  })
  return { ok: true, value, json, repairs, bigIntegers, numbers }
}

/** Replaces the integers that a double changed by their digits, in place. */
export function restoreDigits(reading: RecordReading): readonly RepairName[] {
  let restored = false
  for (const { holder, key, source } of reading.bigIntegers) {
    if (typeof holder[key] !== 'number') continue
    holder[key] = source
    restored = true
  }
  return restored ? ['big_integer'] : []
}

type Parsed =
  | { ok: true; value: unknown; json: string; repairs: RepairName[]; notFinite: boolean }
  | Unreadable

function parse(text: string, options: RecordOptions): Parsed {
  let thrown = options.thrown
  if (thrown === undefined) {
    try {
      const value: unknown = JSON.parse(text)
      if (options.exact || !swallowsLetters(text))
        return { ok: true, value, json: text, repairs: [], notFinite: false }
    } catch (caught) {
      thrown = caught
    }
  }
  if (options.exact && holdsNonFinite(text)) {
    return { ok: false, reason: 'not_finite', message: 'It holds a number that is not finite.' }
  }
  const repaired = options.exact ? undefined : repairText(text, options.maxDepth)
  const value = repaired === undefined ? undefined : parseRepaired(repaired.json)
  if (repaired === undefined || value === undefined) {
    return { ok: false, reason: 'invalid_json', message: `It is not JSON: ${sentence(thrown)}` }
  }
  const { json, repairs, notFinite } = repaired
  return { ok: true, value, json, repairs: [...repairs], notFinite }
}

/** Strings, and the words that other JSON writers use for numbers that are not finite. */
// A string without an end is taken up to the end of the text, so that nothing is searched twice.
const stringsAndNonFinite = /"(?:[^"\\]|\\.)*"?|-?\bInfinity\b|\bNaN\b/g

/** Whether a text that JSON.parse refuses would be JSON except for NaN or Infinity, which Python's parser accepts. */
function holdsNonFinite(text: string): boolean {
  const finite = text.replace(stringsAndNonFinite, (found) => (found[0] === '"' ? found : '0'))
  return finite !== text && parseRepaired(finite) !== undefined
}

function parseRepaired(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

/** V8's message without the excerpt of the text that it quotes. */
function sentence(thrown: unknown): string {
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  return message.replace(/,? *(?:\.\.\.)?"[\s\S]*" is not valid JSON$/, '')
}
