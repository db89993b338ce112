// Definitions and relationships from one prompt, distinguished by type. The facts are those of the other extractors.
import { defineExtractor } from '../src/flow/extractor.ts'
import { definitionFact } from './extract-definitions.ts'
import { relationshipFact } from './extract-relationships.ts'

export const extractAgentKg = defineExtractor({
  name: 'extract-agent-kg',
  prompt: 'agent-kg-extract',
  outputs: ['definitions', 'relationships'],
  terms: (chunk) => ({ text: chunk.text }),
  grounding: { names: ['entity', 'subject', 'object'], sentences: ['definition'] },
  facts: { definition: definitionFact, relationship: relationshipFact },
})
