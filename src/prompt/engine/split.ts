// A text that does not fit the model's context is asked about in two halves: the items of both are one reply. A json or text
// prompt is not split, since no rule makes one value, or one text, of two.
import { GraphmillError } from '../../errors.ts'
import type { Prompt } from '../catalogue/prompt.ts'
import { overrideTerms, type Terms } from '../catalogue/terms.ts'
import { isOverflow } from './calls.ts'
import type { ReplyStream } from './reply.ts'

/** How often in succession a text is cut in two, at most. */
export const maxSplits = 2

/** The terms for each half of the term `text`; undefined when there is no such text, or too little of it. */
export function splitTerms(terms: Terms): readonly [Terms, Terms] | undefined {
  const text = terms['text']
  if (typeof text !== 'string') return undefined
  const at = cutPlace(text)
  const halves = [text.slice(0, at).trim(), text.slice(at).trim()] as const
  if (halves.some((half) => half === '')) return undefined
  return [overrideTerms(terms, { text: halves[0] }), overrideTerms(terms, { text: halves[1] })]
}

/** The reply to a prompt that is not split: that is the reason when it does not fit the context. */
export async function* unsplit(reply: ReplyStream, { id, responseType }: Prompt): ReplyStream {
  try {
    yield* reply
  } catch (cause) {
    if (!isOverflow(cause)) throw cause
    const why = `${id} is a ${responseType} prompt, and its text is not split.`
    const message = `The prompt does not fit the model's context: ${why}`
    throw new GraphmillError('context_overflow', message, { cause })
  }
}

/** After a paragraph, line, sentence or word near the middle, or in the middle between two characters. */
function cutPlace(text: string): number {
  const middle = text.length >> 1
  const near = text.length >> 2
  for (const end of ['\n\n', '\n', '. ', ' ']) {
    const places = [text.lastIndexOf(end, middle - end.length), text.indexOf(end, middle)]
      .filter((place) => place >= 0)
      .map((place) => place + end.length)
      .filter((place) => Math.abs(place - middle) <= near)
      .sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle))
    if (places[0] !== undefined) return places[0]
  }
  return isSplitPair(text, middle) ? middle + 1 : middle
}

function isSplitPair(text: string, at: number): boolean {
  const code = text.charCodeAt(at)
  return code >= 0xdc00 && code < 0xe000
}
