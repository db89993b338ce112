// The English prose of a text, which is all that the offline rules read. Code, data, logs, tables, headings, menus, page numbers, markup
// and other languages are left out: what the rules would make of them is nonsense. Every step takes linear time.

import { isEnglish, isForeign, isSmall, saysNoLanguage } from './language.ts'
import { markupFree } from './markup.ts'

/** A paragraph that may be prose, or an item of a list. */
interface Block {
  /** Its lines; each but the first with what joins it to the one before. */
  readonly lines: string[]
  /** The next line continues it. */
  open: boolean
}

/** The paragraphs, one a line, with white space collapsed; empty if the text is not English prose. */
export function proseOf(text: string): string {
  const paragraphs = blocksOf(markupFree(text)).map(({ lines }) => lines.join(''))
  const [first = ''] = paragraphs
  // A text of one line, as from `echo`, needs no full stop.
  if (paragraphs.length === 1 && !isTerminated(first) && !first.includes('. '))
    return isEnglish(first) && looksWritten(first) ? first : ''
  // The beginning of a chunk may be the end of a sentence.
  if (paragraphs.length > 1 && /^\p{Ll}/u.test(first)) paragraphs[0] = afterFirstSentence(first)
  const prose = paragraphs
    .map((paragraph) => paragraph.slice(0, lastStop(paragraph)))
    .filter((paragraph) => paragraph !== '')
  if (!prose.some(isEnglish)) return ''
  return prose.filter((paragraph) => isEnglish(paragraph) || saysNoLanguage(paragraph)).join('\n')
}

/** Whether a sentence is one of English prose. */
export function isProse(sentence: string): boolean {
  return looksWritten(sentence) && !isForeign(sentence)
}

const isTerminated = (text: string) => /[.!?…:;]["'”’)\]]{0,4}$/.test(text.slice(-5))

/** Where the last sentence ends; what follows is a heading, a menu, or cut off. */
function lastStop(text: string): number {
  for (let at = text.length - 1; at >= 0; at--) {
    if (!/[.!?…]/.test(text[at]!)) continue
    const closing = /^["'”’)\]]*/.exec(text.slice(at + 1, at + 4))![0].length
    const end = at + 1 + closing
    if (end === text.length || /\s/.test(text[end]!)) return end
  }
  return 0
}

function afterFirstSentence(text: string): string {
  const end = /[.!?…]["'”’)\]]*\s/.exec(text)
  return end ? text.slice(end.index + end[0].length) : ''
}

function blocksOf(text: string): Block[] {
  const blocks: Block[] = []
  let fence = ''
  let codeLines = 0
  let otherLines = 0
  for (const raw of withoutFrontMatter(text).split('\n')) {
    const line = raw.trim()
    const mark = /^(`{3,}|~{3,})/.exec(line)?.[1]?.slice(0, 3) ?? ''
    if (fence !== '' || mark !== '') {
      if (mark !== '') fence = fence === '' ? mark : fence === mark ? '' : fence
      close(blocks)
      continue
    }
    if (line === '') {
      close(blocks)
      continue
    }
    // The line before is a heading.
    if (/^(=+|-+)$/.test(line) && blocks.at(-1)?.lines.length === 1) blocks.pop()
    // A page number or a header between two halves of a sentence does not end it.
    if (isPageMark(line) || isTitle(line, blocks.at(-1))) continue
    if (isMachineLine(raw)) {
      if (!line.startsWith('|')) codeLines += 1
      close(blocks)
      continue
    }
    otherLines += 1
    add(blocks, line)
  }
  // Comments between lines of code are about the code.
  return codeLines > otherLines ? [] : blocks
}

function close(blocks: Block[]): void {
  const last = blocks.at(-1)
  if (last) last.open = false
}

/** Characters from which on a line may be wrapped: the next one continues its sentence. */
const wrapped = 40

function add(blocks: Block[], line: string): void {
  if (/^(#{1,6}\s|={2,})/.test(line)) {
    close(blocks) // a heading states nothing
    return
  }
  const item = /^(>|[-*+•]|\(?\d{1,3}[.)])\s+/.exec(line)
  const text = plain(item ? line.slice(item[0].length) : line)
  if (text === '') return
  const last = blocks.at(-1)
  const end = last?.lines.at(-1) ?? ''
  const isLower = /^\p{Ll}/u.test(text)
  const continues = (isLower || /^[(“"‘]/.test(text)) && !isTerminated(end) && end.length >= wrapped
  if (!last || item || !(last.open || continues)) blocks.push({ lines: [text], open: false })
  else if (isLower && /\p{Ll}-$/u.test(end)) {
    // `loco-` and `motive`.
    last.lines[last.lines.length - 1] = end.slice(0, -1)
    last.lines.push(text)
  } else last.lines.push(` ${text}`)
  blocks.at(-1)!.open = line.length >= wrapped || endsOpen(line)
}

/** A short line goes on if it ends within a phrase or a word. */
function endsOpen(line: string): boolean {
  return /,$|\p{Ll}-$/u.test(line.slice(-2)) || isSmall(/\S+$/.exec(line)![0])
}

/** Inline marks of Markdown and of encyclopaedias are removed. */
function plain(line: string): string {
  return line
    .replace(/!\[[^\][]{0,200}\]\([^()]{0,500}\)/g, '')
    .replace(/\[(?!\d)([^\][]{0,200})\](\([^()]{0,500}\)|\[[^\][]{0,100}\])/g, '$1')
    .replace(/\[(\d{1,3}|[a-z]|note \d+|citation needed|edit)\]/g, '')
    .replace(/\[\[(?:[^\][|]{0,200}\|)?([^\][|]{0,200})\]\]/g, '$1')
    .replace(/'{2,5}/g, '')
    .replace(/(?<![\p{L}\p{N}])(\*{1,3}|_{1,3}|`{1,2})(?=\S)([^*_`]{1,300}?)\1(?![\p{L}\p{N}])/gu, '$2')
    .replace(/\s+/g, ' ')
    .trim()
}

function withoutFrontMatter(text: string): string {
  const normal = text.replace(/\r\n?|\f|\u2028/g, '\n')
  if (!normal.startsWith('---\n')) return normal
  const end = normal.indexOf('\n---\n', 3)
  return end < 0 ? normal : normal.slice(end + 5)
}

/** `12`, `Page 3 of 12`, `- 4 -`, `xiv`. */
function isPageMark(line: string): boolean {
  return (
    line.length < 30 &&
    /^\W*((page|p\.|pg\.?)\s*)?(\d{1,4}|[ivxlc]{1,6})(\s*(of|\/|\|)\s*\d{1,4})?\W*$/i.test(line)
  )
}

/** A title, or the header of a page: all its words but the small ones begin with a capital. */
function isTitle(line: string, before: Block | undefined): boolean {
  if (line.length >= 60 || isTerminated(line) || line.endsWith(',')) return false
  if (before?.open && !isTerminated(before.lines.at(-1)!) && !/^\d|\d$/.test(line)) return false
  return line.split(/\s+/).every((word) => !/^\W*\p{Ll}/u.test(word) || isSmall(word))
}

const machine = [
  /^[[{\]}<|+]|^"[^"]*"\s*([:,\]}]|$)/, // JSON, tables, markup
  /[{};\\[(]$|=>|:=|[=!]=|\(\)|;\s*\/\//, // ends and signs of code
  /\w\((\w{2,}|["'])/, // calls
  /^(import|export|const|let|var|function|def|class|public|private|#include|package)\s.*(=\s|['"<]|\):)/,
  /^(\$|>>>|#!|\/\/|\/\*|--\s|<!--|@)/, // shells, comments
  /^[\w.-]+\s*=/, // settings
  /^[\w-]+(\.[\w-]+)*:(\s|$)(?<!^\p{Lu}\p{Ll}+:\s)/u, // YAML
  /^\W*\d{4}-\d\d-\d\d[T ]\d\d:\d\d|^\w{3} +\d+ \d\d:\d\d:\d\d|^\d\d:\d\d:\d\d/, // logs
  /^\W*(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b/,
  /^(at|File)\s+\S*["(/]/, // stack traces
]

function isMachineLine(raw: string): boolean {
  if (/\S\t|\s\|\s|\S\s{4,}\S/.test(raw)) return true // columns, menus
  const line = plain(raw)
  if (machine.some((sign) => sign.test(line))) return true
  // Comma-separated values: no space after the commas.
  const [joined, spaced] = [count(line, /[,;](?=[^\s\d'”’"])/g), count(line, /[,;]\s/g)]
  return joined > 1 && joined > spaced
}

const count = (text: string, pattern: RegExp) => (text.match(pattern) ?? []).length

/** Letters and words as in prose: none of the characters of code, no times of day with seconds, mostly words in lower case. */
function looksWritten(text: string): boolean {
  if (/[{}<>|\\^~=]|\]\(|\[\[|:\/\/|\d\d:\d\d:\d\d|",\s*"|\.{4,}|\S[=;]\S/.test(text)) return false
  const words = text.split(' ')
  const lower = words.filter((word) => /^["'“‘(]?\p{Ll}/u.test(word)).length
  const letters = count(text, /\p{L}/gu)
  return words.length >= 3 && letters >= 0.65 * text.replaceAll(' ', '').length && lower * 5 >= words.length
}
