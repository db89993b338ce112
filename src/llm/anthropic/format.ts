// How Anthropic is asked for JSON: by `output_config.format`, or by a tool that the model must call when it has no such format.
import { wireSchema } from '../cache/canonical.ts'
import type { JsonFormat, JsonSchema } from '../llm.ts'
import { unwrapped } from '../structured-output/unwrapped.ts'

type Fields = Readonly<Record<string, unknown>>

export const anthropicJson: JsonFormat = {
  objectsOnly: true,
  schema: (schema) => ({ output_config: outputConfig(wireSchema(schema) as JsonSchema) }),
  translate: (given) => {
    const schema = given['type'] === 'json_schema' ? unwrapped(given).schema : undefined
    return schema ? anthropicJson.schema(schema) : {}
  },
}

export function outputConfig(schema: JsonSchema): Fields {
  return { format: { type: 'json_schema', schema } }
}

/** Not a name that a caller's tool is likely to have. */
export const answerTool = 'give_structured_answer'

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
