// Whether a text is English, by the frequent words of English and of other languages.
import { wordSet } from './word-set.ts'

/** Frequent words that hardly another language has. */
const english = wordSet(`
  about and any are because been but by can could does from has her his how into it its more most not only other she some such
  than that the their them then there these they this those through to up were what when where which who will with would you your
`)

/** Frequent words that other languages have too. */
const shared = wordSet(
  'a after all also an as at be do for had have he if in is of on one or over so under was we while no',
)

/** Frequent words of other languages that English does not have. */
const foreign = wordSet(`
  der die das und ist nicht ein eine einer eines den dem des von zu mit auf für im sich wurde werden auch als wird
  le la les et est une des du dans que qui pour pas sur avec au aux il elle ne ce sont été
  el los las y es un una del por con para se su lo como más fue era
  il di che è non per gli della nel con sono una alla dei
  de het een van en niet dat op te voor aan zijn werd naar bij
  os em um uma não da na ao foi
  och att det som på är av för er ikke af med den inte ett var
  na się nie jest do że
  et ad cum ut non sed quod
`)

/** Enough of the words are those that every English text is full of, and more than are another language's. */
export function isEnglish(text: string): boolean {
  const { own, both, other, all } = shares(text)
  return (own > other || (other === 0 && both > 0)) && (own + both) * 10 >= all
}

/** None of its words tells its language. */
export function saysNoLanguage(text: string): boolean {
  const { own, both, other } = shares(text)
  return own + both + other === 0
}

/** A quotation in another language, and not a name such as Rio de Janeiro. */
export function isForeign(text: string): boolean {
  const { own, both, other } = shares(text)
  return other > 2 && other > own + both
}

function shares(text: string) {
  const words = text.toLowerCase().match(/[\p{L}\p{M}]+/gu) ?? []
  const countOf = (some: ReadonlySet<string>) => words.filter((word) => some.has(word)).length
  return { own: countOf(english), both: countOf(shared), other: countOf(foreign), all: words.length }
}

/** Whether a word is an article, a preposition or the like. */
export function isSmall(word: string): boolean {
  return english.has(word.toLowerCase()) || shared.has(word.toLowerCase())
}
