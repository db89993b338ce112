// Turns a model's values into typed literals of XML Schema, or refuses them. Nothing is guessed: dates are not assembled, thousands
// separators are not removed. Integers, decimals and booleans get their canonical form.
import { namespaces } from '../rdf/vocabulary.ts'
import { isAnyLiteral } from './datatypes.ts'
import type { Clause } from './ontology.ts'

/** A lexical form and its datatype; null means xsd:string. */
export interface TypedLiteral {
  readonly value: string
  readonly datatype: string | null
}

/** The literal of `value` for a datatype property's range; undefined when it fits no datatype of the range. */
export function literalOf(
  value: string | number | boolean,
  range: readonly Clause[],
): TypedLiteral | undefined {
  if (range.length === 0) return { value: String(value), datatype: null }
  for (const datatype of range[0]!) {
    const lexical = lexicalOf(value, datatype)
    const others = range
      .slice(1)
      .every((clause) => clause.some((each) => lexicalOf(value, each) !== undefined))
    if (lexical !== undefined && others)
      return { value: lexical, datatype: isPlain(datatype) ? null : datatype }
  }
  return undefined
}

function isPlain(datatype: string): boolean {
  return isAnyLiteral(datatype) || datatype === `${namespaces.xsd}string`
}

/** The lexical form of a value in one datatype. A datatype outside XML Schema accepts any text. */
function lexicalOf(value: string | number | boolean, datatype: string): string | undefined {
  if (isPlain(datatype) || !datatype.startsWith(namespaces.xsd)) return String(value)
  const name = datatype.slice(namespaces.xsd.length)
  const form = Object.hasOwn(forms, name) ? forms[name] : undefined
  const text = typeof value === 'number' ? plainNumber(value) : String(value)
  return form === undefined ? text : form(keepsSpace.has(name) ? text : text.trim())
}

type LexicalForm = (text: string) => string | undefined

const keepsSpace = new Set(['string', 'normalizedString'])

const matching =
  (pattern: RegExp): LexicalForm =>
  (text) =>
    pattern.test(text) ? text : undefined

const integer =
  (least?: bigint, greatest?: bigint): LexicalForm =>
  (text) => {
    if (!/^[+-]?\d{1,1000}$/.test(text)) return undefined
    const value = BigInt(text.replace(/^\+/, ''))
    return (least !== undefined && value < least) || (greatest !== undefined && value > greatest)
      ? undefined
      : String(value)
  }

const bits = (count: bigint) => integer(-(2n ** (count - 1n)), 2n ** (count - 1n) - 1n)
const unsignedBits = (count: bigint) => integer(0n, 2n ** count - 1n)

const decimal: LexicalForm = (text) => {
  if (text.length > 1000) return undefined
  const match = /^([+-]?)(?=\.?\d)0*(\d*)(?:\.(\d*?)0*)?$/.exec(text)
  if (!match) return undefined
  const [, sign, whole = '', fraction = ''] = match
  const digits = `${whole || '0'}${fraction && `.${fraction}`}`
  return sign === '-' && digits !== '0' ? `-${digits}` : digits
}

const double = matching(/^(?:[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?INF|NaN)$/)

const boolean: LexicalForm = (text) => {
  if (/^(?:true|1)$/i.test(text)) return 'true'
  return /^(?:false|0)$/i.test(text) ? 'false' : undefined
}

const zone = '(?<zone>Z|[+-](?:(?:0\\d|1[0-3]):[0-5]\\d|14:00))?'
const year = '(?<year>-?(?:[1-9]\\d{3,}|0\\d{3}))'
const time = '(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?|24:00:00(?:\\.0+)?)'

/** A date or a part of one. The day must exist in the month. */
const calendar = (form: string, needsZone = false): LexicalForm => {
  const pattern = new RegExp(`^${form}${zone}$`)
  return (text) => {
    const groups = pattern.exec(text)?.groups
    if (!groups || (needsZone && groups['zone'] === undefined)) return undefined
    const { day, month = '01' } = groups
    if (Number(month) < 1 || Number(month) > 12) return undefined
    if (day === undefined) return text
    // Without a year, it may be a leap year.
    const leap = groups['year'] === undefined || isLeap(Number(groups['year']))
    const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][Number(month) - 1]!
    return Number(day) >= 1 && Number(day) <= days ? text : undefined
  }
}

const isLeap = (number: number) => (number % 4 === 0 && number % 100 !== 0) || number % 400 === 0
const date = `${year}-(?<month>\\d\\d)-(?<day>\\d\\d)`

const duration = (days: string): LexicalForm =>
  matching(new RegExp(`^-?P(?=.)${days}(?:T(?=.)(?:\\d+H)?(?:\\d+M)?(?:\\d+(?:\\.\\d+)?S)?)?$`))

/** The datatypes of XML Schema by name. */
const forms: Readonly<Record<string, LexicalForm>> = {
  string: (text) => text,
  normalizedString: matching(/^[^\t\n\r]*$/),
  token: (text) => text.replace(/\s+/g, ' '),
  language: matching(/^[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*$/),
  Name: matching(/^[\p{L}_:][\p{L}\p{N}\p{M}_:.·-]*$/u),
  NCName: matching(/^[\p{L}_][\p{L}\p{N}\p{M}_.·-]*$/u),
  NMTOKEN: matching(/^[\p{L}\p{N}\p{M}_:.·-]+$/u),
  boolean,
  decimal,
  integer: integer(),
  nonNegativeInteger: integer(0n),
  positiveInteger: integer(1n),
  nonPositiveInteger: integer(undefined, 0n),
  negativeInteger: integer(undefined, -1n),
  long: bits(64n),
  int: bits(32n),
  short: bits(16n),
  byte: bits(8n),
  unsignedLong: unsignedBits(64n),
  unsignedInt: unsignedBits(32n),
  unsignedShort: unsignedBits(16n),
  unsignedByte: unsignedBits(8n),
  double,
  float: double,
  date: calendar(date),
  dateTime: calendar(`${date}T${time}`),
  dateTimeStamp: calendar(`${date}T${time}`, true),
  time: calendar(time),
  gYear: calendar(year),
  gYearMonth: calendar(`${year}-(?<month>\\d\\d)`),
  gMonth: calendar('--(?<month>\\d\\d)'),
  gMonthDay: calendar('--(?<month>\\d\\d)-(?<day>\\d\\d)'),
  gDay: calendar('---(?<day>\\d\\d)'),
  duration: duration('(?:\\d+Y)?(?:\\d+M)?(?:\\d+D)?'),
  dayTimeDuration: duration('(?:\\d+D)?'),
  yearMonthDuration: matching(/^-?P(?=.)(?:\d+Y)?(?:\d+M)?$/),
  anyURI: matching(/^[^\s<>"{}|\\^`\0-\x1f]+$/),
  hexBinary: matching(/^(?:[0-9A-Fa-f]{2})*$/),
  base64Binary: matching(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/),
}

/** Whether XML Schema has the datatype; true for IRIs of other namespaces. */
export function isKnownDatatype(iri: string): boolean {
  return !iri.startsWith(namespaces.xsd) || Object.hasOwn(forms, iri.slice(namespaces.xsd.length))
}

/** A number without an exponent: `1e21` is not a lexical form of an integer or a decimal. */
function plainNumber(value: number): string {
  const text = String(value)
  const match = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(text)
  if (!match) return text
  const [, sign = '', first = '', rest = '', exponent] = match
  const digits = first + rest
  const point = 1 + Number(exponent)
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`
  return `${sign}${digits.padEnd(point, '0').slice(0, point)}${digits.length > point ? `.${digits.slice(point)}` : ''}`
}
