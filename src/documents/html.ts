// The text of an HTML page: headings, paragraphs, lists and tables as lines; no links, pictures, scripts or styles.
import { convert, type DomNode, type FormatCallback } from 'html-to-text'
import { GraphmillError } from '../errors.ts'

/**
 * Throws `document_not_utf8` for bytes that are not in the encoding they name (UTF-8 unless they name one), and
 * `document_broken` for a page whose tags are nested deeper than the stack is.
 */
export function htmlText(bytes: Uint8Array): string {
  try {
    return converted(decode(bytes))
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    throw new GraphmillError('document_broken', 'its tags are nested too deep.', { cause })
  }
}

function converted(page: string): string {
  return convert(page, {
    wordwrap: false,
    limits: { maxInputLength: Number.MAX_SAFE_INTEGER },
    formatters: { clampedTable },
    selectors: [
      { selector: 'a', options: { ignoreHref: true } },
      { selector: 'table', format: 'clampedTable', options: { uppercaseHeaderCells: false } },
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

/** Rows or columns that one cell may span: more would be room that nobody sees, a few bytes of HTML for gigabytes of table. */
const maxSpan = 100

/** A table whose cells span at least one row and column, and at most so many: what spans none would be left out. */
const clampedTable: FormatCallback = (table, walk, builder, options) => {
  clampSpans(table.children)
  builder.options.formatters!.dataTable!(table, walk, builder, options)
}

/** Of the table's own cells: tables inside them are formatted by themselves. */
function clampSpans(nodes: readonly DomNode[]): void {
  for (const { name = '', attribs = {}, children } of nodes) {
    if (name === 'td' || name === 'th') {
      for (const span of ['colspan', 'rowspan'])
        if (attribs[span] !== undefined) attribs[span] = String(clamped(Number(attribs[span])))
    } else clampSpans(children ?? [])
  }
}

const clamped = (span: number) => Math.min(maxSpan, Math.max(1, Math.trunc(span) || 1))

/** By the byte order mark, else by the charset that the first kilobyte names. */
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
