// Patterns of a schema, matched by RE2: the time is at most the text's length times the size of the compiled pattern, and both
// are bounded, so a model cannot hang us. The price: look-ahead, look-behind and back-references are refused when the schema is
// compiled, and so are patterns that repeat too much.
import { RE2JS } from 're2js'

interface LinearPattern {
  test(text: string): boolean
  /** ajv keeps one pattern for all that have the same text. */
  toString(): string
}

/** Characters of a pattern: to find the size of a larger one would itself take seconds. */
const maxPattern = 1000
/** Instructions of a compiled pattern: `a{0,1000}` has 2,000. */
const maxProgram = 5000
/** Characters times instructions of one match, at 70 ns each in the worst case. A text that is too long for its pattern does not match. */
const maxWork = 5_000_000

/** ajv's `code.regExp`. Throws for a pattern that RE2 doesn't know, and for one that is too large. */
export const linearPattern: { (pattern: string, flags: string): LinearPattern; code: string } = Object.assign(
  (pattern: string): LinearPattern => {
    if (pattern.length > maxPattern)
      throw new Error(`it has ${pattern.length} characters, over ${maxPattern}`)
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    const size = compiled.programSize()
    if (size > maxProgram) throw new Error(`it compiles to ${size} instructions, over ${maxProgram}`)
    const maxLength = maxWork / size
    return {
      test: (text) => text.length <= maxLength && compiled.test(text),
      toString: () => pattern,
    }
  },
  { code: 'linearPattern' },
)
