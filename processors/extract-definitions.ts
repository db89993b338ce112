// Definitions: what each thing in a chunk is.
import { defineExtractor, type Fact, type Item, texts } from '../src/flow/extractor.ts'

export const extractDefinitions = defineExtractor({
  name: 'extract-definitions',
  prompt: 'extract-definitions',
  implied: 'definition',
  outputs: ['definitions'],
  terms: (chunk) => ({ text: chunk.text }),
  grounding: { names: ['entity'], sentences: ['definition'] },
  facts: { definition: definitionFact },
})

/** A fact from an item with `entity` and `definition`. */
export function definitionFact(item: Item): Fact<'definitions'> {
  const fact = texts(item, { entity: ['entity'], definition: ['definition'] })
  return 'refused' in fact ? fact : { to: 'definitions', fact }
}
