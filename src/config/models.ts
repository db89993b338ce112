// The names of model providers and of output modes, for options.

/** The values of `--llm`. Each has its row in `src/llm/providers.ts`. */
export const providerNames = ['openai', 'ollama', 'offline'] as const

export type ProviderName = (typeof providerNames)[number]

/**
 * The values of `--output-mode`: the six modes of tidyprompt's answer_as_json, then OpenArmature's two: the server constrains the
 * reply, or the system message asks for it.
 */
export const answerModes = [
  'auto',
  'text-based',
  'openai',
  'ollama',
  'openai_oo',
  'ollama_oo',
  'native',
  'fallback',
] as const

export type AnswerMode = (typeof answerModes)[number]

/** A mode that was chosen; `plain` asks for nothing. */
export type ResolvedMode = Exclude<AnswerMode, 'auto'> | 'plain'
