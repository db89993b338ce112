// Finds where an object ends by JSON's own rules, by braces, brackets and strings alone.
import { backslash, closeBrace, closeBracket, doubleQuote, openBrace, openBracket } from './characters.ts'

/** The object at the beginning of `text`, if it is complete. */
export function leadingObject(text: string): string | undefined {
  let depth = 0
  let string = false
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (string) {
      if (code === backslash) index++
      else if (code === doubleQuote) string = false
    } else if (code === doubleQuote) string = true
    else if (code === openBrace || code === openBracket) depth++
    else if ((code === closeBrace || code === closeBracket) && --depth === 0) return text.slice(0, index + 1)
  }
  return undefined
}
