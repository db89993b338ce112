// The error of a structured call that gave no usable value: OpenArmature's `structured_output_invalid`, with what a caller
// needs to decide what to do. A reply that was cut off ends with `length`, a wrong one with `stop`.
import { redactCut } from '../../redact.ts'
import type { FinishReason, JsonSchema } from '../llm.ts'
import { ProviderError } from '../provider-error.ts'
import type { ProviderUsage } from '../usage.ts'

export interface InvalidOutput {
  readonly code: 'reply_not_json' | 'reply_schema_failed' | 'repetition'
  readonly responseSchema: JsonSchema | undefined
  /** What the model wrote, verbatim. */
  readonly outputContent: string
  /** What is wrong, beginning with its place when it has one. */
  readonly errorMessage: string
  readonly finishReason: FinishReason
  readonly usage: ProviderUsage
  readonly cause?: unknown
}

/** Thrown when no attempt gave a value that fits the schema. */
export class StructuredOutputInvalid extends ProviderError {
  readonly responseSchema: JsonSchema | undefined
  readonly outputContent: string
  readonly errorMessage: string
  readonly finishReason: FinishReason
  readonly usage: ProviderUsage

  constructor(invalid: InvalidOutput) {
    const { code, cause, errorMessage, outputContent, finishReason, usage } = invalid
    const because = code === 'repetition' ? '' : (cut[finishReason] ?? '')
    super(code, 'structured_output_invalid', `${what[code]}: ${errorMessage}${because}`, {
      cause,
      details: { errorMessage, finishReason, usage, output: redactCut(outputContent, 2000) },
    })
    this.responseSchema = invalid.responseSchema
    this.outputContent = outputContent
    this.errorMessage = errorMessage
    this.finishReason = finishReason
    this.usage = usage
  }
}

const what: Readonly<Record<InvalidOutput['code'], string>> = {
  reply_not_json: 'The reply is not JSON',
  reply_schema_failed: 'The reply fails its schema',
  repetition: 'The model repeated itself without end, and was stopped',
}

const cut: Partial<Record<FinishReason, string>> = {
  length: ' (it was cut off at the token limit)',
  content_filter: ' (it was stopped by a content filter)',
}
