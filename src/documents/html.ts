// The text of an HTML page: headings, paragraphs, lists and tables as lines, without links, pictures, scripts or styles.
import { convert, type DomNode, type FormatCallback } from 'html-to-text'
import { GraphmillError } from '../errors.ts'

/**
 * Throws `document_not_utf8` for bytes that are not in the encoding they name (UTF-8 unless they name one), `document_broken` for a
 * page whose tags are nested deeper than the stack is, and `document_too_large` for one whose text would be longer than any.
 */
export function htmlText(bytes: Uint8Array): string {
  try {
    return converted(decode(bytes))
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    if (cause.message.includes('call stack'))
      throw new GraphmillError('document_broken', 'its tags are nested too deep.', { cause })
    throw new GraphmillError('document_too_large', 'its text would be longer than a text can be.', { cause })
  }
}

function converted(page: string): string {
  return convert(page, {
    wordwrap: false,
    limits: { maxInputLength: Number.MAX_SAFE_INTEGER },
    formatters: { table },
    selectors: [
      { selector: 'a', options: { ignoreHref: true } },
      { selector: 'table', format: 'table', options: { uppercaseHeaderCells: false } },
      // For those outside of a proper table.
      ...['caption', 'tr', 'td', 'th'].map((selector) => ({ selector, format: 'block' })),
      ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({
        selector,
        options: { uppercase: false },
      })),
      ...['img', 'script', 'style', 'template', 'noscript', 'svg'].map((selector) => ({
        selector,
        format: 'skip',
      })),
    ],
  })
}

/** Rows or columns that one cell may span. Otherwise a few bytes of HTML would make gigabytes of empty table. */
const maxSpan = 100

/** The captions, then the cells in rows and columns. The library leaves out other text, so a table with such text is read as a block. */
const table: FormatCallback = (element, walk, builder, options) => {
  const { dataTable, block } = builder.options.formatters!
  const captions = element.children.filter(({ name }) => name === 'caption')
  const body = { ...element, children: element.children.filter(({ name }) => name !== 'caption') }
  walk(captions, builder)
  if (isRegular(body.children)) {
    clampSpans(body.children)
    dataTable!(body, walk, builder, options)
  } else block!(body, walk, builder, options)
}

const groups = new Set(['thead', 'tbody', 'tfoot', 'center'])

/** Whether all text is in cells of rows. */
function isRegular(nodes: readonly DomNode[], inRow = false): boolean {
  return nodes.every(({ type, name = '', data = '', children }) => {
    if (type === 'text') return data.trim() === ''
    if (type !== 'tag' || name === 'colgroup' || name === 'col') return true
    if (inRow) return name === 'td' || name === 'th'
    return name === 'tr' ? isRegular(children, true) : groups.has(name) && isRegular(children)
  })
}

/** Clamps the spans of the table's own cells; nested tables are formatted separately. A cell that spans nothing would be left out. */
function clampSpans(nodes: readonly DomNode[]): void {
  for (const { name = '', attribs = {}, children } of nodes) {
    if (name === 'td' || name === 'th') {
      for (const span of ['colspan', 'rowspan'])
        if (attribs[span] !== undefined) attribs[span] = String(clamped(Number(attribs[span])))
    } else clampSpans(children ?? [])
  }
}

const clamped = (span: number) => Math.min(maxSpan, Math.max(1, Math.trunc(span) || 1))

/** Decodes by the byte order mark, otherwise by the charset that the first kilobyte names. */
function decode(bytes: Uint8Array): string {
  const head = Buffer.from(bytes.subarray(0, 1024)).toString('latin1')
  const marked = head.startsWith('\xfe\xff')
    ? 'utf-16be'
    : head.startsWith('\xff\xfe')
      ? 'utf-16le'
      : undefined
  const named = /<meta[^>]+charset\s*=\s*["']?([\w:.-]+)/i.exec(head)?.[1]
  const encoding = marked ?? named ?? 'utf-8'
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new GraphmillError('document_not_utf8', `it is not in ${encoding}.`, { cause })
  }
}
