// From a message of Anthropic's to OpenArmature's: blocks in their order, tool calls checked against the tools, counts as reported.
// A streamed reply is first assembled into the same message, so that both ways give the same result.
import { isObject } from '../../is-object.ts'
import { jsonValue } from '../../json-value.ts'
import { finishReason } from '../../llm/anthropic/anthropic.ts'
import type { Fields } from '../../llm/anthropic/reply.ts'
import type { CheckedSchema } from '../../llm/structured-output/checked-schema.ts'
import { tokenCount, usageOf } from '../../llm/usage.ts'
import type { ProviderReply } from '../call.ts'
import type { AssistantBlock, ToolCall } from '../provider.ts'
import { callProblem } from '../tool-calls.ts'

/** What is wrong with a message, in a few words. */
interface Misfit {
  readonly problem: string
}

export interface Asked {
  readonly model: string
  /** The tools of the request. */
  readonly tools: ReadonlyMap<string, CheckedSchema>
  /** The input of the forced tool is the text of the reply. */
  readonly byTool: boolean
}

/** Reads a message; one that does not fit is a `provider_invalid_response`. */
export function readMessage(
  message: Fields,
  { model, tools, byTool }: Asked,
): Omit<ProviderReply, 'raw'> | Misfit {
  const { content: given, stop_reason: stop, usage, model: named } = message
  if (!Array.isArray(given)) return { problem: 'it has no content' }
  const finish = finishReason(stop, byTool)
  const content: AssistantBlock[] = []
  const calls: ToolCall[] = []
  for (const block of given as unknown[]) {
    if (!isObject(block)) return { problem: 'its content has something that is not a block' }
    const known = blockOf(block, byTool)
    if (known) content.push(known)
    else if (block['type'] === 'tool_use') calls.push(callOf(block))
  }
  // A reply that ended with an error consists of what could be read of it.
  const problem = finish === 'error' ? undefined : calls.map((call) => callProblem(call, tools)).find(Boolean)
  if (problem) return { problem }
  const { input_tokens: prompt, output_tokens: written } = isObject(usage) ? usage : {}
  return {
    message: {
      role: 'assistant',
      content: contentOf(content, calls),
      ...(calls.length > 0 ? { toolCalls: calls } : {}),
    },
    finishReason: finish,
    usage: usageOf(tokenCount(prompt), tokenCount(written)),
    model: typeof named === 'string' && named !== '' ? named : model,
  }
}

/** The block of the contract; undefined for a tool call, and for blocks that only `raw` has. */
function blockOf({ type, text, thinking, signature, data, input }: Fields, byTool: boolean) {
  if (type === 'text' && typeof text === 'string' && text !== '') return { type, text } as const
  if (type === 'thinking' && typeof thinking === 'string')
    return { type, text: thinking, ...(typeof signature === 'string' && { signature }) } as const
  if (type === 'redacted_thinking' && typeof data === 'string') return { type, data } as const
  if (type === 'tool_use' && byTool) {
    const answer = typeof input === 'string' ? input : JSON.stringify(input)
    return { type: 'text', text: answer } as const
  }
  return undefined
}

function callOf({ id, name, input }: Fields): ToolCall {
  return { id: asText(id), name: asText(name), arguments: isObject(input) ? input : null }
}

/** One text alone is a string; null when there are only tool calls. */
function contentOf(blocks: readonly AssistantBlock[], calls: readonly ToolCall[]) {
  const [first, second] = blocks
  if (!first) return calls.length > 0 ? null : ''
  return first.type === 'text' && !second ? first.text : blocks
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** Puts the events of a stream together. */
export class MessageAssembly {
  #message: Fields = {}
  readonly #blocks = new Map<number, Record<string, unknown>>()
  /** The JSON of tool inputs, by block. */
  readonly #inputs = new Map<number, string>()

  add(event: Fields): void {
    const index = typeof event['index'] === 'number' ? event['index'] : this.#blocks.size
    switch (event['type']) {
      case 'message_start':
        this.#join(event['message'])
        break
      case 'message_delta':
        this.#join({ ...(isObject(event['delta']) ? event['delta'] : {}), usage: event['usage'] })
        break
      case 'content_block_start':
        this.#blocks.set(index, { ...(isObject(event['content_block']) ? event['content_block'] : {}) })
        break
      case 'content_block_delta':
        this.#addDelta(index, event['delta'])
    }
  }

  /** The message as it would have come whole. */
  message(): Fields {
    const inOrder = [...this.#blocks.entries()].sort(([a], [b]) => a - b)
    const content = inOrder.map(([index, block]) => {
      const json = this.#inputs.get(index)
      // An input that is not JSON stays text.
      return json === undefined ? block : { ...block, input: jsonValue(json) ?? json }
    })
    return { ...this.#message, content }
  }

  #join(more: unknown): void {
    if (!isObject(more)) return
    const { usage, ...rest } = more
    const counts = Object.entries(isObject(usage) ? usage : {}).filter(([, count]) => count != null)
    const before = isObject(this.#message['usage']) ? this.#message['usage'] : {}
    this.#message = { ...this.#message, ...rest, usage: { ...before, ...Object.fromEntries(counts) } }
  }

  #addDelta(index: number, delta: unknown): void {
    const block = this.#blocks.get(index)
    if (!block || !isObject(delta)) return
    for (const name of ['text', 'thinking', 'signature'])
      if (typeof delta[name] === 'string') block[name] = asText(block[name]) + delta[name]
    const json = delta['partial_json']
    if (typeof json === 'string' && json !== '')
      this.#inputs.set(index, (this.#inputs.get(index) ?? '') + json)
  }
}
