// Relationships: how the things in a chunk are related.
import { defineExtractor, type Fact, type Item, texts } from '../src/flow/extractor.ts'

export const extractRelationships = defineExtractor({
  name: 'extract-relationships',
  prompt: 'extract-relationships',
  implied: 'relationship',
  outputs: ['relationships'],
  terms: (chunk) => ({ text: chunk.text }),
  grounding: { names: ['subject', 'object'] },
  facts: { relationship: relationshipFact },
})

/** The object is an entity unless `object-entity` is false. */
export function relationshipFact(item: Item): Fact<'relationships'> {
  const fact = texts(item, { subject: ['subject'], predicate: ['predicate'], object: ['object'] })
  if ('refused' in fact) return fact
  const key = ['object-entity', 'object_entity'].find((name) => Object.hasOwn(item, name))
  return { to: 'relationships', fact: { ...fact, objectEntity: key === undefined || isTrue(item[key]) } }
}

/** Truth as in Python, and so in TrustGraph: all but false, 0, null and empty values. The text "false" is true. */
function isTrue(value: unknown): boolean {
  return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value)
}
