// Relationships: how the things in a chunk are related.
import { defineExtractor, type Fact, type Item, texts } from '../src/flow/extractor.ts'

export const extractRelationships = defineExtractor({
  name: 'extract-relationships',
  prompt: 'extract-relationships',
  implied: 'relationship',
  outputs: ['relationships'],
  terms: (chunk) => ({ text: chunk.text }),
  facts: { relationship: relationshipFact },
})

/** The object is an entity unless `object-entity` says false. */
export function relationshipFact(item: Item): Fact<'relationships'> {
  const fact = texts(item, { subject: ['subject'], predicate: ['predicate'], object: ['object'] })
  if ('refused' in fact) return fact
  const said = item['object-entity'] ?? item['object_entity'] ?? true
  const objectEntity = String(said).toLowerCase() !== 'false'
  return { to: 'relationships', fact: { ...fact, objectEntity } }
}
