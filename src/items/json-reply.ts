// The value of a json reply as it stands: its first fenced block (bare or `json`), otherwise the whole text. Nothing is repaired.
import type { RejectReason, RepairName } from './item.ts'
import { readRecord, restoreDigits } from './record.ts'
import { defaultMaxDepth } from './tolerant.ts'

export interface JsonValue {
  readonly value: unknown
  /** Without further repairs only `proto`, `surrogate` or `big_integer`. */
  readonly repairs: readonly RepairName[]
  /** 1-based line on which the value begins. */
  readonly line: number
  /** Lines outside the value that are not blank. */
  readonly ignored: number
}

export interface NoJson {
  /** Why there is no value, in one sentence. */
  readonly error: string
  readonly reason: RejectReason
  readonly line: number
  readonly ignored: number
  /** The text that was tried. */
  readonly text: string
  /** The text ends in the middle of a value. */
  readonly truncated: boolean
}

/** Reads a json reply. Never throws. */
export function jsonFromReply(text: string): JsonValue | NoJson {
  const whole = { start: 0, end: text.length }
  // A reply that is JSON as a whole may hold fences in its strings.
  const place = isJson(text) ? whole : (fencedBlock(text) ?? whole)
  const body = text.slice(place.start, place.end)
  const start = place.start + (body.length - body.trimStart().length)
  const line = countLines(text.slice(0, start), false) + 1
  const ignored = countLines(text.slice(0, place.start), true) + countLines(text.slice(place.end), true)
  const reading = readJson(body.trim())
  if (!reading.ok) {
    const { message: error, reason } = reading
    const truncated = reason === 'invalid_json' && isCut(body)
    return { error, reason, line, ignored, text: body.trim(), truncated }
  }
  return { value: reading.value, repairs: [...reading.repairs, ...restoreDigits(reading)], line, ignored }
}

function readJson(text: string) {
  const options = { maxDepth: defaultMaxDepth }
  const exact = readRecord(text, { ...options, exact: true })
  // JSON.parse accepts the text, so only keys and strings need to be made safe.
  return exact.ok ? readRecord(text, options) : exact
}

const opening = /```[ \t]*(?:json\b)?[ \t]*(?=[\r\n[{"\d\-tfn])/iy
/** The opening fence of a block in another language. */
const foreignOpening = /```[^\n`]*\n/y
/** A fence in a string of the block does not end it; this many fences are tried. */
const maxFences = 32

/** A part of a text. */
export interface TextPlace {
  readonly start: number
  readonly end: number
}

/** The first block that is bare or json, otherwise the first of all. */
export function fencedBlock(text: string): TextPlace | undefined {
  let foreign: TextPlace | undefined
  for (let at = text.indexOf('```'); at >= 0; at = text.indexOf('```', at)) {
    opening.lastIndex = foreignOpening.lastIndex = at
    if (opening.test(text)) return blockFrom(text, opening.lastIndex)
    if (foreignOpening.test(text)) {
      const start = foreignOpening.lastIndex
      const end = text.indexOf('```', start)
      foreign ??= { start, end: end < 0 ? text.length : end }
      if (end < 0) break
      at = end
    }
    at += 3
  }
  return foreign
}

function blockFrom(text: string, start: number): TextPlace {
  let first = -1
  let end = text.indexOf('```', start)
  for (let tries = 0; end >= 0 && tries < maxFences; tries++) {
    if (isJson(text.slice(start, end))) return { start, end }
    if (first < 0) first = end
    end = text.indexOf('```', end + 1)
  }
  return { start, end: first < 0 ? text.length : first }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The lines of a text: those that are not blank, or all that end in it. */
export function countLines(text: string, filled: boolean): number {
  if (!filled) return text.split('\n').length - 1
  return text.split('\n').filter((line) => line.trim() !== '').length
}

/** Whether a string, an object or an array is still open at the end of `text`. */
function isCut(text: string): boolean {
  let depth = 0
  let string = false
  for (let index = 0; index < text.length; index++) {
    const character = text[index]
    if (string) {
      if (character === '\\') index++
      else if (character === '"') string = false
    } else if (character === '"') string = true
    else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') depth--
  }
  return string || depth > 0
}
