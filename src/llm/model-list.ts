// The models that a server lists, for people who named none of them or a wrong one.
import { GraphmillError } from '../errors.ts'
import { type NamedServer, type ProviderError, providerError } from './provider-error.ts'

/** The only one of the listed models. Throws `llm_model_unknown`, with their names, when one must be chosen. */
export function onlyOne(models: readonly string[], server: NamedServer): string {
  if (models.length === 1) return models[0]!
  throw unknownModel(`No model is named, and ${server.destination} has ${models.length}`, models, server)
}

/** The error for a model that must be named otherwise. The message has the first ten names, `details.models` all. */
export function unknownModel(
  problem: string,
  models: readonly string[],
  { circuit }: NamedServer,
): ProviderError {
  const more = models.length > 10 ? ` and ${models.length - 10} more` : ''
  const names = models.length > 0 ? `: ${models.slice(0, 10).join(', ')}${more}` : ''
  return providerError('llm_model_unknown', `${problem}${names}.`, { circuit, details: { models } })
}

/** Whether a failure says that the server does not have a route. */
export function isMissing(thrown: unknown): boolean {
  const status = thrown instanceof GraphmillError ? thrown.details['status'] : undefined
  return status === 404 || status === 405 || status === 501
}
