// Follows an object whose text was escaped once, outside of any string, to its closing brace: for a string of JSON, such as
// `{\"e\":\"a\"}`, or for HTML, such as `{&quot;e&quot;:&quot;a&quot;}`.
import {
  ampersand,
  backslash,
  closeBrace,
  closeBracket,
  doubleQuote,
  openBrace,
  openBracket,
  semicolon,
} from './characters.ts'

export class EscapedScan {
  #depth = 0
  /** A backslash was read, which the text's own escaping added. */
  #outer = false
  /** The entity of HTML that is being read. */
  #entity = ''
  /** In a string of the object, and after a backslash in it. */
  #string = false
  #inner = false

  readonly #isHtml: boolean

  constructor(isHtml: boolean) {
    this.#isHtml = isHtml
  }

  /** Reads one character. `end`: the object is complete. `bare`: a quote as it is, so the text was not escaped. */
  read(code: number): 'more' | 'end' | 'bare' {
    if (!this.#outer && code === doubleQuote) return 'bare'
    if (this.#isHtml) this.#readHtml(code)
    else if (!this.#outer && code === backslash) this.#outer = true
    else {
      this.#take(code, this.#outer && code === doubleQuote)
      this.#outer = false
    }
    return this.#depth === 0 ? 'end' : 'more'
  }

  #readHtml(code: number): void {
    if (code === ampersand) this.#entity = '&'
    else if (this.#entity === '') this.#take(code, false)
    else {
      const entity = this.#entity + String.fromCharCode(code)
      this.#entity = entity.length < longestEntity && entityStart.test(entity) ? entity : ''
      if (code === semicolon) {
        this.#take(code, quoteEntity.test(entity))
        this.#entity = ''
      } else if (this.#entity === '') this.#take(code, false)
    }
  }

  #take(code: number, quote: boolean): void {
    if (this.#inner) this.#inner = false
    else if (this.#string && code === backslash) this.#inner = true
    else if (quote) this.#string = !this.#string
    else if (!this.#string && (code === openBrace || code === openBracket)) this.#depth++
    else if (!this.#string && (code === closeBrace || code === closeBracket)) this.#depth--
  }

  /** The object as a string of JSON. */
  literal(text: string): string {
    if (this.#isHtml) return JSON.stringify(text.replace(entities, characterOf))
    return `"${text.replace(/[\0-\x1f]/g, (control) => JSON.stringify(control).slice(1, -1))}"`
  }
}

const longestEntity = 10
/** An entity as far as it is read; a bare `&` is text. */
const entityStart = /^&#?[a-z0-9]*$/i
const quoteEntity = /^&(?:quot|#0*34|#x0*22);$/i
const entities = /&(?:(quot|apos|amp|lt|gt)|#(\d{1,7})|#x([0-9a-f]{1,6}));/gi
const named: Readonly<Record<string, string>> = { quot: '"', apos: "'", amp: '&', lt: '<', gt: '>' }

function characterOf(whole: string, name?: string, decimal?: string, hex?: string): string {
  if (name !== undefined) return named[name.toLowerCase()]!
  const point = decimal === undefined ? Number.parseInt(hex!, 16) : Number(decimal)
  return point <= 0x10ffff ? String.fromCodePoint(point) : whole
}
