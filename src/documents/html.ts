// The text of an HTML page: headings, paragraphs, lists and tables as lines; no links, pictures, scripts or styles.
import { convert } from 'html-to-text'
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
    selectors: [
      { selector: 'a', options: { ignoreHref: true } },
      { selector: 'table', format: 'dataTable', options: { uppercaseHeaderCells: false } },
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
