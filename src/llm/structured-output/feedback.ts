// What a model is told of an answer that cannot be used, in tidyprompt's words: the default reask builder for JSON.
import type { ReaskContext } from '../provider.ts'

/** A reask builder that says what is wrong, and `schemaBlock` again where the prompt said it. */
export function feedbackOn(schemaBlock: string | undefined): (context: ReaskContext) => string {
  return ({ code, errorMessage }) => {
    if (code === 'reply_not_json') return 'You must respond as a valid JSON object.'
    const parts = ['Your response did not match the expected JSON schema.', table(errorMessage)]
    return [...parts, ...(schemaBlock === undefined ? [] : [schemaBlock])].join('\n\n')
  }
}

/** One row: the place in the answer, and what is wrong there. */
function table(errorMessage: string): string {
  const [, place = '/', message = errorMessage] = /^(\/\S*): (.*)$/s.exec(errorMessage) ?? []
  return `instancePath, message\n${place}, ${message}`
}
