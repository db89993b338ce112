// The specification's plain line parser: trim, split at newlines, skip empty lines and fences, parse each line, check it. Nothing is repaired
// or unwrapped, except that an integer that a double would change becomes its digits, as everywhere.
import { isObject } from '../is-object.ts'
import { excerptOf } from './excerpt.ts'
import type { ItemEvent, ItemsOptions, ItemsParser, RejectReason } from './item.ts'
import { readRecord, restoreDigits } from './record.ts'
import { TextStore } from './text-store.ts'
import { defaultMaxDepth } from './tolerant.ts'
import type { ItemSchema } from './validate.ts'

/** What Python's `str.strip` removes: unlike JavaScript's `trim` U+001C-001F and U+0085, but not U+FEFF. */
const edge = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/

function strip(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && edge.test(text[start]!)) start++
  while (end > start && edge.test(text[end - 1]!)) end--
  return text.slice(start, end)
}

export function createStrictParser(schema: ItemSchema | undefined, options: ItemsOptions): ItemsParser {
  const store = new TextStore()
  const maxDepth = options.maxDepth ?? defaultMaxDepth
  let events: ItemEvent[] = []
  let position = 0
  let searched = 0
  let line = 1
  let ignored = 0
  let silent = true

  function reject(reason: RejectReason, text: string, message: string): void {
    silent = false
    events.push({ type: 'rejected', reason, line, text: excerptOf(text), message })
  }

  function readLine(raw: string): void {
    const text = strip(raw)
    if (text === '') return
    if (text.startsWith('```')) {
      ignored++
      return
    }
    const reading = readRecord(text, { maxDepth, exact: true })
    if (!reading.ok) {
      reject(reading.reason, text, reading.message)
      return
    }
    const error = schema && (isObject(reading.value) ? schema.check(reading.value) : 'It is not an object.')
    if (error !== undefined) {
      reject('schema', text, error)
      return
    }
    silent = false
    const repairs = restoreDigits(reading)
    events.push({ type: 'item', value: reading.value, repairs, line })
  }

  function drain(): ItemEvent[] {
    const drained = events
    events = []
    return drained
  }

  return {
    thoughts: { items: 0, rejected: 0 },
    thinking: false,
    push(text) {
      store.append(text)
      for (;;) {
        const end = store.indexOf('\n', Math.max(position, searched))
        if (end < 0) break
        readLine(store.slice(position, end))
        position = end + 1
        line++
      }
      searched = store.end
      store.drop(position)
      return drain()
    },
    end() {
      readLine(store.slice(position, store.end))
      return { events: drain(), end: { truncated: false, ignored, tail: '', empty: silent } }
    },
  }
}
