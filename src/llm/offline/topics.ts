// Topics: what a text mentions most, each explained by the text's own words.
import { definitionsOf } from './definitions.ts'
import { isPronoun, nounPhraseAt, type Sentence, type Word } from './phrases.ts'

export interface TopicItem {
  readonly topic: string
  readonly definition: string
}

interface Mention {
  readonly name: string
  /** The number of mentions, plus a half each for a name, for a phrase of several words, and for a definition. */
  weight: number
  /** The first sentence with a verb that mentions it, or ''. */
  sentence: string
  definition: string | undefined
}

const mostTopics = 6
const fewestTopics = 2

/** The most mentioned topics. Each is explained by a definition, else by the first sentence that mentions it. */
export function topicsOf(all: readonly Sentence[]): TopicItem[] {
  const mentions = new Map<string, Mention>()
  for (const sentence of all) {
    // A heading mentions topics, but explains none.
    const explains = sentence.words.some(({ tags }) => tags.has('Verb'))
    for (const { name, isName } of mentionsOf(sentence.words)) {
      const key = singular(name.toLowerCase())
      const weight = extra(isName) + extra(name.includes(' '))
      const mention = mentions.get(key) ?? { name, weight, sentence: '', definition: undefined }
      mention.weight += 1
      if (explains) mention.sentence ||= sentence.text
      mentions.set(key, mention)
    }
    for (const { entity, definition } of definitionsOf(sentence)) {
      const mention = mentions.get(singular(entity.toLowerCase()))
      if (mention) mention.weight += extra(!mention.definition)
      if (mention) mention.definition ??= definition
    }
  }
  return [...mentions.values()]
    .filter(({ definition, sentence }) => definition !== undefined || sentence !== '')
    .sort((a, b) => b.weight - a.weight)
    .filter(({ weight }, rank) => weight >= 2 || rank < fewestTopics)
    .slice(0, mostTopics)
    .map(({ name, definition, sentence }) => ({ topic: name, definition: definition ?? shortened(sentence) }))
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

function shortened(sentence: string): string {
  return sentence.length <= 200 ? sentence : `${sentence.slice(0, 199).replace(/\s+\S*$/, '')}…`
}
