// The beginning of a record's text, for people: at most 200 characters, copied so that it does not keep the reply in memory.

import { beyondCut, redactCut } from '../redact.ts'

const longest = 200
/** Characters of a text that its excerpt depends on. */
export const excerptSource = longest + beyondCut

export function excerptOf(text: string): string {
  return Buffer.from(redactCut(text, longest).replace(/[\ud800-\udbff]$/, ''), 'utf16le').toString('utf16le')
}
