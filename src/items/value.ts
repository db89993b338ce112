// Inspects the result of JSON.parse once: is it finite, shallow, well-formed, free of `__proto__`, exact? Recursion is bounded by the depth
// limit, which is checked first.
import { isObject } from '../is-object.ts'

/** What `inspect` found, as bits. */
export const Finding = {
  proto: 1,
  surrogate: 2,
  /** A number of an integer's size that a double may not hold exactly. */
  bigInteger: 4,
  notFinite: 8,
  tooDeep: 16,
  /** An array that holds an object: perhaps a wrapper. */
  objectInArray: 32,
} as const

/**
 * Looks through `value`, which may nest `depth` levels. A `__proto__` key is reported and its value skipped. `wellFormed`: every string in
 * it is known to be well-formed, so none is checked.
 */
export function inspect(value: unknown, depth: number, wellFormed: boolean): number {
  if (typeof value === 'string') return wellFormed || value.isWellFormed() ? 0 : Finding.surrogate
  if (typeof value === 'number') return inspectNumber(value)
  if (typeof value !== 'object' || value === null) return 0
  if (depth <= 0) return Finding.tooDeep
  let found = 0
  if (Array.isArray(value)) {
    for (const element of value) {
      if (isObject(element)) found |= Finding.objectInArray
      found |= inspect(element, depth - 1, wellFormed)
    }
    return found
  }
  const object = value as Readonly<Record<string, unknown>>
  for (const key in object) {
    if (key === '__proto__') found |= Finding.proto
    else {
      const member = object[key]
      if (typeof member !== 'string' || !wellFormed) found |= inspect(member, depth - 1, wellFormed)
      if (!wellFormed && !key.isWellFormed()) found |= Finding.surrogate
    }
  }
  return found
}

/** Whether a text only stands for one that was left out. */
export function isEllipsis(text: string): boolean {
  return text.length <= 3 && (text === '...' || text === '…')
}

/** Whether an object is flat and needs no second look, except at its strings: faster than `inspect`, for the common case. */
export function isPlain(object: Readonly<Record<string, unknown>>): boolean {
  for (const key in object) {
    const member = object[key]
    if (typeof member === 'string') {
      if (isEllipsis(member)) return false
    } else if (typeof member === 'number') {
      if (!(Math.abs(member) <= Number.MAX_SAFE_INTEGER)) return false
    } else if (typeof member === 'object' && member !== null) return false
    if (key === '__proto__') return false
  }
  return true
}

/** Whether every string in the value of a JSON text is well-formed, as far as the text shows without parsing. */
export function isPlainlyWellFormed(json: string): boolean {
  return json.isWellFormed() && !json.includes('\\u')
}

function inspectNumber(value: number): number {
  if (!Number.isFinite(value)) return Finding.notFinite
  return Math.abs(value) > Number.MAX_SAFE_INTEGER ? Finding.bigInteger : 0
}

/** Drops every `__proto__` key and makes every string and key well-formed, in place; the order of keys stays. */
export function clean(value: unknown): void {
  if (Array.isArray(value)) {
    for (const [index, element] of value.entries()) {
      if (typeof element === 'string') value[index] = element.toWellFormed()
      else clean(element)
    }
  } else if (isObject(value)) {
    const entries = Object.entries(value)
    const rename = entries.some(([key]) => !key.isWellFormed())
    for (const [key, member] of entries) {
      if (rename || key === '__proto__') delete value[key]
      if (key === '__proto__') continue
      value[rename ? key.toWellFormed() : key] = typeof member === 'string' ? member.toWellFormed() : member
      clean(member)
    }
  }
}

/** A number's place in a value, and how the text wrote it. */
export interface NumberSource extends NumberPlace {
  readonly source: string
}

/** `WrittenNumbers` moves it with its value. */
export interface NumberPlace {
  holder: Record<string, unknown>
  key: string
}

/** Finds numbers by their place, also after a key was renamed or a value moved. */
export class WrittenNumbers {
  readonly #byHolder = new Map<object, Map<string, NumberSource>>()

  constructor(numbers: readonly NumberSource[]) {
    for (const number of numbers) this.#put(number)
  }

  /** How the number at a place was written. */
  source(holder: object, key: string): string | undefined {
    return this.#byHolder.get(holder)?.get(key)?.source
  }

  move(from: NumberPlace, to: NumberPlace): void {
    const members = this.#byHolder.get(from.holder)
    const number = members?.get(from.key)
    if (number === undefined) return
    members?.delete(from.key)
    this.#put(Object.assign(number, to))
  }

  #put(number: NumberSource): void {
    const members = this.#byHolder.get(number.holder)
    if (members) members.set(number.key, number)
    else this.#byHolder.set(number.holder, new Map([[number.key, number]]))
  }
}

type SourceReviver = (
  this: Record<string, unknown>,
  key: string,
  value: unknown,
  context: { source?: string },
) => unknown

/** JSON.parse that remembers how every number was written. Recursive: only for text known to be shallow. */
export function parseWithSources(json: string): { value: unknown; numbers: NumberSource[] } {
  const numbers: NumberSource[] = []
  const reviver: SourceReviver = function (key, value, context) {
    if (typeof value === 'number' && context.source !== undefined) {
      numbers.push({ holder: this, key, source: context.source })
    }
    return value
  }
  const parse = JSON.parse as (text: string, reviver: SourceReviver) => unknown
  return { value: parse(json, reviver), numbers }
}

/** Whether `source` is an integer that the double `value` does not hold exactly. */
export function isChangedInteger(value: number, source: string): boolean {
  return (
    Math.abs(value) > Number.MAX_SAFE_INTEGER && /^-?\d+$/.test(source) && BigInt(source) !== BigInt(value)
  )
}

/** A number of 53 bits: equal for equal values, whatever the order of their keys, and almost always different for others. */
export function fingerprint(value: unknown): number {
  high = 0x811c9dc5
  low = 0x9e3779b9
  mix(value)
  return (high >>> 0) * 0x200000 + (low >>> 11)
}

// The two halves of the running hash. `fingerprint` is synchronous, so they need no owner.
let high = 0
let low = 0

function mix(value: unknown): void {
  if (typeof value === 'string') mixText(value)
  else if (Array.isArray(value)) {
    mixText('[')
    for (const element of value) mix(element)
    mixText(']')
  } else if (isObject(value)) {
    // Members are hashed one by one from the same start and added up, so that their order does not matter.
    const startHigh = high
    const startLow = low
    let sumHigh = 0
    let sumLow = 0
    for (const key in value) {
      high = startHigh
      low = startLow
      mixText(key)
      mix(value[key])
      sumHigh = (sumHigh + high) | 0
      sumLow = (sumLow + low) | 0
    }
    high = Math.imul(startHigh ^ sumHigh, 0x85ebca6b)
    low = Math.imul(startLow ^ sumLow, 0xc2b2ae35)
  } else {
    high ^= 0x5bd1e995
    mixText(String(value))
  }
}

/** Four characters per step. Each half of the hash depends on the other, so that no character affects only one. */
function mixText(text: string): void {
  const { length } = text
  let first = high ^ length
  let second = low
  let index = 0
  for (; index + 3 < length; index += 4) {
    first = Math.imul(first ^ text.charCodeAt(index) ^ (text.charCodeAt(index + 1) << 16), 0x9e3779b1)
    second = Math.imul(second ^ text.charCodeAt(index + 2) ^ (text.charCodeAt(index + 3) << 16), 0x85ebca6b)
    first ^= second >>> 15
    second ^= first >>> 13
  }
  for (; index < length; index++) {
    first = Math.imul(first ^ text.charCodeAt(index), 0x9e3779b1)
    second = Math.imul(second ^ first, 0x85ebca6b)
    first ^= second >>> 15
  }
  high = Math.imul(first ^ (first >>> 16), 0x85ebca6b) ^ Math.imul(second ^ (second >>> 13), 0xc2b2ae35)
  low = Math.imul(second ^ (second >>> 16), 0x85ebca6b) ^ Math.imul(first ^ (first >>> 13), 0xc2b2ae35)
}
