// The published rules of Gemini's wire (ai.google.dev/api: generateContent, Content, Part, GenerationConfig, Tool, ToolConfig). A
// server that keeps them refuses what breaks one, as Google's does.

type Fields = Readonly<Record<string, unknown>>

export interface GeminiRequest {
  readonly method: string
  /** With its query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
}

const rootFields = new Set([
  ...['contents', 'systemInstruction', 'tools', 'toolConfig', 'safetySettings', 'generationConfig'],
  ...['cachedContent', 'labels', 'serviceTier', 'store'],
])
const configFields = new Set([
  ...['temperature', 'maxOutputTokens', 'topP', 'topK', 'seed', 'stopSequences', 'candidateCount'],
  ...['frequencyPenalty', 'presencePenalty', 'responseMimeType', 'responseSchema', 'responseJsonSchema'],
  ...['thinkingConfig', 'responseLogprobs', 'logprobs', 'responseModalities', 'mediaResolution'],
])
const dataFields = ['text', 'inlineData', 'fileData', 'functionCall', 'functionResponse']
const partFields = new Set([...dataFields, 'thought', 'thoughtSignature'])

/** What the request breaks, in the server's words; undefined when it keeps every rule. */
export function brokenRule({ method, path, headers, body }: GeminiRequest): string | undefined {
  const url = new URL(path, 'http://server')
  if (url.searchParams.has('key')) return 'The test server takes the key only in the header.'
  if (headers['authorization'] !== undefined) return 'Expected OAuth 2 access token.'
  if (method !== 'POST') return `The method ${method} is not allowed.`
  if (!/json/.test(String(headers['content-type']))) return 'Unsupported content type.'
  if (path.includes(':stream') && url.searchParams.get('alt') !== 'sse')
    return 'The test server streams only events.'
  if (!isObject(body)) return 'Invalid JSON payload received.'
  return firstOf([
    () => unknownField(body, rootFields, ''),
    () => contentsRule(body['contents']),
    () => instructionRule(body['systemInstruction']),
    () => configRule(body['generationConfig'] ?? {}),
    () => toolRule(body['tools'] ?? [], body['toolConfig']),
  ])
}

function contentsRule(contents: unknown): string | undefined {
  if (!Array.isArray(contents) || contents.length === 0)
    return '* GenerateContentRequest.contents: contents is not specified'
  const list = contents as unknown[]
  const broken = firstOf(list.map((content, at) => () => contentRule(content, at)))
  if (broken) return broken
  const turns = list as { role: string; parts: Fields[] }[]
  if (turns.at(-1)!.role !== 'user')
    return 'Please ensure that single turn requests end with a user role or the role field is empty.'
  const countOf = (at: number, field: string) =>
    (turns[at]?.parts ?? []).filter((part) => field in part).length
  return firstOf(
    turns.map((_, at) => () => {
      const responses = countOf(at, 'functionResponse')
      if (responses > 0 && responses !== countOf(at - 1, 'functionCall'))
        return 'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.'
      return undefined
    }),
  )
}

function contentRule(content: unknown, at: number): string | undefined {
  const place = `contents[${at}]`
  if (!isObject(content)) return `Invalid value at '${place}'`
  const { role, parts } = content
  if (role !== 'user' && role !== 'model') return 'Please use a valid role: user, model.'
  if (!Array.isArray(parts) || parts.length === 0)
    return `* GenerateContentRequest.${place}.parts: contents.parts must not be empty.`
  return firstOf([
    () => unknownField(content, new Set(['role', 'parts']), place),
    ...(parts as unknown[]).map((part, n) => () => partRule(part, role, `${place}.parts[${n}]`)),
  ])
}

function partRule(part: unknown, role: string, place: string): string | undefined {
  if (!isObject(part)) return `Invalid value at '${place}'`
  const unknown = unknownField(part, partFields, place)
  if (unknown) return unknown
  const data = dataFields.filter((field) => field in part)
  if (data.length !== 1) return `${place}.data: required oneof field 'data' must have one initialized field`
  if ('text' in part && (typeof part['text'] !== 'string' || part['text'] === ''))
    return 'Unable to submit request because it must have a text parameter.'
  const { functionCall: call, functionResponse: answer, inlineData, fileData } = part
  if (
    call !== undefined &&
    (role !== 'model' || !isObject(call) || typeof call['name'] !== 'string' || !isObject(call['args']))
  )
    return `Invalid function call at '${place}'`
  if (
    answer !== undefined &&
    (role !== 'user' ||
      !isObject(answer) ||
      typeof answer['name'] !== 'string' ||
      !isObject(answer['response']))
  )
    return `Invalid function response at '${place}'`
  if (inlineData !== undefined && !hasTexts(inlineData, ['mimeType', 'data']))
    return `Invalid value at '${place}.inline_data'`
  if (fileData !== undefined && !hasTexts(fileData, ['fileUri']))
    return `Invalid value at '${place}.file_data'`
  if (
    part['thoughtSignature'] !== undefined &&
    (typeof part['thoughtSignature'] !== 'string' || part['thoughtSignature'] === '')
  )
    return `Invalid value at '${place}.thought_signature' (TYPE_BYTES)`
  return undefined
}

function instructionRule(instruction: unknown): string | undefined {
  if (instruction === undefined) return undefined
  const parts = isObject(instruction) ? instruction['parts'] : undefined
  if (!Array.isArray(parts) || parts.length === 0 || !parts.every((part) => hasTexts(part, ['text'])))
    return "Invalid value at 'system_instruction'"
  return undefined
}

function configRule(config: unknown): string | undefined {
  if (!isObject(config)) return "Invalid value at 'generation_config'"
  const unknown = unknownField(config, configFields, 'generation_config')
  if (unknown) return unknown
  const {
    temperature,
    maxOutputTokens,
    stopSequences,
    responseMimeType,
    responseSchema,
    responseJsonSchema,
  } = config
  if (temperature !== undefined && !(Number(temperature) >= 0 && Number(temperature) <= 2))
    return '* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0].'
  if (maxOutputTokens !== undefined && !(Number(maxOutputTokens) > 0))
    return '* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be positive.'
  if (stopSequences !== undefined && !(Array.isArray(stopSequences) && stopSequences.length <= 5))
    return 'The number of stop_sequences must be at most 5.'
  const schema = responseSchema ?? responseJsonSchema
  if (responseSchema !== undefined && responseJsonSchema !== undefined)
    return 'Only one of response_schema and response_json_schema can be set.'
  if (schema !== undefined && responseMimeType !== 'application/json')
    return 'A response schema can only be specified with response_mime_type application/json.'
  return undefined
}

function toolRule(tools: unknown, config: unknown): string | undefined {
  if (!Array.isArray(tools)) return "Invalid value at 'tools'"
  const declared = tools.flatMap((tool) =>
    isObject(tool) && Array.isArray(tool['functionDeclarations']) ? tool['functionDeclarations'] : [],
  ) as Fields[]
  for (const { name, description, parameters, parametersJsonSchema } of declared) {
    if (!/^[A-Za-z_][\w.-]{0,63}$/.test(String(name))) return `Invalid function name: ${String(name)}`
    if (typeof description !== 'string' || description === '')
      return `The function ${String(name)} has no description.`
    if (parameters !== undefined && parametersJsonSchema !== undefined)
      return 'Only one of parameters and parameters_json_schema can be set.'
  }
  if (config === undefined) return undefined
  const { mode, allowedFunctionNames } = ((config as Fields)['functionCallingConfig'] ?? {}) as Fields
  if (declared.length === 0) return 'Function calling config is set without function_declarations.'
  if (!['AUTO', 'ANY', 'NONE', 'VALIDATED'].includes(String(mode)))
    return `Invalid value at 'tool_config' (${String(mode)})`
  if (allowedFunctionNames === undefined) return undefined
  if (mode !== 'ANY' && mode !== 'VALIDATED')
    return 'Allowed function names should only be set when the mode is ANY.'
  const names = declared.map(({ name }) => name)
  return (allowedFunctionNames as unknown[]).every((name) => names.includes(name))
    ? undefined
    : 'Allowed function names are not declared.'
}

function unknownField(value: Fields, known: ReadonlySet<string>, place: string): string | undefined {
  const name = Object.keys(value).find((field) => !known.has(field))
  if (name === undefined) return undefined
  const at = place === '' ? '' : ` at '${place}'`
  return `Invalid JSON payload received. Unknown name "${name}"${at}: Cannot find field.`
}

function firstOf(checks: readonly (() => string | undefined)[]): string | undefined {
  for (const check of checks) {
    const broken = check()
    if (broken !== undefined) return broken
  }
  return undefined
}

function hasTexts(value: unknown, fields: readonly string[]): boolean {
  return isObject(value) && fields.every((field) => typeof value[field] === 'string' && value[field] !== '')
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
