// Keywords that ajv checks in more than linear time, checked in linear time, so that a reply cannot block the process.
import type { Ajv } from 'ajv'
import { isObject } from '../is-object.ts'

/** Replaces ajv's `uniqueItems`, which compares every pair, and the format `url`, whose pattern backtracks. */
export function addLinearKeywords(ajv: Ajv): void {
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must NOT have duplicate items' },
    validate: (isAsked: boolean, items: readonly unknown[]) => !isAsked || areUnique(items),
  })
  ajv.addFormat('url', isUrl)
}

function areUnique(items: readonly unknown[]): boolean {
  return new Set(items.map(canonical)).size === items.length
}

/** The same text for values that are equal as JSON. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (!isObject(each)) return each
    return Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}

function isUrl(text: string): boolean {
  return /^(?:https?|ftp):\/\/[^\s/]/i.test(text) && !/\s/.test(text) && URL.canParse(text)
}
