// Patterns of a schema, matched by RE2: the time is linear in the text, whatever the pattern, so a model cannot hang us.
// The price: look-ahead, look-behind and back-references are refused when the schema is compiled.
import { RE2JS } from 're2js'

interface LinearPattern {
  test(text: string): boolean
}

/** ajv's `code.regExp`. Throws for a pattern that RE2 doesn't know. */
export const linearPattern: { (pattern: string, flags: string): LinearPattern; code: string } = Object.assign(
  (pattern: string): LinearPattern => {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    return { test: (text) => compiled.test(text) }
  },
  { code: 'linearPattern' },
)
