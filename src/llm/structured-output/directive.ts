// The words of the system message that ask for JSON when the server does not constrain the reply.
import { wireSchema } from '../cache/canonical.ts'
import type { JsonSchema } from '../llm.ts'

interface SystemText {
  readonly role: 'system'
  readonly content: string
}

/** A copy of the messages whose system message ends with, or is, this text. */
export function withSystemText<M extends { readonly role: string; readonly content?: unknown }>(
  messages: readonly M[],
  text: string,
): (M | SystemText)[] {
  const [first, ...rest] = messages
  if (first?.role !== 'system') return [{ role: 'system', content: text }, ...messages]
  return [{ role: 'system', content: `${String(first.content)}\n\n${text}` }, ...rest]
}

/** The directive for a schema. `tools`: the model may call a tool instead. */
export function directiveFor(schema: JsonSchema, tools: boolean): string {
  return [
    `${tools ? 'Unless you call a tool, reply' : 'Reply'} with one JSON object and nothing else: no explanation, no code fence.`,
    'It must be valid against this JSON Schema:',
    JSON.stringify(wireSchema(schema)),
  ].join('\n')
}
