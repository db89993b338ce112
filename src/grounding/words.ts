// The words of a text, in the form in which they are compared: Unicode NFKC, without case, format characters and the ending of a plural.
// Scripts without spaces have one word per character. All of this is linear in the text.

/** A word and its place in the text, in UTF-16 code units. */
export interface Word {
  readonly key: string
  /** As the key, but with its plural ending: for comparing texts without their spaces. */
  readonly letters: string
  readonly start: number
  readonly end: number
}

const spaceless = ['Han', 'Hiragana', 'Katakana', 'Thai', 'Lao', 'Khmer', 'Myanmar']
  .map((script) => `\\p{sc=${script}}`)
  .join('')

/** One character of a script without spaces, a number, letters (also C++ and C#), or a pictograph. */
const wordPattern = new RegExp(
  `[${spaceless}]\\p{M}*|\\p{N}+(?:[.,]\\p{N}+)*|[[\\p{L}\\p{M}\\p{Cf}]--[${spaceless}]]+(?:\\+\\+|#)?|\\p{Extended_Pictographic}`,
  'gv',
)
/** Format characters, such as soft hyphens, and variation selectors. */
const unseen = /\p{Cf}|[\u{fe00}-\u{fe0f}]/gu

const ascii = /^[\x00-\x7f]*$/

export function wordsOf(text: string): Word[] {
  const { normal, startOf, endOf } = normalized(text)
  const words: Word[] = []
  for (const { 0: found, index } of normal.matchAll(wordPattern)) {
    const letters = (ascii.test(found) ? found : found.replace(unseen, '')).toLowerCase()
    if (letters === '') continue
    const start = startOf ? startOf[index]! : index
    const last = index + found.length - 1
    words.push({ key: keyOf(letters), letters, start, end: endOf ? endOf[last]! : last + 1 })
  }
  return words
}

/** The text in NFKC and, when that differs, where each of its code units comes from. */
function normalized(text: string): { normal: string; startOf?: number[]; endOf?: number[] } {
  if (ascii.test(text) || text.normalize('NFKC') === text) return { normal: text }
  let normal = ''
  const startOf: number[] = []
  const endOf: number[] = []
  // Hangul letters join into syllables; all others join at most with the marks behind them.
  for (const { 0: piece, index } of text.matchAll(/[\u1100-\u11ff]+|\P{M}\p{M}*|\p{M}+/gu)) {
    const form = piece.normalize('NFKC')
    for (let at = 0; at < form.length; at++) {
      startOf.push(form === piece ? index + at : index)
      endOf.push(form === piece ? index + at + 1 : index + piece.length)
    }
    normal += form
  }
  return { normal, startOf, endOf }
}

const numerals: ReadonlyMap<string, string> = new Map(
  (
    'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen ' +
    'nineteen twenty'
  )
    .split(' ')
    .map((word, number) => [word, String(number)]),
)

function keyOf(letters: string): string {
  if (/^\p{N}/u.test(letters)) return numberKey(letters)
  const numeral = numerals.get(letters)
  if (numeral !== undefined) return numeral
  if (letters.length < 4 || !/[^su]s$/.test(letters)) return letters
  if (/(?:[xz]|ch|sh|ss)es$/.test(letters)) return letters.slice(0, -2)
  return letters.endsWith('ies') && letters.length > 4 ? `${letters.slice(0, -3)}y` : letters.slice(0, -1)
}

/** 1,000.50 is 1000.5, and 05 is 5. */
function numberKey(text: string): string {
  const plain = /^\d{1,3}(?:,\d{3})+(?:\.\d+)?$/.test(text) ? text.replaceAll(',', '') : text
  const shorter = /^\d+\.\d+$/.test(plain) ? plain.replace(/\.?0+$/, '') : plain
  return shorter.replace(/^0+(?=\d)/, '')
}

const stopWords = new Set(
  (
    'a an and are as at be been but by can do for from had has have he her his how if in into is it its no not of on or our she ' +
    'so than that the their them then there these they thi to was we were what when where which who will with you'
  ).split(' '),
)

/** Whether a key says little about what a text is about. */
export function isStopWord(key: string): boolean {
  return stopWords.has(key)
}
