// How templates see values: only JSON data, only own members, truth as in Python, output as JSON.
import { isObject } from '../../is-object.ts'

/** Objects, arrays and booleans as JSON; null as nothing; text and numbers as they are. */
export function show(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** Undefined, null, false, 0, NaN, and empty texts, lists and objects are false. */
export function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0
  if (isObject(value)) return Object.keys(value).length > 0
  return Boolean(value)
}

/** A value's own member; undefined when there is none. A negative index counts from the end; text and lists have `length`. */
export function member(value: unknown, key: unknown): unknown {
  if (typeof value === 'string' || Array.isArray(value)) {
    if (key === 'length') return value.length
    const index = typeof key === 'string' && /^\d+$/.test(key) ? Number(key) : key
    return Number.isInteger(index) ? value.at(index as number) : undefined
  }
  if (!isObject(value) || (typeof key !== 'string' && typeof key !== 'number')) return undefined
  return Object.hasOwn(value, key) ? value[key] : undefined
}

/** What a value is, for messages. */
export function describeValue(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'string') return 'text'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
