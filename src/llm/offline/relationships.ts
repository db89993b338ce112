// Relationships: who does what to whom. The predicate keeps the whole verb, as in `was built by`.
import { beginsClause, clausesOf, isPreposition } from './clauses.ts'
import {
  isPronoun,
  type NounPhrase,
  nounPhraseAt,
  type Sentence,
  type VerbGroup,
  type Word,
} from './phrases.ts'

export interface RelationshipItem {
  readonly subject: string
  readonly predicate: string
  readonly object: string
  readonly 'object-entity': boolean
}

/** The relationships of a sentence, in order. */
export function relationshipsOf({ words }: Sentence): RelationshipItem[] {
  return clausesOf(words).flatMap(({ subjects, verb }) => {
    const found = objectsAfter(words, verb)
    const facts = found.objects.map((object) => ({ predicate: found.predicate, object }))
    // A founder was not founded in that year: only what the verb was done to has it.
    const isDated = facts.length === 0 || /^(is|are|was|were) /.test(verb.verb)
    const year = isDated ? yearAfter(words, found.end) : undefined
    const items = subjects.flatMap(({ name }) =>
      facts.map((fact) => relationship(name, fact.predicate, fact.object)),
    )
    const dated = year ? subjects.map(({ name }) => relationship(name, `${verb.verb} in`, year)) : []
    return [...items, ...dated]
  })
}

function relationship(subject: string, predicate: string, object: NounPhrase): RelationshipItem {
  return { subject, predicate, object: object.name, 'object-entity': !object.isValue }
}

/** The objects of the verb, and the predicate: the verb with the words before the first object. */
function objectsAfter(words: readonly Word[], verb: VerbGroup) {
  const none = { predicate: verb.verb, objects: [], end: verb.end }
  if (words[verb.end - 1]!.stop) return none
  // `is covered with`, `is identical to`: an adjective is a part of the predicate if a preposition follows.
  const adjective = verb.isCopula && words[verb.end]?.tags.has('Adjective') ? words[verb.end] : undefined
  const at = adjective && !adjective.stop ? verb.end + 1 : verb.end
  const preposition = words[at]
  const linked = preposition && isPreposition(preposition) && !preposition.stop
  const object = nounPhraseAt(words, linked ? at + 1 : verb.end)
  if (!object?.speaks || isPronoun(words[object.start]!)) return none
  if (linked && (object.isValue || preposition.lower === 'of')) return none
  // `is a distributed event streaming platform`: the rest of the phrase is not understood.
  if (words[object.end]?.tags.has('Gerund') && !words[object.end - 1]!.stop) return none
  // `is still writing` is a verb.
  const head = words[object.end - 1]!
  if (verb.isCopula && !linked && object.determiner === '' && head.lower.endsWith('ing')) return none
  const article = verb.isCopula && !linked && /^an?$/.test(object.determiner) ? [object.determiner] : []
  const link = linked ? words.slice(verb.end, at + 1).map(({ lower }) => lower) : article
  const predicate = [verb.verb, ...link].join(' ')
  const second = words[object.end]?.lower === 'and' ? nounPhraseAt(words, object.end + 1) : undefined
  if (words[object.end - 1]!.stop || !second?.speaks || beginsClause(words, second.end))
    return { predicate, objects: [object], end: object.end }
  // `is a compound of a and b` is one thing.
  const objects = verb.isCopula
    ? [{ ...object, name: `${object.name} and ${second.name}` }]
    : [object, second]
  return { predicate, objects, end: second.end }
}

/** A year right after the object, as in `in 1745`. */
function yearAfter(words: readonly Word[], at: number): NounPhrase | undefined {
  const stopped = words[at - 1]?.stop
  if (stopped || words[at]?.lower !== 'in' || !/^1\d{3}$|^20\d{2}$/.test(words[at + 1]?.text ?? ''))
    return undefined
  return nounPhraseAt(words, at + 1)
}
