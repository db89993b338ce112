// The published rules of the Messages API's wire, as far as a request can break them, in the words of its errors.
import type { Recorded } from './recording-server.ts'

type Fields = Readonly<Record<string, unknown>>

/** What a model takes. */
export interface ModelRules {
  /** The largest `max_tokens`. */
  readonly mostTokens: number
  readonly lacks: readonly ('format' | 'temperature' | 'eager')[]
}

/** The message of the `invalid_request_error` for the first rule that a request breaks. */
export function brokenRule(request: Recorded, rules: ModelRules): string | undefined {
  try {
    checkHeaders(request)
    checkBody(request.json, rules)
    return undefined
  } catch (thrown) {
    if (thrown instanceof Broken) return thrown.message
    throw thrown
  }
}

class Broken extends Error {}

function must(holds: boolean, message: string): asserts holds {
  if (!holds) throw new Broken(message)
}

function checkHeaders({ headers }: Recorded): void {
  must(headers['anthropic-version'] === '2023-06-01', 'anthropic-version: header is required')
  must(/^application\/json\b/.test(headers['content-type'] ?? ''), 'content-type: must be application/json')
}

const fields = [
  ...[
    'model',
    'messages',
    'max_tokens',
    'system',
    'stream',
    'stop_sequences',
    'temperature',
    'top_p',
    'top_k',
  ],
  ...['tools', 'tool_choice', 'thinking', 'metadata', 'output_config', 'service_tier', 'cache_control'],
  ...['container', 'inference_geo'],
]

function checkBody(body: Fields, { mostTokens, lacks }: ModelRules): void {
  only(body, fields, '')
  const { model, max_tokens: most, messages, system, temperature, top_p: topP, stop_sequences: stops } = body
  must(typeof model === 'string' && model !== '', 'model: Field required')
  must(most !== undefined, 'max_tokens: Field required')
  must(Number.isInteger(most) && Number(most) > 0, 'max_tokens: Input should be a valid integer above 0')
  must(
    Number(most) <= mostTokens,
    `max_tokens: ${most} > ${mostTokens}, which is the maximum allowed number of output tokens for ${model}`,
  )
  if (system !== undefined)
    must(system !== '' && (typeof system === 'string' || Array.isArray(system)), 'system: invalid')
  must(
    !(lacks.includes('temperature') && temperature !== undefined),
    '`temperature` is deprecated for this model.',
  )
  if (temperature !== undefined) must(inRange(temperature), 'temperature: range: 0..1')
  if (topP !== undefined) must(inRange(topP), 'top_p: range: 0..1')
  if (stops !== undefined)
    must(
      Array.isArray(stops) && stops.every((stop) => typeof stop === 'string' && stop.trim() !== ''),
      'stop_sequences: each stop sequence must contain non-whitespace',
    )
  if (body['stream'] !== undefined)
    must(typeof body['stream'] === 'boolean', 'stream: Input should be a valid boolean')
  checkMessages(messages)
  checkTools(body, lacks.includes('eager'))
  checkThinking(body)
  checkOutput(body, lacks.includes('format'))
}

const inRange = (value: unknown) => typeof value === 'number' && value >= 0 && value <= 1

function only(value: Fields, names: readonly string[], place: string): void {
  const extra = Object.keys(value).find((name) => !names.includes(name))
  must(extra === undefined, `${place}${extra}: Extra inputs are not permitted`)
}

function checkMessages(messages: unknown): void {
  must(Array.isArray(messages), 'messages: Field required')
  must(messages.length > 0, 'messages: at least one message is required')
  let due: readonly string[] = []
  messages.forEach((message: Fields, index) => {
    const { role, content } = message
    only(message, ['role', 'content'], `messages.${index}.`)
    must(
      role === 'user' || role === 'assistant',
      `messages: Unexpected role "${role}". The Messages API accepts a top-level \`system\` parameter, not "system" as an input message role.`,
    )
    must(index > 0 || role === 'user', 'messages: first message must use the "user" role')
    must(
      index === 0 || messages[index - 1].role !== role,
      `messages: roles must alternate between "user" and "assistant", but found multiple "${role}" roles in a row`,
    )
    must(
      (typeof content === 'string' || Array.isArray(content)) && content.length > 0,
      `messages.${index}: messages must have non-empty content`,
    )
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : (content as Fields[])
    for (const [at, block] of blocks.entries())
      checkBlock(block, String(role), `messages.${index}.content.${at}`)
    const answered = blocks.flatMap(({ type, tool_use_id: id }) =>
      type === 'tool_result' ? [String(id)] : [],
    )
    must(
      due.every((id) => answered.includes(id)),
      `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${due.join(', ')}`,
    )
    must(
      answered.every((id) => due.includes(id)),
      `messages.${index}: unexpected \`tool_use_id\` found in \`tool_result\` blocks`,
    )
    due = blocks.flatMap(({ type, id }) => (type === 'tool_use' ? [String(id)] : []))
  })
  must(
    messages.at(-1).role === 'user',
    'This model does not support assistant message prefill. The conversation must end with a user message.',
  )
}

const blockFields: Readonly<Record<string, readonly string[]>> = {
  text: ['text'],
  image: ['source'],
  tool_result: ['tool_use_id', 'content'],
  tool_use: ['id', 'name', 'input'],
  thinking: ['thinking', 'signature'],
  redacted_thinking: ['data'],
}
const ofRole: Readonly<Record<string, readonly string[]>> = {
  user: ['text', 'image', 'tool_result'],
  assistant: ['text', 'tool_use', 'thinking', 'redacted_thinking'],
}

function checkBlock(block: Fields, role: string, place: string): void {
  const type = String(block['type'])
  must(
    ofRole[role]!.includes(type),
    `${place}: Input tag '${type}' found using 'type' does not match any of the expected tags`,
  )
  only(block, ['type', ...blockFields[type]!, 'cache_control', 'is_error'], `${place}.${type}.`)
  for (const name of blockFields[type]!)
    must(block[name] !== undefined, `${place}.${type}.${name}: Field required`)
  if (type === 'text')
    must(
      String(block['text']).trim() !== '',
      'messages: text content blocks must contain non-whitespace text',
    )
  if (type === 'tool_use')
    must(
      /^[\w-]+$/.test(String(block['id'])) && typeof block['input'] === 'object' && block['input'] !== null,
      `${place}.tool_use.input: Input should be a valid dictionary`,
    )
  if (type === 'image') checkSource(block['source'] as Fields, `${place}.image.source`)
}

function checkSource(source: Fields, place: string): void {
  if (source['type'] === 'url') return void only(source, ['type', 'url'], `${place}.url.`)
  must(
    source['type'] === 'base64',
    `${place}: Input tag '${source['type']}' does not match any of the expected tags`,
  )
  only(source, ['type', 'media_type', 'data'], `${place}.base64.`)
  must(
    ['image/jpeg', 'image/png', 'image/gif', 'image/webp'].includes(String(source['media_type'])),
    `${place}.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'`,
  )
}

function checkTools({ tools = [], tool_choice: choice }: Fields, lacksEager: boolean): void {
  must(Array.isArray(tools), 'tools: Input should be a valid list')
  for (const [at, tool] of (tools as Fields[]).entries()) {
    const place = `tools.${at}.custom.`
    const known = ['type', 'name', 'description', 'input_schema', 'strict', 'cache_control']
    only(tool, lacksEager ? known : [...known, 'eager_input_streaming'], place)
    must(
      /^[\w-]{1,128}$/.test(String(tool['name'])),
      `${place}name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`,
    )
    const schema = tool['input_schema'] as Fields | undefined
    must(schema?.['type'] === 'object', `${place}input_schema.type: Field required`)
  }
  const names = (tools as Fields[]).map(({ name }) => name)
  must(new Set(names).size === names.length, 'tools: Tool names must be unique.')
  if (choice === undefined) return
  const { type, name } = choice as Fields
  only(choice as Fields, ['type', 'name', 'disable_parallel_tool_use'], 'tool_choice.')
  must(
    ['auto', 'any', 'tool', 'none'].includes(String(type)),
    `tool_choice: Input tag '${type}' does not match`,
  )
  must(names.length > 0, 'tool_choice may only be specified while providing tools.')
  must((type === 'tool') === (name !== undefined), 'tool_choice.tool.name: Field required')
  must(
    type !== 'tool' || names.includes(name),
    `tool_choice.tool: Tool '${name}' not found in provided tools`,
  )
}

function checkThinking({ thinking, tool_choice: choice, max_tokens: most }: Fields): void {
  if (thinking === undefined) return
  const { type, budget_tokens: budget } = thinking as Fields
  if (type === 'disabled') return
  must(type === 'enabled' || type === 'adaptive', `thinking: Input tag '${type}' does not match`)
  must(
    type === 'adaptive' || Number(budget) >= 1024,
    'thinking.enabled.budget_tokens: Input should be 1024 or more',
  )
  must(
    type === 'adaptive' || Number(budget) < Number(most),
    '`max_tokens` must be greater than `thinking.budget_tokens`.',
  )
  must(
    !['any', 'tool'].includes(String((choice as Fields | undefined)?.['type'])),
    'Thinking may not be enabled when tool_choice forces tool use.',
  )
}

function checkOutput({ output_config: config, model }: Fields, lacksFormat: boolean): void {
  if (config === undefined) return
  only(config as Fields, ['format', 'effort'], 'output_config.')
  const { format } = config as { format?: Fields }
  if (format === undefined) return
  must(!lacksFormat, `'${model}' does not support output format.`)
  only(format, ['type', 'schema'], 'output_config.format.')
  must(format['type'] === 'json_schema', "output_config.format.type: Input should be 'json_schema'")
  checkSchema(format['schema'])
}

const unsupported = ['minimum', 'maximum', 'minLength', 'maxLength', 'multipleOf', 'maxItems', 'oneOf', 'not']

function checkSchema(schema: unknown): void {
  if (Array.isArray(schema)) for (const each of schema as unknown[]) checkSchema(each)
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return
  const { type, additionalProperties: open, properties = {}, ...others } = schema as Fields
  const place = 'output_config.format.schema: '
  must(
    type !== 'object' || open === false,
    `${place}For 'object' type, 'additionalProperties' must be explicitly set to false`,
  )
  const keyword = unsupported.find((name) => name in schema)
  must(keyword === undefined, `${place}For '${type}' type, property '${keyword}' is not supported`)
  for (const child of Object.values(properties as Fields)) checkSchema(child)
  for (const [name, child] of Object.entries(others))
    if (!['enum', 'const', 'default', 'required'].includes(name)) checkSchema(child)
}
