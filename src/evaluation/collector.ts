// The processor at the end of the flow of an evaluation, in place of those that write triples: it gives every fact to the scoring.
import { type AnyProcessor, defineProcessor } from '../flow/processor.ts'
import type { RowSchema } from '../rows/row-schema.ts'
import { type FoundFact, factPorts, foundFacts } from './facts.ts'

export interface CollectorOptions {
  readonly rowSchemas: readonly RowSchema[]
  collect(documentId: string, facts: readonly FoundFact[]): void
}

/** Reads all ports on which `extractors` publish facts. */
export function createCollector(
  extractors: readonly AnyProcessor[],
  { rowSchemas, collect }: CollectorOptions,
): AnyProcessor {
  return defineProcessor({
    name: 'evaluate',
    inputs: factPorts(extractors),
    outputs: [],
    // biome-ignore lint/correctness/useYield: nothing comes after it
    async *handle(message) {
      collect(message.documentId, foundFacts(message, rowSchemas))
    },
  })
}
