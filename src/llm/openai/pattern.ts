// Most events of a reply are the one before with another text in `content`. They are told by what stands before and behind
// that text, and only the text is parsed: a third of the work.

type Fields = Readonly<Record<string, unknown>>

export interface ContentPattern {
  /** The event's JSON up to its content, with the quote, and from the closing quote on. */
  readonly head: string
  readonly tail: string
  /** What the event holds besides its content. */
  readonly chunk: Fields
}

const opening = /"content"\s*:\s*"/g
/** What JSON writes otherwise than it is, or not at all. */
const special = /["\\\u0000-\u001f]/

/** The pattern of an event, from its JSON and what that holds; undefined where its content is no text. */
export function patternOf(data: string, chunk: Fields): ContentPattern | undefined {
  const content = contentOf(chunk)
  if (content === undefined) return undefined
  const literal = JSON.stringify(content).slice(1)
  const [other, otherLiteral] = [`${content}.`, JSON.stringify(`${content}.`).slice(1, -1)]
  for (const { 0: key, index } of data.matchAll(opening)) {
    const start = index + key.length
    if (!data.startsWith(literal, start)) continue
    const [head, tail] = [data.slice(0, start), data.slice(start + literal.length - 1)]
    // Other fields may have that name: it is this one if what is read changes with it.
    if (contentOf(JSON.parse(head + otherLiteral + tail)) === other) return { head, tail, chunk }
  }
  return undefined
}

/** The content of an event of this pattern; undefined for every other event. */
export function matchPattern({ head, tail }: ContentPattern, data: string): string | undefined {
  const end = data.length - tail.length
  // Pieces are compared as a whole: startsWith and endsWith take six times as long on pieces of a larger text.
  if (end < head.length || data.slice(end) !== tail || data.slice(0, head.length) !== head) return undefined
  const literal = data.slice(head.length, end)
  if (!special.test(literal)) return literal
  try {
    // Were this more than one literal, it would be no JSON.
    return JSON.parse(`"${literal}"`)
  } catch {
    return undefined
  }
}

function contentOf({ choices }: Fields): string | undefined {
  const [choice] = Array.isArray(choices) ? (choices as ({ delta?: Fields | null } | null)[]) : []
  const content = choice?.delta?.['content']
  return typeof content === 'string' ? content : undefined
}
