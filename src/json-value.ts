// JSON that may be anything: a text that is not JSON has no value.

/** The value of a JSON text; undefined when the text is not JSON. */
export function jsonValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
