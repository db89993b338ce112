// From the body of a chat completion to OpenArmature's message: content as the model wrote it, tool calls checked against the
// tools, counts as reported. A streamed reply is first put together into the same body, so that both ways give the same.
import { isObject } from '../../is-object.ts'
import { finishReason, reportedUsage } from '../../llm/openai/openai.ts'
import type { Fields } from '../../llm/openai/reply.ts'
import type { CheckedSchema } from '../../llm/structured-output/checked-schema.ts'
import type { ProviderUsage } from '../../llm/usage.ts'
import type { ProviderReply } from '../call.ts'
import type { ContentBlock, ToolCall } from '../provider.ts'

/** What is wrong with a body, in a few words. */
export interface Misfit {
  readonly problem: string
}

/** Reads a body; a misfit is a `provider_invalid_response`. `tools` are those of the request. */
export function readBody(
  body: unknown,
  tools: ReadonlyMap<string, CheckedSchema>,
  asked: string,
): Omit<ProviderReply, 'raw'> | Misfit {
  if (!isObject(body)) return { problem: 'it is no object' }
  const choices = body['choices']
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isObject(choice)) return { problem: 'it has no choices' }
  const message = choice['message']
  if (!isObject(message)) return { problem: 'its choice has no message' }
  const said = choice['finish_reason']
  const finish = said == null ? 'stop' : finishReason(said)
  const content = contentOf(message)
  if (content === undefined) return { problem: 'its content is no text' }
  const calls = toolCallsOf(message['tool_calls'], finish === 'error' ? undefined : tools)
  if ('problem' in calls) return calls
  return {
    message: { role: 'assistant', content, ...(calls.list.length > 0 ? { toolCalls: calls.list } : {}) },
    finishReason: finish,
    usage: { ...reportedUsage(body['usage']), ...cacheCounts(body['usage']) },
    model: typeof body['model'] === 'string' && body['model'] !== '' ? body['model'] : asked,
  }
}

/** Text; blocks where the model also thought; null where there is neither; undefined for what is no content. */
function contentOf(message: Fields): string | readonly ContentBlock[] | null | undefined {
  const given = message['content'] ?? message['refusal'] ?? null
  const text = Array.isArray(given) ? given.map(partText).join('') : given
  if (text !== null && typeof text !== 'string') return undefined
  const thought = message['reasoning_content'] ?? message['reasoning']
  if (typeof thought !== 'string' || thought === '') return text
  const thinking: ContentBlock = { type: 'thinking', text: thought }
  return text ? [thinking, { type: 'text', text }] : [thinking]
}

function partText(part: unknown): string {
  return isObject(part) && typeof part['text'] === 'string' ? part['text'] : ''
}

/** Without `tools` nothing is checked: what could be read of a reply that ended with an error is the reply. */
function toolCallsOf(
  given: unknown,
  tools: ReadonlyMap<string, CheckedSchema> | undefined,
): { readonly list: readonly ToolCall[] } | Misfit {
  if (given == null) return { list: [] }
  if (!Array.isArray(given)) return tools ? { problem: 'its tool calls are no list' } : { list: [] }
  const list: ToolCall[] = []
  for (const each of given as unknown[]) {
    const { id, function: called } = isObject(each) ? each : {}
    const { name, arguments: text } = isObject(called) ? called : {}
    const call = { id: asText(id), name: asText(name), arguments: argumentsOf(text) }
    const problem = tools && problemOf(call, tools)
    if (problem) return { problem }
    list.push(call)
  }
  return { list }
}

function problemOf(call: ToolCall, tools: ReadonlyMap<string, CheckedSchema>): string | undefined {
  if (call.id === '') return 'a tool call has no id'
  const parameters = tools.get(call.name)
  if (!parameters) return `it calls ${call.name || 'a tool without a name'}, which is not among the tools`
  if (call.arguments === null) return `the arguments for ${call.name} are no JSON object`
  const failed = parameters.check(call.arguments)
  return failed === undefined ? undefined : `the arguments for ${call.name} fail their schema: ${failed}`
}

function argumentsOf(given: unknown): ToolCall['arguments'] {
  const value = typeof given === 'string' ? parsed(given) : given
  return isObject(value) ? value : null
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function cacheCounts(usage: unknown): Pick<ProviderUsage, 'cachedTokens'> {
  const details = isObject(usage) ? usage['prompt_tokens_details'] : undefined
  const cached = isObject(details) ? details['cached_tokens'] : undefined
  if (cached == null) return {}
  const valid = Number.isSafeInteger(cached) && (cached as number) >= 0
  return { cachedTokens: valid ? (cached as number) : null }
}

/** Puts the chunks of a stream together. */
export interface Assembly {
  add(chunk: Fields): void
  /** The body as it would have come whole. */
  body(): Fields
}

interface PartialCall {
  id: string
  type: string
  function: { name: string; arguments: string }
}

export function newAssembly(): Assembly {
  let root: Fields = {}
  let choice: Fields | undefined
  const message: Record<string, unknown> = {}
  let finish: unknown = null
  const calls = new Map<number, PartialCall>()

  function addDelta(delta: Fields): void {
    for (const [name, given] of Object.entries(delta)) {
      const before = message[name]
      const value = name === 'content' && Array.isArray(given) ? given.map(partText).join('') : given
      if (name === 'tool_calls') {
        if (Array.isArray(value)) for (const each of value) addCall(each)
      } else if (typeof value === 'string' && name !== 'role')
        message[name] = (typeof before === 'string' ? before : '') + value
      else message[name] = value ?? before ?? null
    }
  }

  function addCall(delta: unknown): void {
    if (!isObject(delta)) return
    const index = slotOf(delta)
    const call = calls.get(index) ?? { id: '', type: 'function', function: { name: '', arguments: '' } }
    calls.set(index, call)
    const called = isObject(delta['function']) ? delta['function'] : {}
    call.id ||= asText(delta['id'])
    call.function.name ||= asText(called['name'])
    const more = called['arguments']
    call.function.arguments += typeof more === 'string' ? more : more == null ? '' : JSON.stringify(more)
  }

  /** Some servers number no calls, or all of them 0: an id of its own is then another call. */
  function slotOf(delta: Fields): number {
    const id = asText(delta['id'])
    const given = delta['index']
    const index = typeof given === 'number' ? given : id === '' ? Math.max(0, calls.size - 1) : calls.size
    const held = calls.get(index)
    return held && id !== '' && held.id !== '' && held.id !== id ? Math.max(...calls.keys()) + 1 : index
  }

  return {
    add(chunk) {
      const { choices, ...rest } = chunk
      const told = Object.entries(rest).filter(([name, value]) => value != null || !Object.hasOwn(root, name))
      root = { ...root, ...Object.fromEntries(told) }
      const part: unknown = Array.isArray(choices) ? choices[0] : undefined
      if (!isObject(part)) return
      const { delta, message: whole, finish_reason: said, ...others } = part
      choice = { ...choice, ...others }
      const more = delta ?? whole
      if (isObject(more)) addDelta(more)
      finish = said ?? finish
    },
    body() {
      const toolCalls = [...calls.entries()].sort(([a], [b]) => a - b).map(([, call]) => call)
      const whole = {
        role: 'assistant',
        content: null,
        ...message,
        ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
      }
      return {
        ...root,
        object: 'chat.completion',
        choices: [{ ...choice, message: whole, finish_reason: finish }],
      }
    },
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
