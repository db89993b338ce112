// What calls to the thread of the models send, besides the events of a model.
import type { CompletionRequest } from '../llm.ts'
import type { ModelSpec } from '../providers.ts'

export interface ModelTask {
  readonly spec: ModelSpec
  readonly request: CompletionRequest
}

/** The characters of a call that may be in transit. The reader reports what it has taken, which allows as many more. */
export const maxInTransit = 1024 * 1024
