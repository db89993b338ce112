// Patterns of a schema, matched by RE2. The time is at most the text's length times the size of the compiled pattern, and both are bounded,
// so a model cannot block the process. In return, look-ahead, look-behind, back-references and patterns that repeat too much are refused
// when the schema is compiled.
import { RE2JS } from 're2js'

interface LinearPattern {
  test(text: string): boolean
  /** ajv keeps one pattern for all that have the same text. */
  toString(): string
}

/** Characters of a pattern: measuring a longer one would itself take seconds. */
const maxPattern = 1000
/** Instructions of a compiled pattern: `a{0,1000}` has 2,000. */
const maxProgram = 5000
/** Characters times instructions of one match, at 70 ns each in the worst case. A text that is too long for its pattern does not match. */
const maxWork = 5_000_000

/** ajv's `code.regExp`. Throws for a pattern that RE2 does not support, and for one that is too large. */
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
