// The names of model providers, of the variables of their servers, and of output modes.

/** The values of `--llm`. Each has its row in `src/llm/providers.ts`. */
export const providerNames = [
  'openai',
  'ollama',
  'anthropic',
  'gemini',
  'azure',
  'text-service',
  'offline',
] as const

export type ProviderName = (typeof providerNames)[number]

/** The provider that needs no server. */
export const localProvider = 'offline' satisfies ProviderName

/** The value of `--llm` for the server that is configured, or the local provider when none is. */
export const configuredOrLocal = 'auto'

interface ServerVariable {
  readonly variable: string
  /** A secret may also be in the file that the variable with `_FILE` names. */
  readonly holds: 'address' | 'secret' | 'text'
  readonly help: string
}

/** The variables that configure the servers of models, by their names in the configuration. */
export const serverVariables = {
  openaiBaseUrl: {
    variable: 'OPENAI_BASE_URL',
    holds: 'address',
    help: 'an OpenAI-compatible server, up to the part before /chat/completions; default: OpenAI itself',
  },
  openaiApiKey: { variable: 'OPENAI_API_KEY', holds: 'secret', help: 'its key' },
  ollamaHost: { variable: 'OLLAMA_HOST', holds: 'address', help: 'host and port of an Ollama server' },
  anthropicBaseUrl: {
    variable: 'ANTHROPIC_BASE_URL',
    holds: 'address',
    help: "a server with Anthropic's API, up to the part before /v1/messages; default: Anthropic itself",
  },
  anthropicApiKey: { variable: 'ANTHROPIC_API_KEY', holds: 'secret', help: 'its key' },
  geminiApiKey: { variable: 'GEMINI_API_KEY', holds: 'secret', help: "the key of Google's Gemini API" },
  geminiBaseUrl: {
    variable: 'GEMINI_BASE_URL',
    holds: 'address',
    help: "a server with Gemini's API, with or without its version; default: Google's",
  },
  azureEndpoint: {
    variable: 'AZURE_OPENAI_ENDPOINT',
    holds: 'address',
    help: 'Azure OpenAI: `https://NAME.openai.azure.com`, or a longer address up to /openai/v1 or to a deployment; a model is a deployment',
  },
  azureApiKey: { variable: 'AZURE_OPENAI_API_KEY', holds: 'secret', help: 'its key' },
  azureToken: {
    variable: 'AZURE_OPENAI_AD_TOKEN',
    holds: 'secret',
    help: 'a token of Microsoft Entra, sent instead of the key',
  },
  azureApiVersion: {
    variable: 'OPENAI_API_VERSION',
    holds: 'text',
    help: 'version of the classic API, such as 2024-10-21; default: the v1 API, which needs none',
  },
} as const satisfies Readonly<Record<string, ServerVariable>>

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

/** What is said beside the list of modes about a name that is none. */
export const modeHints: Readonly<Record<string, string>> = {
  ellmer: " tidyprompt's mode ellmer is that of an R package: it does not exist outside of R.",
}

/** How JSON is asked for. */
export type AnswerMode = (typeof answerModes)[number]

/** A mode that was chosen; `plain` asks for nothing. */
export type ResolvedMode = Exclude<AnswerMode, 'auto'> | 'plain'
