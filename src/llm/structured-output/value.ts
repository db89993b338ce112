// From what a model wrote to the one value that was asked for: the whole text, its fenced block, or the JSON somewhere in it.
// When there are several values, the one that fits the schema is taken, and none when more than one fits.
import { jsonFromReply } from '../../items/json-reply.ts'
import { answerStart } from '../../items/thinking-markers.ts'
import { flatJson } from '../cache/canonical.ts'
import { jsonBlocks } from './json-in-text.ts'

export type FoundValue =
  | { readonly type: 'value'; readonly value: unknown }
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
  return problem === undefined ? { type: 'value', value } : { type: 'failed', problem }
}

export interface WantedValue {
  readonly check: ((value: unknown) => string | undefined) | undefined
  /** Objects were asked for: nothing else is an answer. */
  readonly objects: boolean
}

/** The one value that a reply holds, anywhere in its text. */
export function valueIn(reply: string, { check = () => undefined, objects }: WantedValue): FoundValue {
  const text = reply.slice(answerStart(reply))
  const whole = jsonFromReply(text)
  const first = 'error' in whole || (objects && !isContainer(whole.value)) ? undefined : whole
  const problem = first && check(first.value)
  if (first && problem === undefined && !(objects && !isObjects(first.value)))
    return { type: 'value', value: first.value }
  const found = valuesIn(text, objects)
  const fitting = [...new Map(found.filter((value) => check(value) === undefined).map(byJson)).values()]
  if (found.length > 1 && check(found) === undefined) return { type: 'value', value: found }
  if (fitting.length === 1) return { type: 'value', value: fitting[0] }
  if (problem !== undefined && fitting.length === 0) return { type: 'failed', problem }
  if (fitting.length > 1)
    return { type: 'failed', problem: `there are ${fitting.length} answers, and one is due` }
  if (found.length > 0) return { type: 'failed', problem: check(found.length === 1 ? found[0] : found)! }
  return { type: 'not_json', problem: 'error' in whole ? whole.error : 'there is no JSON object' }
}

function valuesIn(text: string, objects: boolean): unknown[] {
  return jsonBlocks(text).flatMap((block) => {
    const read = jsonFromReply(block)
    if ('error' in read) return []
    if (!objects) return [read.value]
    return [read.value].flat().filter((value) => isContainer(value) && !Array.isArray(value))
  })
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function isObjects(value: unknown): boolean {
  if (!Array.isArray(value)) return isContainer(value)
  return value.length > 0 && value.every((each) => isContainer(each) && !Array.isArray(each))
}

function byJson(value: unknown): [string, unknown] {
  return [flatJson(value), value]
}
