// Follows an object whose text was escaped once, outside of any string, such as `{\"e\":\"a\"}`, to its closing brace.
import { backslash, closeBrace, closeBracket, doubleQuote, openBrace, openBracket } from './characters.ts'

export class EscapedScan {
  #depth = 0
  /** A backslash was read, which the text's own escaping added. */
  #outer = false
  /** In a string of the object, and after a backslash in it. */
  #string = false
  #inner = false

  /** Reads one character. `end`: the object is complete. `bare`: a quote without a backslash, so the text was not escaped. */
  read(code: number): 'more' | 'end' | 'bare' {
    if (!this.#outer && code === backslash) this.#outer = true
    else if (!this.#outer && code === doubleQuote) return 'bare'
    else {
      const quote = this.#outer && code === doubleQuote
      this.#outer = false
      if (this.#inner) this.#inner = false
      else if (this.#string && code === backslash) this.#inner = true
      else if (quote) this.#string = !this.#string
      else if (!this.#string && (code === openBrace || code === openBracket)) this.#depth++
      else if (!this.#string && (code === closeBrace || code === closeBracket)) this.#depth--
      if (this.#depth === 0) return 'end'
    }
    return 'more'
  }
}
