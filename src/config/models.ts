// The names that options have for models: their providers, and the ways to ask them for JSON.

/** `--llm`. Each has its row in `src/llm/providers.ts`. */
export const providerNames = ['openai', 'ollama', 'offline'] as const

export type ProviderName = (typeof providerNames)[number]

/**
 * `--output-mode`: the six of tidyprompt's answer_as_json by their names, then OpenArmature's two: constrained by the server,
 * or asked for in the system message.
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
