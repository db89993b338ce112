// Python's values, as far as templates of TrustGraph see them: truth, str() and repr(), equality, order, iteration, indexes.
// Integers are bigints, floats are numbers, and an undefined name is undefined. Texts are counted in code points.

import { codePoints } from '../../../code-points.ts'
import type { PythonJson } from '../../../formats/python-json.ts'

export type Value =
  | undefined
  | null
  | boolean
  | bigint
  | number
  | string
  | readonly Value[]
  | ReadonlyMap<string, Value>
  | Tuple
  | Range
  | View
  | Iterator
  | Callable

export class Tuple {
  readonly items: readonly Value[]

  constructor(items: readonly Value[]) {
    this.items = items
  }
}

export class Range {
  readonly start: bigint
  readonly stop: bigint
  readonly step: bigint

  constructor(start: bigint, stop: bigint, step: bigint) {
    this.start = start
    this.stop = stop
    this.step = step
  }

  get length(): bigint {
    const [from, to, by] =
      this.step > 0n ? [this.start, this.stop, this.step] : [this.stop, this.start, -this.step]
    return to > from ? (to - from - 1n) / by + 1n : 0n
  }

  at(index: bigint): bigint {
    return this.start + index * this.step
  }
}

/** What `d.items()`, `d.keys()` and `d.values()` give. */
export class View {
  readonly kind: 'items' | 'keys' | 'values'
  readonly dict: ReadonlyMap<string, Value>

  constructor(kind: View['kind'], dict: ReadonlyMap<string, Value>) {
    this.kind = kind
    this.dict = dict
  }

  elements(): Value[] {
    if (this.kind === 'items') return [...this.dict].map((pair) => new Tuple(pair))
    return [...(this.kind === 'keys' ? this.dict.keys() : this.dict.values())]
  }
}

/** It can be looped over once. */
export class Iterator {
  #items: readonly Value[]

  constructor(items: readonly Value[]) {
    this.#items = items
  }

  take(): readonly Value[] {
    const items = this.#items
    this.#items = []
    return items
  }
}

/** A method of a value, or a function of the engine. */
export class Callable {
  /** As Python writes it when it is not called, with an address that is always the same. */
  readonly text: string
  readonly call: (args: readonly Value[]) => Value

  constructor(text: string, call: (args: readonly Value[]) => Value) {
    this.text = text
    this.call = call
  }
}

/** What Python would raise. */
export class PythonFault extends Error {}

/** Counts the work on values; throws when it is too much. */
export type Cost = (steps: number) => void

/** A decoded JSON value, in which 1.0 is 1 already. */
export function fromJson(value: unknown): Value {
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : value
  if (Array.isArray(value)) return value.map(fromJson)
  if (typeof value !== 'object' || value === null) return value as PythonJson
  return new Map(Object.entries(value).map(([key, member]) => [key, fromJson(member)]))
}

const isList = (value: Value): value is readonly Value[] => Array.isArray(value)
const isDict = (value: Value): value is ReadonlyMap<string, Value> => value instanceof Map
const isNumeric = (value: Value): value is boolean | bigint | number =>
  ['boolean', 'bigint', 'number'].includes(typeof value)

/** The type's name in Python. */
export function typeOf(value: Value): string {
  if (value === undefined) return 'an undefined name'
  if (value === null) return 'None'
  if (typeof value !== 'object') return scalarTypes[typeof value] ?? 'an object'
  if (isList(value)) return 'list'
  if (isDict(value)) return 'dict'
  if (value instanceof Tuple) return 'tuple'
  if (value instanceof Range) return 'range'
  if (value instanceof View) return 'view'
  return value instanceof Iterator ? 'an iterator' : 'a method'
}

const scalarTypes: Readonly<Record<string, string>> = {
  boolean: 'bool',
  bigint: 'int',
  number: 'float',
  string: 'str',
}

export function isTrue(value: Value): boolean {
  if (typeof value === 'string') return value !== ''
  const length = lengthOf(value)
  return length === undefined ? Boolean(value) : length > 0
}

/** len(), or undefined for what has none. */
export function lengthOf(value: Value): number | undefined {
  if (value === undefined) return 0
  if (typeof value === 'string') return codePoints(value)
  if (isList(value)) return value.length
  if (isDict(value)) return value.size
  if (value instanceof Tuple) return value.items.length
  if (value instanceof Range) return Number(value.length)
  return value instanceof View ? value.dict.size : undefined
}

const maxRange = 100_000

/** The elements, or undefined for what cannot be looped over. */
export function elementsOf(value: Value, cost: Cost): readonly Value[] | undefined {
  if (value === undefined) return []
  if (value instanceof Iterator) return value.take()
  if (typeof value === 'string') cost(value.length / 16)
  const length = lengthOf(value)
  if (length === undefined) return undefined
  cost(length)
  if (typeof value === 'string') return [...value]
  if (isList(value)) return value
  if (isDict(value)) return [...value.keys()]
  if (value instanceof Tuple) return value.items
  if (value instanceof View) return value.elements()
  if (length > maxRange) throw new PythonFault(`range is longer than ${maxRange}`)
  const range = value as Range
  return Array.from({ length }, (_, index) => range.at(BigInt(index)))
}

export function elements(value: Value, cost: Cost): readonly Value[] {
  const found = elementsOf(value, cost)
  if (found === undefined) throw new PythonFault(`${typeOf(value)} cannot be looped over`)
  return found
}

/** str() */
export function show(value: Value, cost: Cost): string {
  if (value === undefined) return ''
  return typeof value === 'string' ? value : repr(value, cost)
}

/** repr() */
export function repr(value: Value, cost: Cost): string {
  cost(typeof value === 'string' ? 1 + value.length / 16 : 1)
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number') return reprFloat(value)
  if (typeof value === 'string') return reprText(value)
  const inner = (items: readonly Value[]) => items.map((item) => repr(item, cost)).join(', ')
  if (isList(value)) return `[${inner(value)}]`
  if (value instanceof Tuple) return `(${inner(value.items)}${value.items.length === 1 ? ',' : ''})`
  if (isDict(value))
    return `{${[...value].map(([key, member]) => `${repr(key, cost)}: ${repr(member, cost)}`).join(', ')}}`
  if (value instanceof Range)
    return `range(${value.start}, ${value.stop}${value.step === 1n ? '' : `, ${value.step}`})`
  if (value instanceof View) return `dict_${value.kind}([${inner(value.elements())}])`
  if (value === undefined) return '<ibis.context.Undefined object at 0x7f0000000000>'
  if (value instanceof Callable) return value.text
  throw new PythonFault(`${typeOf(value)} has no text`)
}

function reprFloat(value: number): string {
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  if (Object.is(value, -0)) return '-0.0'
  const [digits, exponent] = value.toExponential().split('e') as [string, string]
  const power = Number(exponent)
  if (power < -4 || power >= 16)
    return `${digits}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`
  const decimals = digits.replace(/^-?\d\.?/, '').length
  return value.toFixed(Math.max(1, decimals - power))
}

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\' }

function reprText(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'"
  const escaped = text.replace(/[\\'"]|(?! )[\p{C}\p{Z}]/gu, (character) => {
    if (character === "'" || character === '"') return character === quote ? `\\${character}` : character
    const code = character.codePointAt(0)!
    const hex = code.toString(16)
    const wide = code > 0xffff ? `\\U${hex.padStart(8, '0')}` : `\\u${hex.padStart(4, '0')}`
    return escapes[character] ?? (code <= 0xff ? `\\x${hex.padStart(2, '0')}` : wide)
  })
  return quote + escaped + quote
}

/** `left == right` */
export function equals(left: Value, right: Value, cost: Cost): boolean {
  cost(1)
  if (left === undefined || right === undefined) return false
  // biome-ignore lint/suspicious/noDoubleEquals: 1n == 1 and True == 1, as in Python
  if (isNumeric(left) && isNumeric(right)) return left == right
  if (typeof left === 'string' && typeof right === 'string') {
    cost(Math.min(left.length, right.length) / 64)
    return left === right
  }
  const [a, b] = [itemsOfSequence(left), itemsOfSequence(right)]
  if (a && b && isList(left) === isList(right))
    return a.length === b.length && a.every((item, index) => isSame(item, b[index], cost))
  if (isDict(left) && isDict(right))
    return (
      left.size === right.size &&
      [...left].every(([key, item]) => right.has(key) && isSame(item, right.get(key), cost))
    )
  if (left instanceof Range && right instanceof Range) return equalRanges(left, right)
  return left === right
}

/** Python compares elements by identity first. */
const isSame = (left: Value, right: Value, cost: Cost) =>
  (left === undefined && right === undefined) || equals(left, right, cost)

function equalRanges(left: Range, right: Range): boolean {
  const { length } = left
  if (length !== right.length) return false
  return length === 0n || (left.start === right.start && (length === 1n || left.step === right.step))
}

function itemsOfSequence(value: Value): readonly Value[] | undefined {
  if (value instanceof Tuple) return value.items
  return isList(value) ? value : undefined
}

/** Below 0, 0 or above 0; NaN when neither is less. */
export function compare(left: Value, right: Value, cost: Cost): number {
  cost(1)
  if (isNumeric(left) && isNumeric(right)) {
    if (left < right) return -1
    // biome-ignore lint/suspicious/noDoubleEquals: 1n == 1 and True == 1, as in Python
    return left > right ? 1 : left == right ? 0 : Number.NaN
  }
  if (typeof left === 'string' && typeof right === 'string') return compareTexts(left, right, cost)
  const [a, b] = [itemsOfSequence(left), itemsOfSequence(right)]
  if (!a || !b || isList(left) !== isList(right))
    throw new PythonFault(`${typeOf(left)} and ${typeOf(right)} cannot be compared`)
  for (const [index, item] of a.entries()) {
    if (index >= b.length) return 1
    if (!isSame(item, b[index], cost)) return compare(item, b[index], cost)
  }
  return a.length - b.length
}

/** By code points: a surrogate pair is above every other code unit. */
function compareTexts(left: string, right: string, cost: Cost): number {
  const shorter = Math.min(left.length, right.length)
  cost(shorter / 64)
  let at = 0
  while (at < shorter && left.charCodeAt(at) === right.charCodeAt(at)) at++
  if (at === shorter) return left.length - right.length
  const rank = (code: number) => (code >= 0xe000 ? code - 0x2000 : code >= 0xd800 ? code + 0x2000 : code)
  return rank(left.charCodeAt(at)) - rank(right.charCodeAt(at))
}

/** `part in whole` */
export function contains(whole: Value, part: Value, cost: Cost): boolean {
  if (whole === undefined) return false
  if (typeof whole === 'string') {
    if (typeof part !== 'string') throw new PythonFault(`${typeOf(part)} in a text`)
    cost((1 + whole.length / 64) * (1 + part.length / 64))
    return whole.includes(part)
  }
  if (isDict(whole) || (whole instanceof View && whole.kind === 'keys')) {
    if (!isHashable(part)) throw new PythonFault(`${typeOf(part)} cannot be a key`)
    return typeof part === 'string' && (isDict(whole) ? whole : whole.dict).has(part)
  }
  return elements(whole, cost).some((element) => isSame(element, part, cost))
}

function isHashable(value: Value): boolean {
  if (value instanceof Tuple) return value.items.every(isHashable)
  return value !== undefined && !isList(value) && !isDict(value)
}

/** `value[key]`; throws PythonFault when there is none. */
export function item(value: Value, key: Value, cost: Cost): Value {
  if (isDict(value)) {
    if (typeof key === 'string' && value.has(key)) return value.get(key)
  } else if (typeof key === 'bigint' || typeof key === 'boolean') {
    const found = itemAt(value, BigInt(key), cost)
    if (found !== undefined) return found.value
  }
  throw new PythonFault(`${typeOf(value)} has no such element`)
}

function itemAt(value: Value, key: bigint, cost: Cost): { readonly value: Value } | undefined {
  if (typeof value !== 'string' && !(value instanceof Range) && !itemsOfSequence(value)) return undefined
  if (typeof value === 'string') cost(value.length / 16)
  const length = value instanceof Range ? value.length : BigInt(lengthOf(value)!)
  const index = key < 0n ? key + length : key
  if (index < 0n || index >= length) return undefined
  if (value instanceof Range) return { value: value.at(index) }
  if (typeof value !== 'string') return { value: itemsOfSequence(value)![Number(index)] }
  return { value: characterAt(value, Number(index)) }
}

function characterAt(text: string, index: number): string | undefined {
  let place = 0
  for (const character of text) if (place++ === index) return character
  return undefined
}

/** `value[start:stop:step]` of a text, list, tuple or range. */
export function slice(value: Value, [start, stop, step]: readonly Value[], cost: Cost): Value {
  const sequence = typeof value === 'string' || value instanceof Range || itemsOfSequence(value)
  if (!sequence) throw new PythonFault(`${typeOf(value)} cannot be sliced`)
  const whole = elements(value, cost)
  const by = step === null || step === undefined ? 1 : Number(step)
  const bounds = [start, stop, step ?? null]
  if (by === 0 || bounds.some((bound) => bound !== null && typeof bound !== 'bigint'))
    throw new PythonFault('a slice needs whole numbers')
  const [first, last] = sliceBounds(start as bigint | null, stop as bigint | null, by, whole.length)
  const taken: Value[] = []
  for (let at = first; by > 0 ? at < last : at > last; at += by) taken.push(whole[at])
  if (typeof value === 'string') return taken.join('')
  if (value instanceof Tuple) return new Tuple(taken)
  if (!(value instanceof Range)) return taken
  const range = value
  return new Range(range.at(BigInt(first)), range.at(BigInt(last)), range.step * BigInt(by))
}

function sliceBounds(
  start: bigint | null,
  stop: bigint | null,
  step: number,
  length: number,
): readonly [number, number] {
  const [least, most] = step > 0 ? [0, length] : [-1, length - 1]
  const place = (bound: bigint | null, otherwise: number) => {
    if (bound === null) return otherwise
    const at = Number(bound) + (bound < 0n ? length : 0)
    return Math.min(Math.max(at, least), most)
  }
  return step > 0 ? [place(start, 0), place(stop, length)] : [place(start, length - 1), place(stop, -1)]
}
