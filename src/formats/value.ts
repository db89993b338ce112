// Parses one JSON text, or says why it is none. It accepts exactly what RFC 8259 allows; only what reading itself would spoil is
// repaired: the encoding, and integers beyond a double.

import type { RejectReason } from '../items/item.ts'
import { readRecord, restoreDigits } from '../items/record.ts'
import { redactCut } from '../redact.ts'
import type { FormatEvent, FormatRepair, FormatRules } from './format.ts'

const exact = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const forgiving = new TextDecoder('utf-8', { ignoreBOM: true })

/** UTF-8 bytes as text. Invalid bytes become U+FFFD, and `intact` is false. */
export function decode(bytes: Uint8Array): { readonly text: string; readonly intact: boolean } {
  try {
    return { text: exact.decode(bytes), intact: true }
  } catch {
    return { text: forgiving.decode(bytes), intact: false }
  }
}

/** Bytes that should be one JSON text. */
export interface Candidate {
  readonly bytes: Uint8Array
  readonly oversized: boolean
  readonly line: number
}

/** The event of a candidate: a record or a rejection. */
export function readValue(candidate: Candidate, rules: FormatRules): FormatEvent {
  const { text, intact } = decode(candidate.bytes)
  const reject = (reason: RejectReason, message: string): FormatEvent => ({
    ...shown(candidate.line, text, message),
    type: 'rejected',
    reason,
  })
  if (candidate.oversized) return reject('too_large', `The text is larger than ${rules.maxRecord} bytes.`)
  if (!intact && rules.strict) return reject('invalid_json', 'The text is not valid UTF-8.')
  const reading = readRecord(text, { maxDepth: rules.maxDepth, exact: true })
  if (!reading.ok) return reject(reading.reason, reading.message)
  const wrong = rules.check(reading.value)
  if (wrong !== undefined) return reject('schema', wrong)
  const digits = restoreDigits(reading)
  const repairs: FormatRepair[] = intact ? [...digits] : ['encoding', ...digits]
  const [number] = reading.bigIntegers
  const value = typeof reading.value === 'number' && number ? number.source : reading.value
  return { type: 'record', value, line: candidate.line, unterminated: false, repairs }
}

/** The place and the beginning of a text, for people. */
export function shown(line: number, text: string, message: string) {
  return { line, text: redactCut(text.trim(), 200).toWellFormed(), message }
}
