// The value that a reply gives, or what is wrong with it: the whole text exactly, or the one value somewhere in it.
import type { RepairName } from '../../items/item.ts'
import { valueIn, type WantedValue } from '../../items/json-value.ts'

export type FoundValue =
  | { readonly type: 'value'; readonly value: unknown; readonly repairs: readonly RepairName[] }
  | { readonly type: 'not_json' | 'failed'; readonly problem: string; readonly cause?: unknown }

/** The whole text as JSON, as `complete` reads it: nothing is searched for or repaired. */
export function exactValue(text: string, check: (value: unknown) => string | undefined): FoundValue {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    const problem = text.trim() === '' ? 'it is empty' : (cause as Error).message
    return { type: 'not_json', problem, cause }
  }
  const problem = check(value)
  return problem === undefined ? { type: 'value', value, repairs: [] } : { type: 'failed', problem }
}

/** The one value that a reply holds, anywhere in its text, repaired if need be. */
export function foundValue(reply: string, wanted: WantedValue): FoundValue {
  const found = valueIn(reply, wanted)
  if (!('error' in found)) return { type: 'value', value: found.value, repairs: found.repairs }
  return { type: found.reason === 'schema' ? 'failed' : 'not_json', problem: found.error }
}
