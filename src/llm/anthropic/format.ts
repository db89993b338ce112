// How Anthropic is asked for JSON: by `output_config.format`, or by a tool that the model must call when it has no such format.
import { wireSchema } from '../cache/canonical.ts'
import type { JsonFormat, JsonSchema } from '../llm.ts'
import { unwrapped } from '../structured-output/unwrapped.ts'

type Fields = Readonly<Record<string, unknown>>

/** Not a name that a caller's tool is likely to have. */
export const answerTool = 'give_structured_answer'

/** Anthropic has no JSON mode, but the input of a tool is an object. */
const jsonMode = forcedTool({ type: 'object' })

export const anthropicJson: JsonFormat = {
  objectsOnly: true,
  object: jsonMode,
  schema: (schema) => ({ output_config: outputConfig(wireSchema(schema) as JsonSchema) }),
  translate(given) {
    if (given['type'] === 'json_object') return jsonMode
    return given['type'] === 'json_schema' ? anthropicJson.schema(unwrapped(given).schema) : {}
  },
}

/** Whether Anthropic refuses a text: it must hold more than white space. */
export function isBlank(text: string): boolean {
  return text.trim() === ''
}

/** The value of the field `output_config` that asks for a schema. */
export function outputConfig(schema: JsonSchema): Fields {
  return { format: { type: 'json_schema', schema } }
}

/** The fields that make the model call one tool, whose input is the answer. Thinking excludes them. */
export function forcedTool(schema: JsonSchema): Fields {
  return {
    tools: [{ name: answerTool, description: 'Takes the answer, as its input.', input_schema: schema }],
    tool_choice: { type: 'tool', name: answerTool },
  }
}

/** Whether the fields of a request let the model think, which excludes that it must call a tool. */
export function isThinking({ thinking }: Fields): boolean {
  const type = (thinking as Fields | undefined | null)?.['type']
  return type !== undefined && type !== 'disabled'
}
