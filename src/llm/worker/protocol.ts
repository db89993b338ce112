// What is said in a call to the thread of the models, besides the events of the model themselves.
import type { CompletionRequest } from '../llm.ts'
import type { ModelSpec } from '../providers.ts'

export interface ModelTask {
  readonly spec: ModelSpec
  readonly request: CompletionRequest
}

/** Characters of a call that may be in transit: as many more may come as the reader reports to have taken. */
export const maxInTransit = 1024 * 1024
