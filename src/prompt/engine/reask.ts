// Asking again for items that failed the prompt's schema: one call with only these lines and what is wrong with each. What
// comes back valid takes the place of the line that it has most in common with; it never invents a new one.
import { flatJson } from '../../llm/cache/canonical.ts'
import type { CompletionRequest, JsonSchema, TextMessage } from '../../llm/llm.ts'
import type { RejectionInit } from '../../messages/generated.ts'
import type { ItemsForm } from './items-form.ts'

/** A rejection with the whole record, where it may be asked for again. */
export interface Refused extends RejectionInit {
  readonly record?: string | undefined
}

/** Lines, and characters of them, that are asked for again, at most. */
const mostLines = 50
const mostCharacters = 20_000

/** The rejections that failed the schema, as many as one call takes: a line that no longer fits is left out. */
export function reaskable(rejections: readonly Refused[]): Refused[] {
  const lines: Refused[] = []
  let left = mostCharacters
  for (const rejection of rejections) {
    const { reason, record } = rejection
    if (reason !== 'schema' || record === undefined || record.length > left) continue
    lines.push(rejection)
    left -= record.length
    if (lines.length === mostLines) break
  }
  return lines
}

/** The request: the system message of the first one, then the lines and reasons, and the schema that they failed. */
export function reaskOf(
  { messages, sampling, extras }: CompletionRequest,
  lines: readonly Refused[],
  { schema, form }: { readonly schema: JsonSchema | undefined; readonly form: ItemsForm },
): CompletionRequest {
  const none = form.none === '' ? 'nothing' : form.none
  const content = [
    'Each of these lines of yours is a JSON object that does not fit its schema. Below each stands what is wrong with it.',
    lines.map(({ record, message }) => `${oneLine(record!)}\n# ${message}`).join('\n'),
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

/** The one of `lines` that has most in common with `item`: by its values, whatever their keys. Undefined: none has anything. */
export function lineOf(item: unknown, lines: readonly Refused[]): Refused | undefined {
  const values = valuesOf(item)
  let best: Refused | undefined
  let most = 0
  for (const line of lines) {
    const common = valuesOf(parsed(line.record)).filter((value) => values.includes(value)).length
    if (common > most) {
      best = line
      most = common
    }
  }
  return best
}

function parsed(record: string | undefined): unknown {
  try {
    return JSON.parse(record ?? '')
  } catch {
    return undefined
  }
}

/** Its values as texts, without regard to case; 12 and "12" are the same. */
function valuesOf(item: unknown): string[] {
  if (typeof item !== 'object' || item === null) return []
  return Object.values(item).map((value: unknown) =>
    (typeof value === 'string' ? value : flatJson(value)).trim().toLowerCase(),
  )
}

function oneLine(record: string): string {
  return record.replace(/\s*\n\s*/g, ' ')
}
