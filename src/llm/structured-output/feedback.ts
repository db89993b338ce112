// The default reask for JSON, in tidyprompt's words.
import type { ReaskContext } from './attempts.ts'

/** Says what is wrong, and repeats `schemaBlock` when the prompt has it. */
export function feedbackOn({ code, errorMessage }: ReaskContext, schemaBlock: string | undefined): string {
  if (code === 'reply_not_json') return 'You must respond as a valid JSON object.'
  const parts = ['Your response did not match the expected JSON schema.', table(errorMessage)]
  return [...parts, ...(schemaBlock === undefined ? [] : [schemaBlock])].join('\n\n')
}

/** One row: the place in the answer, and what is wrong there. */
function table(errorMessage: string): string {
  const [, place = '/', message = errorMessage] = /^(\/\S*): (.*)$/s.exec(errorMessage) ?? []
  return `instancePath, message\n${place}, ${message}`
}
