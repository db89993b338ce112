// The beginning of a record's text, for people: at most 200 characters, and a copy, so that it keeps no reply in memory.

const longest = 200

export function excerptOf(text: string): string {
  return Buffer.from(text.slice(0, longest).replace(/[\ud800-\udbff]$/, ''), 'utf16le').toString('utf16le')
}
