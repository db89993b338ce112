// The list of processors: what `graphmill run --all` starts.
import type { AnyProcessor } from '../src/flow/processor.ts'
import { chunkText } from './chunk-text.ts'
import { emitTriples } from './emit-triples.ts'
import { extractAgentKg } from './extract-agent-kg.ts'
import { extractDefinitions } from './extract-definitions.ts'
import { extractOntology } from './extract-ontology.ts'
import { extractRelationships } from './extract-relationships.ts'
import { extractRows } from './extract-rows.ts'
import { extractTopics } from './extract-topics.ts'
import { ledger } from './ledger.ts'
import { prompt } from './prompt.ts'
import { storeRows } from './store-rows.ts'
import { storeTriples } from './store-triples.ts'
import { textCompletion } from './text-completion.ts'

/** The built-in processors: what `graphmill run --all` starts. */
export const processors: readonly AnyProcessor[] = [
  chunkText,
  prompt,
  textCompletion,
  extractDefinitions,
  extractRelationships,
  extractTopics,
  extractRows,
  extractAgentKg,
  extractOntology,
  emitTriples,
  storeTriples,
  storeRows,
  ledger,
]
