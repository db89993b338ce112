// Asking again for items that failed the prompt's schema: one call with only these records and what is wrong with each. An
// item that comes back valid replaces the record that it has most in common with; an item that matches none is ignored.
import { jsonValue } from '../../json-value.ts'
import { flatJson } from '../../llm/cache/canonical.ts'
import type { CompletionRequest, JsonSchema, TextMessage } from '../../llm/llm.ts'
import type { RejectionInit } from '../../messages/generated.ts'
import type { ItemsForm } from './items-form.ts'

/** A rejection, with the whole record when the model may be asked for it again. */
export interface RejectedRecord extends RejectionInit {
  readonly record?: string | undefined
}

/** Records of one reask, and their characters, at most. */
const maxRecords = 50
const maxCharacters = 20_000

/** The rejections that failed the schema, as many as one call takes: a record that is too long for the rest is left out. */
export function reaskable(rejections: readonly RejectedRecord[]): RejectedRecord[] {
  const records: RejectedRecord[] = []
  let left = maxCharacters
  for (const rejection of rejections) {
    const { reason, record } = rejection
    if (reason !== 'schema' || record === undefined || record.length > left) continue
    records.push(rejection)
    left -= record.length
    if (records.length === maxRecords) break
  }
  return records
}

/** The request: the system message of the first one, then the records with the reasons, and the schema that they failed. */
export function reaskRequest(
  { messages, sampling, extras }: CompletionRequest,
  records: readonly RejectedRecord[],
  { schema, form }: { readonly schema: JsonSchema | undefined; readonly form: ItemsForm },
): CompletionRequest {
  const none = form.none === '' ? 'nothing' : form.none
  const content = [
    'Each of these lines of yours is a JSON object that does not fit its schema. Below each stands what is wrong with it.',
    records.map(({ record, message }) => `${oneLine(record!)}\n# ${message}`).join('\n'),
    ...(schema ? [`The schema:\n${JSON.stringify(schema)}`] : []),
    'Write each line again so that it fits, one JSON object a line and nothing else. Change only what is wrong. ' +
      `Leave out a line that cannot be mended by what it says itself. If that is so for all of them, write ${none}.`,
  ].join('\n\n')
  const user: TextMessage = { role: 'user', content }
  return {
    messages: [...messages.filter(({ role }) => role === 'system'), user],
    ...(sampling && { sampling }),
    ...(extras && { extras }),
  }
}

/** The record that has most in common with `item`, by its values, whatever their keys; undefined when none has anything. */
export function recordOf(item: unknown, records: readonly RejectedRecord[]): RejectedRecord | undefined {
  const values = valuesOf(item)
  let best: RejectedRecord | undefined
  let most = 0
  for (const candidate of records) {
    const common = valuesOf(jsonValue(candidate.record ?? '')).filter((value) =>
      values.includes(value),
    ).length
    if (common > most) {
      best = candidate
      most = common
    }
  }
  return best
}

/** The values as lower-case texts; 12 and "12" are the same. */
function valuesOf(item: unknown): string[] {
  if (typeof item !== 'object' || item === null) return []
  return Object.values(item).map((value: unknown) =>
    (typeof value === 'string' ? value : flatJson(value)).trim().toLowerCase(),
  )
}

function oneLine(record: string): string {
  return record.replace(/\s*\n\s*/g, ' ')
}
