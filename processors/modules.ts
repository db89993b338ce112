// The processors by name, each in a file that is loaded when it is used: an extractor does not load what the others need.
import type { AnyProcessor } from '../src/flow/processor.ts'

export const processorModules: Readonly<Record<string, () => Promise<AnyProcessor>>> = {
  'chunk-text': async () => (await import('./chunk-text.ts')).chunkText,
  prompt: async () => (await import('./prompt.ts')).prompt,
  'text-completion': async () => (await import('./text-completion.ts')).textCompletion,
  'extract-definitions': async () => (await import('./extract-definitions.ts')).extractDefinitions,
  'extract-relationships': async () => (await import('./extract-relationships.ts')).extractRelationships,
  'extract-topics': async () => (await import('./extract-topics.ts')).extractTopics,
  'extract-rows': async () => (await import('./extract-rows.ts')).extractRows,
  'extract-agent-kg': async () => (await import('./extract-agent-kg.ts')).extractAgentKg,
  'extract-ontology': async () => (await import('./extract-ontology.ts')).extractOntology,
  'emit-triples': async () => (await import('./emit-triples.ts')).emitTriples,
  'store-triples': async () => (await import('./store-triples.ts')).storeTriples,
  'store-rows': async () => (await import('./store-rows.ts')).storeRows,
  ledger: async () => (await import('./ledger.ts')).ledger,
}

export const processorNames: readonly string[] = Object.keys(processorModules)

/** The processors with these names, which must be in the list. */
export function loadProcessors(names: readonly string[] = processorNames): Promise<AnyProcessor[]> {
  return Promise.all(names.map((name) => processorModules[name]!()))
}
