// The first request of a run, and the request that the run is found by in the cache.
import type { CompletionRequest, Llm } from '../../llm/llm.ts'
import type { Prompt } from '../catalogue/prompt.ts'
import type { Terms } from '../catalogue/terms.ts'
import type { ItemsForm } from './items-form.ts'

/** The request for these terms in this form. Throws `prompt_render_failed`. */
export function firstRequest(prompt: Prompt, terms: Terms, llm: Llm, form: ItemsForm): CompletionRequest {
  const { system, user } = prompt.render(terms)
  return form.constrain({
    messages: [
      ...(system === '' ? [] : [{ role: 'system', content: system } as const]),
      { role: 'user', content: user },
    ],
    sampling: { ...llm.sampling, ...prompt.sampling },
    origin: { promptId: prompt.id, terms, schema: prompt.jsonSchema },
  })
}

/**
 * The first request as it is wanted. It stays the key when the server refuses that form and is asked in another.
 * Throws `prompt_render_failed`.
 */
export function cacheKeyRequest(prompt: Prompt, terms: Terms, llm: Llm, form: ItemsForm): CompletionRequest {
  const request = firstRequest(prompt, terms, llm, form)
  if (prompt.responseType !== 'json') return request
  // Each mode puts the schema on the wire in its own way.
  const { outputMode = llm.outputMode, jsonSchema } = prompt
  return { ...request, extras: { ...request.extras, outputMode, jsonSchema } }
}
