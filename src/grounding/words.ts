// The words of a text, in the form in which they are compared: Unicode NFKC, without case, format characters, accents and the ending of
// a plural. Scripts without spaces, and Hangul with its endings, have one word per character. All of this is linear in the text.

/** A word and its place in the text, in UTF-16 code units. */
export interface Word {
  readonly key: string
  /** As the key, but with its plural ending: for comparing texts without their spaces. */
  readonly letters: string
  readonly start: number
  readonly end: number
}

const spaceless = ['Han', 'Hiragana', 'Katakana', 'Thai', 'Lao', 'Khmer', 'Myanmar', 'Hangul']
  .map((script) => `\\p{sc=${script}}`)
  .join('')

/**
 * One character of a script without spaces, a number, an abbreviation such as U.S., letters (also C++ and C#), a percent sign, or a
 * pictograph. A run of over 1,000 of one kind is several words: longer ones exhaust the stack of regular expressions.
 */
const wordPattern = new RegExp(
  [
    `[${spaceless}]\\p{M}{0,64}`,
    '\\p{N}{1,1000}(?:[.,]\\p{N}{1,1000}){0,64}',
    '\\p{Lu}(?:\\.\\p{Lu}){1,64}(?![\\p{L}\\p{M}])',
    `[[\\p{L}\\p{M}\\p{Cf}]--[${spaceless}]]{1,1000}(?:\\+\\+|#)?`,
    '%',
    '\\p{Extended_Pictographic}',
  ].join('|'),
  'gv',
)
/** Format characters, such as soft hyphens, and variation selectors. */
const unseen = /\p{Cf}|[\u{fe00}-\u{fe0f}]/gu

const ascii = /^[\x00-\x7f]*$/

/** The same for texts in ASCII, which is found faster. */
const asciiPattern =
  /\d{1,1000}(?:[.,]\d{1,1000}){0,64}|[A-Z](?:\.[A-Z]){1,64}(?![A-Za-z])|[A-Za-z]{1,1000}(?:\+\+|#)?|%/g

/** The words of a text, in order. White space and most punctuation belong to no word. */
export function wordsOf(text: string): Word[] {
  const isAscii = ascii.test(text)
  const { normal, startOf, endOf } = isAscii ? { normal: text } : normalized(text)
  const words: Word[] = []
  const pattern = isAscii ? asciiPattern : wordPattern
  // Short values are many, and `matchAll` copies the pattern each time.
  pattern.lastIndex = 0
  for (let match = pattern.exec(normal); match; match = pattern.exec(normal)) {
    const { 0: found, index } = match
    const { letters, key } = formOf(found)
    if (letters === '') continue
    const start = startOf ? startOf[index]! : index
    const last = index + found.length - 1
    words.push({ key, letters, start, end: endOf ? endOf[last]! : last + 1 })
  }
  return words
}

type Form = Pick<Word, 'key' | 'letters'>

/** The forms of the latest words: a text and its facts have the same ones, again and again. */
const forms = new Map<string, Form>()
const maxForms = 5_000
/** Longer words are not kept, as V8 keeps the whole text with them. */
const maxFormLength = 12

function formOf(word: string): Form {
  const known = forms.get(word)
  if (known) return known
  const letters = lettersOf(word)
  const form = { letters, key: keyOf(letters) }
  if (word.length > maxFormLength) return form
  if (forms.size === maxForms) forms.clear()
  forms.set(word, form)
  return form
}

/** The text in NFKC and, when that differs, where each of its code units comes from. */
function normalized(text: string): { normal: string; startOf?: number[]; endOf?: number[] } {
  if (text.normalize('NFKC') === text) return { normal: text }
  let normal = ''
  const startOf: number[] = []
  const endOf: number[] = []
  // Hangul letters join into syllables; all others join at most with the marks behind them.
  for (const { 0: piece, index } of text.matchAll(/[\u1100-\u11ff]{1,64}|\P{M}\p{M}{0,64}|\p{M}{1,64}/gu)) {
    const form = piece.normalize('NFKC')
    for (let at = 0; at < form.length; at++) {
      startOf.push(form === piece ? index + at : index)
      endOf.push(form === piece ? index + at + 1 : index + piece.length)
    }
    normal += form
  }
  return { normal, startOf, endOf }
}

/** Letters that differ from others by more than an accent which Unicode takes apart. */
const plainLetters: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ı: 'i',
  ς: 'σ',
  ё: 'е',
  ـ: '',
}

/** Without case, dots, format characters and, in scripts whose writers may leave them out, accents and vowel signs. */
function lettersOf(word: string): string {
  if (word === '%') return 'percent'
  const lower = (/^\p{Lu}\./u.test(word) ? word.replaceAll('.', '') : word).toLowerCase()
  if (ascii.test(lower)) return lower
  const plain = lower.replace(unseen, '').replace(/[ßæœøłđıςёـ]/g, (letter) => plainLetters[letter]!)
  if (!accented.test(plain)) return plain
  return plain
    .normalize('NFD')
    .replace(/([\p{sc=Latin}\p{sc=Greek}\p{sc=Arabic}\p{sc=Hebrew}])\p{Mn}+/gu, '$1')
}

const accented = /[\p{sc=Latin}\p{sc=Greek}\p{sc=Arabic}\p{sc=Hebrew}]/u

const numerals: ReadonlyMap<string, string> = new Map(
  (
    'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen ' +
    'nineteen twenty'
  )
    .split(' ')
    .map((word, number) => [word, String(number)]),
)

const irregular: ReadonlyMap<string, string> = new Map([
  ['men', 'man'],
  ['women', 'woman'],
  ['children', 'child'],
  ['mice', 'mouse'],
  ['feet', 'foot'],
  ['teeth', 'tooth'],
])

function keyOf(letters: string): string {
  if (/^\p{N}/u.test(letters)) return numberKey(letters)
  const numeral = numerals.get(letters)
  if (numeral !== undefined) return numeral
  const one = singular(irregular.get(letters) ?? letters)
  // One ending for knife and knives, hero and heroes, bus and buses.
  if (/..(?:[^f]f|fe|ve)$/.test(one)) return one.replace(/(?:fe?|ve)$/, 'v')
  return /(?:..s|...o)e$/.test(one) ? one.slice(0, -1) : one
}

function singular(letters: string): string {
  if (letters.length < 4) return letters
  if (/.sis$/.test(letters)) return letters.slice(0, -2)
  if (!/[^su]s$/.test(letters)) return letters
  if (/(?:[xz]|ch|sh|ss)es$/.test(letters)) return letters.slice(0, -2)
  return letters.endsWith('ies') && letters.length > 4 ? `${letters.slice(0, -3)}y` : letters.slice(0, -1)
}

/** 1,000.50 is 1000.5, as are 1.000,50 and 1000,5; and 05 is 5. */
export function numberKey(text: string): string {
  let plain = text
  if (/^\d{1,3}(?:,\d{3})+(?:\.\d+)?$/.test(text)) plain = text.replaceAll(',', '')
  else if (
    /^\d{1,3}(?:\.\d{3}){2,}$|^\d{1,3}(?:\.\d{3})*,(?:\d{1,2}|\d{4,})$|^\d+,(?:\d{1,2}|\d{4,})$/.test(text)
  )
    plain = text.replaceAll('.', '').replace(',', '.')
  const shorter = /^\d+\.\d+$/.test(plain) ? plain.replace(/\.?0+$/, '') : plain
  return shorter.replace(/^0+(?=\d)/, '')
}

const stopWords = new Set(
  (
    'a an and are as at be been but by can do for from had has have he her his how if in into is it its no not of on or our she ' +
    'so than that the their them then there these they this to was we were what when where which who will with you'
  )
    .split(' ')
    .map(keyOf),
)

/** Whether a key says little about what a text is about. */
export function isStopWord(key: string): boolean {
  return stopWords.has(key)
}
