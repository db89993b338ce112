// How Ollama is asked for JSON: by `format`, which is the schema itself.
import { wireSchema } from '../cache/canonical.ts'
import type { JsonFormat } from '../llm.ts'
import { unwrapped } from '../structured-output/unwrapped.ts'

const jsonMode = { format: 'json' }

export const ollamaJson: JsonFormat = {
  schemaMode: 'ollama',
  objectMode: 'ollama_oo',
  objectsOnly: false,
  object: jsonMode,
  schema: (schema) => ({ format: wireSchema(schema) }),
  translate(given) {
    if (given['type'] === 'json_object') return jsonMode
    return given['type'] === 'json_schema' ? { format: unwrapped(given).schema } : {}
  },
}
