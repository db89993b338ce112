// The marks that models and servers put round thoughts, in one table. A thought is what stands between two of them, in any case, or before
// the final channel. A mark in a string of a record is text.

/** The marks of one way to think. */
export interface ThinkingMarker {
  readonly opens: RegExp
  readonly closes: RegExp
  /** False when `closes` has other uses: without an opening mark it says nothing. */
  readonly alone?: false
  /** The mark is plain words, which begin so: it opens a thought only where the reply begins. */
  readonly words?: string
}

/**
 * What stands at a place of the reply. `length` is that of the whole mark; a mark of length 0 is read again, outside of the thought. `final`:
 * everything before it was a thought. `call`: the next channel is a call of a tool, and no thought.
 */
export type Mark =
  | { readonly kind: 'thinks'; readonly length: number; readonly marker: ThinkingMarker }
  | { readonly kind: 'thought' | 'final' | 'call' | 'stop'; readonly length: number }
  | { readonly kind: 'none' }
  | { readonly kind: 'wait' }

/** The longest mark, with attributes or a channel. */
export const longestMark = 256

const bar = '[|\\uff5c]'
const tag = (names: string): ThinkingMarker => ({
  opens: new RegExp(`^<(?:\\w+:)?(?:${names})(?:\\s[^>]*[^/>])?\\s*>$`, 'i'),
  closes: new RegExp(`^</\\s*(?:\\w+:)?(?:${names})\\s*>$`, 'i'),
})
const token = (opens: string, closes: string): ThinkingMarker => ({
  opens: new RegExp(`^<${bar}(?:${opens})${bar}>$`, 'i'),
  closes: new RegExp(`^<${bar}(?:${closes})${bar}>$`, 'i'),
})

const channelEnd = new RegExp(`^<${bar}(?:channel|start|end|return|call)${bar}>`, 'i')

const markers: readonly ThinkingMarker[] = [
  // DeepSeek, Qwen, GLM, MiniMax, Nemotron, Phi, Granite, EXAONE, Hunyuan, Seed-OSS (`seed:think`), K2; Claude's prompts.
  tag('think(?:ing|_fast|_faster)?|thoughts?|thought[_-]process'),
  // Reka.
  tag('reasoning(?:[_-]process)?'),
  // Reflection, and prompts that ask for it.
  tag('reflections?'),
  tag('scratch[_-]?pad'),
  tag('analysis'),
  tag('(?:inner|internal)[_-](?:monologue|thoughts?)'),
  tag('cot|chain[_-]of[_-]thoughts?'),
  tag('planning|brainstorm(?:ing)?|rationale'),
  // Open WebUI.
  { opens: /^<details\s[^>]*type="reasoning"[^>]*>$/i, closes: /^<\/details\s*>$/i },
  // Magistral.
  { opens: /^\[THINK(?:ING)?\]$/i, closes: /^\[\/THINK(?:ING)?\]$/i },
  // Kimi.
  { opens: /^◁think(?:ing)?▷$/i, closes: /^◁\/think(?:ing)?▷$/i },
  // OpenThinker, Sky-T1.
  token('begin_of_thought', 'end_of_thought|begin_of_solution'),
  // Cohere.
  token('START_THINKING', 'END_THINKING|START_(?:RESPONSE|TEXT|ACTION)'),
  // Step.
  token('THINK_START', 'THINK_END'),
  // Apertus.
  token('inner_prefix', 'inner_suffix'),
  // Solar.
  { ...token('think(?:ing)?', '/think(?:ing)?|end|im_end'), alone: false },
  // HyperCLOVA X.
  {
    opens: new RegExp(`^<${bar}im_start${bar}>assistant/think`, 'i'),
    closes: token('', 'im_end').closes,
    alone: false,
  },
  // Gemma.
  { opens: /^<\|channel>\s*thought/i, closes: /^<channel\|>$/i },
  // Harmony (gpt-oss). Commentary to a tool is a call, not a thought.
  {
    opens: new RegExp(`^<${bar}channel${bar}>\\s*(?:analysis|commentary(?!.*\\bto=))`, 'i'),
    closes: channelEnd,
    alone: false,
  },
]

const wordMarkers: readonly (ThinkingMarker & { readonly words: string })[] = [
  // Harmony without its tokens.
  {
    words: 'analysis',
    opens: /^analysis(?=[\p{Lu}{["'<]|\r?\n)/u,
    closes: /^assistant\n?(?:final|commentary to=\S*)/,
  },
  // Granite 3.2.
  {
    words: 'here is my thought process:',
    opens: /^here is my thought process:/i,
    closes: /^here is my response:/i,
  },
  // `ollama run`.
  { words: 'thinking...\n', opens: /^thinking\.\.\.\s/i, closes: /^\.\.\.done thinking\./i },
]

const closerOf: Readonly<Record<string, string>> = { '<': '>', '[': ']', '◁': '▷' }
const tagBegins = /^(?:<(?:$|[/|\uff5ca-z])|\[\/?[a-z]{0,8}$|◁\/?[a-z]{0,8}$)/i
const stops =
  /^<(?:[|\uff5c][^{}]*|[^{}]*[|\uff5c]|\/?s|eos|bos|pad|unk|end_of_turn|start_of_turn|end_of_text)>$/i
/** A token whose next words say what it opens. */
const headed = new RegExp(`^<${bar}(?:channel|start|im_start|begin|constrain)${bar}?>$`, 'i')
const final = new RegExp(`^<${bar}channel${bar}>\\s*final`, 'i')
const callsTool = new RegExp(`^<${bar}start${bar}>.*\\bto=`, 'i')
/** Longer than every mark in plain words. */
const longestWords = 32

/** The mark that the `<`, `[` or `◁` at the beginning of `text` begins, outside of a thought. */
export function markAt(text: string, complete: boolean): Mark {
  const tag = tagAt(text, complete)
  if (tag === 'none' || tag === 'wait') return { kind: tag }
  let whole = tag
  if (headed.test(tag)) {
    const end = text.slice(tag.length).search(/[<[{\n]/)
    if (end < 0 && text.length < longestMark && !complete) return { kind: 'wait' }
    whole = end < 0 ? text : text.slice(0, tag.length + end)
  }
  const { length } = whole
  const marker = markers.find(({ opens }) => opens.test(whole))
  if (marker) return { kind: 'thinks', length, marker }
  if (final.test(whole)) return { kind: 'final', length }
  if (callsTool.test(whole)) return { kind: 'call', length }
  if (markers.some(({ closes, alone }) => alone !== false && closes.test(whole)))
    return { kind: 'thought', length }
  return stops.test(tag) ? { kind: 'stop', length } : { kind: 'none' }
}

/** Whether the reply, which begins with `text`, opens with a thought that is marked in plain words. */
export function openingWords(text: string, complete: boolean): Mark {
  for (const marker of wordMarkers) {
    const opens = marker.opens.exec(text)
    if (opens) return { kind: 'thinks', length: opens[0].length, marker }
    const { length } = marker.words
    const begun =
      marker.words.startsWith(text.slice(0, length).toLowerCase()) && !/\S/.test(text.slice(length))
    if (begun && !complete && text.length < longestMark) return { kind: 'wait' }
  }
  return { kind: 'none' }
}

/** The mark at the beginning of `text` if it ends a thought of this marker. */
export function endOfThought(text: string, { closes, words }: ThinkingMarker, complete: boolean): Mark {
  if (words !== undefined) {
    const found = closes.exec(text)
    if (found) return { kind: 'thought', length: found[0].length }
    return { kind: text.length < longestWords && !complete ? 'wait' : 'none' }
  }
  const tag = tagAt(text, complete)
  if (tag === 'none' || tag === 'wait') return { kind: tag }
  if (!closes.test(tag)) return { kind: 'none' }
  return { kind: 'thought', length: closes === channelEnd ? 0 : tag.length }
}

/** The tag at the beginning of `text`, from its bracket to the one that closes it. */
function tagAt(text: string, complete: boolean): string {
  const closer = closerOf[text[0] ?? '']
  if (closer === undefined) return 'none'
  const end = text.slice(1).search(/[<>[\]◁▷\n{]/) + 1
  if (end > 0) return text[end] === closer ? text.slice(0, end + 1) : 'none'
  return text.length < longestMark && !complete && tagBegins.test(text) ? 'wait' : 'none'
}

/** Where the answer begins in a whole reply whose thoughts, if any, come first; its end if the last thought has none. */
export function answerStart(reply: string): number {
  const near = (from: number) => reply.slice(from, from + longestMark)
  const afterSpace = (from: number) => from + reply.slice(from).search(/\S|$/)
  let start = afterSpace(0)
  let called = false
  let mark = openingWords(near(start), true)
  if (mark.kind === 'none') mark = markAt(near(start), true)
  while (mark.kind !== 'none' && mark.kind !== 'wait') {
    start += mark.length
    if (mark.kind === 'thinks' && !called) start = thoughtEnd(reply, start, mark.marker)
    called = mark.kind === 'call'
    start = afterSpace(start)
    mark = markAt(near(start), true)
  }
  return start
}

function thoughtEnd(reply: string, start: number, marker: ThinkingMarker): number {
  for (let at = start; at < reply.length; at++) {
    if (marker.words === undefined && closerOf[reply[at]!] === undefined) continue
    const mark = endOfThought(reply.slice(at, at + longestMark), marker, true)
    if (mark.kind === 'thought') return at + mark.length
  }
  return reply.length
}
