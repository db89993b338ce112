// JSON from a server. A few megabytes of brackets parse to hundreds of megabytes and overflow the stack of any code that walks them.
// JSON that is nested deeper than any honest answer is refused before it is parsed.

/** No answer of a model, a registry or an embeddings server comes near this. */
const mostLevels = 500

/** The parsed value. Throws SyntaxError when the text is not JSON, or is nested too deeply. */
export function parseJson(text: string): unknown {
  if (text.length > 2 * mostLevels && isDeep(text))
    throw new SyntaxError(`the JSON is nested by more than ${mostLevels} levels`)
  return JSON.parse(text)
}

/** The parsed value; undefined when the text is not JSON, or is nested too deeply. */
export function tryParseJson(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}

const [quote, backslash, openBracket, openBrace, closeBracket, closeBrace] = Array.from(
  '"\\[{]}',
  (character) => character.charCodeAt(0),
) as [number, number, number, number, number, number]

function isDeep(text: string): boolean {
  let levels = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (inString) {
      if (code === backslash) at++
      else if (code === quote) inString = false
    } else if (code === quote) inString = true
    else if (code === openBracket || code === openBrace) {
      if (++levels > mostLevels) return true
    } else if (code === closeBracket || code === closeBrace) levels--
  }
  return false
}
