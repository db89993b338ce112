// From the body of a chat completion to OpenArmature's message: content as the model wrote it, tool calls checked against the
// tools, counts as reported. A streamed reply is first assembled into the same body, so that both ways give the same result.

import { isObject } from '../../is-object.ts'
import { jsonValue } from '../../json-value.ts'
import { finishReason, reportedUsage } from '../../llm/openai/openai.ts'
import type { Fields } from '../../llm/openai/reply.ts'
import type { CheckedSchema } from '../../llm/structured-output/checked-schema.ts'
import { type ProviderUsage, tokenCount } from '../../llm/usage.ts'
import type { ProviderReply } from '../call.ts'
import type { AssistantBlock, ToolCall } from '../provider.ts'
import { callProblem } from '../tool-calls.ts'

/** What is wrong with a body, in a few words. */
interface Misfit {
  readonly problem: string
}

/** Reads a body; one that does not fit is a `provider_invalid_response`. `tools` are those of the request. */
export function readBody(
  body: unknown,
  tools: ReadonlyMap<string, CheckedSchema>,
  asked: string,
): Omit<ProviderReply, 'raw'> | Misfit {
  if (!isObject(body)) return { problem: 'it is not an object' }
  const choices = body['choices']
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isObject(choice)) return { problem: 'it has no choices' }
  const message = choice['message']
  if (!isObject(message)) return { problem: 'its choice has no message' }
  const said = choice['finish_reason']
  const finish = said == null ? 'stop' : finishReason(said)
  const content = contentOf(message)
  if (content === undefined) return { problem: 'its content is not text' }
  const calls = toolCallsOf(message['tool_calls'], finish === 'error' ? undefined : tools)
  if ('problem' in calls) return calls
  return {
    message: { role: 'assistant', content, ...(calls.list.length > 0 ? { toolCalls: calls.list } : {}) },
    finishReason: finish,
    usage: { ...reportedUsage(body['usage']), ...cacheCounts(body['usage']) },
    model: typeof body['model'] === 'string' && body['model'] !== '' ? body['model'] : asked,
  }
}

/** Text; blocks when the model also thought; null when there is neither; undefined for a value that is not content. */
function contentOf(message: Fields): string | readonly AssistantBlock[] | null | undefined {
  const given = message['content'] ?? message['refusal'] ?? null
  const text = Array.isArray(given) ? given.map(blockText).join('') : given
  if (text !== null && typeof text !== 'string') return undefined
  const thought = message['reasoning_content'] ?? message['reasoning']
  if (typeof thought !== 'string' || thought === '') return text
  const thinking: AssistantBlock = { type: 'thinking', text: thought }
  return text ? [thinking, { type: 'text', text }] : [thinking]
}

function blockText(block: unknown): string {
  return isObject(block) && typeof block['text'] === 'string' ? block['text'] : ''
}

/** Without `tools` nothing is checked: a reply that ended with an error consists of what could be read of it. */
function toolCallsOf(
  given: unknown,
  tools: ReadonlyMap<string, CheckedSchema> | undefined,
): { readonly list: readonly ToolCall[] } | Misfit {
  if (given == null) return { list: [] }
  if (!Array.isArray(given)) return tools ? { problem: 'its tool calls are not a list' } : { list: [] }
  const list: ToolCall[] = []
  for (const each of given as unknown[]) {
    const { id, function: called } = isObject(each) ? each : {}
    const { name, arguments: text } = isObject(called) ? called : {}
    const call = { id: asText(id), name: asText(name), arguments: argumentsOf(text) }
    const problem = tools && callProblem(call, tools)
    if (problem) return { problem }
    list.push(call)
  }
  return { list }
}

function argumentsOf(given: unknown): ToolCall['arguments'] {
  const value = typeof given === 'string' ? jsonValue(given) : given
  return isObject(value) ? value : null
}

function cacheCounts(usage: unknown): Pick<ProviderUsage, 'cachedTokens'> {
  const details = isObject(usage) ? usage['prompt_tokens_details'] : undefined
  const cached = isObject(details) ? details['cached_tokens'] : undefined
  if (cached == null) return {}
  return { cachedTokens: tokenCount(cached) }
}

interface PartialCall {
  id: string
  type: string
  function: { name: string; arguments: string }
}

/** Puts the chunks of a stream together. */
export class BodyAssembly {
  #root: Fields = {}
  #choice: Fields | undefined
  readonly #message: Record<string, unknown> = {}
  #finish: unknown = null
  readonly #calls = new Map<number, PartialCall>()

  add({ choices, ...rest }: Fields): void {
    const known = Object.entries(rest).filter(
      ([name, value]) => value != null || !Object.hasOwn(this.#root, name),
    )
    this.#root = { ...this.#root, ...Object.fromEntries(known) }
    const first: unknown = Array.isArray(choices) ? choices[0] : undefined
    if (!isObject(first)) return
    const { delta, message, finish_reason: finish, ...others } = first
    this.#choice = { ...this.#choice, ...others }
    const more = delta ?? message
    if (isObject(more)) this.#addDelta(more)
    this.#finish = finish ?? this.#finish
  }

  /** The body as it would have come whole. */
  body(): Fields {
    const calls = [...this.#calls.entries()].sort(([a], [b]) => a - b).map(([, call]) => call)
    const message = {
      role: 'assistant',
      content: null,
      ...this.#message,
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    }
    const choice = { ...this.#choice, message, finish_reason: this.#finish }
    return { ...this.#root, object: 'chat.completion', choices: [choice] }
  }

  #addDelta(delta: Fields): void {
    for (const [name, given] of Object.entries(delta)) {
      const before = this.#message[name]
      const value = name === 'content' && Array.isArray(given) ? given.map(blockText).join('') : given
      if (name === 'tool_calls') {
        if (Array.isArray(value)) for (const each of value) this.#addCall(each)
      } else if (typeof value === 'string' && name !== 'role')
        this.#message[name] = (typeof before === 'string' ? before : '') + value
      else this.#message[name] = value ?? before ?? null
    }
  }

  #addCall(delta: unknown): void {
    if (!isObject(delta)) return
    const index = this.#indexOf(delta)
    const call = this.#calls.get(index) ?? { id: '', type: 'function', function: { name: '', arguments: '' } }
    this.#calls.set(index, call)
    const called = isObject(delta['function']) ? delta['function'] : {}
    call.id ||= asText(delta['id'])
    call.function.name ||= asText(called['name'])
    const more = called['arguments']
    call.function.arguments += typeof more === 'string' ? more : more == null ? '' : JSON.stringify(more)
  }

  /** Some servers number no calls, or number all of them 0: then a new id begins another call. */
  #indexOf(delta: Fields): number {
    const id = asText(delta['id'])
    const given = delta['index']
    const { size } = this.#calls
    const index = typeof given === 'number' ? given : id === '' ? Math.max(0, size - 1) : size
    const known = this.#calls.get(index)
    const isOther = known && id !== '' && known.id !== '' && known.id !== id
    return isOther ? Math.max(...this.#calls.keys()) + 1 : index
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
