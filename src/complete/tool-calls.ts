// What must hold of a tool call in a reply: an id, one of the request's tools, and arguments that fit its parameters.
import type { CheckedSchema } from '../llm/structured-output/checked-schema.ts'
import type { ToolCall } from './provider.ts'

/** What is wrong with a call, in a few words; undefined when it is usable. */
export function callProblem(call: ToolCall, tools: ReadonlyMap<string, CheckedSchema>): string | undefined {
  if (call.id === '') return 'a tool call has no id'
  const parameters = tools.get(call.name)
  if (!parameters) return `it calls ${call.name || 'a tool without a name'}, which is not among the tools`
  if (call.arguments === null) return `the arguments for ${call.name} are not a JSON object`
  const failed = parameters.check(call.arguments)
  return failed === undefined ? undefined : `the arguments for ${call.name} fail their schema: ${failed}`
}
