// Topics: what a text mentions most of all that it defines. What it does not define is no topic: a sentence is no definition.
import { definitionsOf } from './definitions.ts'
import { isPronoun, nounPhraseAt, type Sentence, type Word } from './phrases.ts'

export interface TopicItem {
  readonly topic: string
  readonly definition: string
}

interface Mention {
  readonly name: string
  /** The number of mentions, plus a half each for a name and for a phrase of several words. */
  weight: number
  definition: string | undefined
}

const mostTopics = 6

/** The most mentioned topics that the text defines. */
export function topicsOf(all: readonly Sentence[]): TopicItem[] {
  const mentions = new Map<string, Mention>()
  for (const sentence of all) {
    for (const { name, isName } of mentionsOf(sentence.words)) {
      const key = singular(name.toLowerCase())
      const weight = extra(isName) + extra(name.includes(' '))
      const mention = mentions.get(key) ?? { name, weight, definition: undefined }
      mention.weight += 1
      mentions.set(key, mention)
    }
    for (const { entity, definition } of definitionsOf(sentence)) {
      const mention = mentions.get(singular(entity.toLowerCase()))
      if (mention) mention.definition ??= definition
    }
  }
  return [...mentions.values()]
    .sort((a, b) => b.weight - a.weight)
    .flatMap(({ name, definition }) => (definition === undefined ? [] : [{ topic: name, definition }]))
    .slice(0, mostTopics)
}

function extra(has: boolean): number {
  return has ? 0.5 : 0
}

function mentionsOf(words: readonly Word[]): { name: string; isName: boolean }[] {
  const found: { name: string; isName: boolean }[] = []
  for (let at = 0; at < words.length; at++) {
    const phrase = nounPhraseAt(words, at)
    if (!phrase) continue
    at = phrase.end - 1
    if (!phrase.speaks || phrase.isValue || isPronoun(words[phrase.start]!)) continue
    found.push({ name: phrase.name, isName: words[phrase.end - 1]!.tags.has('ProperNoun') })
  }
  return found
}

/** For counting only: `mills` and `mill` are one topic. */
function singular(name: string): string {
  return name.replace(/(?<=[^s])s$/, '').replace(/(?<=\w)ie$/, 'y')
}
