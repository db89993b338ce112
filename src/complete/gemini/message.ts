// From a body of Gemini's to OpenArmature's message: blocks in their order with their signatures, calls checked against the tools,
// counts as reported. A streamed reply is first put together as the same body, so that both ways give the same result.
import { isObject } from '../../is-object.ts'
import { finishReason, partsOf, reportedUsage } from '../../llm/gemini/gemini.ts'
import type { Fields } from '../../llm/gemini/reply.ts'
import type { CheckedSchema } from '../../llm/structured-output/checked-schema.ts'
import { tokenCount } from '../../llm/usage.ts'
import type { ProviderReply } from '../call.ts'
import type { AssistantBlock, ToolCall } from '../provider.ts'
import { callProblem } from '../tool-calls.ts'

/** What is wrong with a body, in a few words. */
interface Misfit {
  readonly problem: string
}

/** Reads a body; one that does not fit is a `provider_invalid_response`. `tools` are those of the request. */
export function readBody(
  body: Fields,
  tools: ReadonlyMap<string, CheckedSchema>,
  asked: string,
): Omit<ProviderReply, 'raw'> | Misfit {
  const { candidates, usageMetadata: usage, modelVersion, responseId } = body
  const candidate: unknown = Array.isArray(candidates) ? candidates[0] : undefined
  if (!isObject(candidate)) return { problem: 'it has no candidates' }
  const blocks: AssistantBlock[] = []
  const calls: ToolCall[] = []
  for (const part of partsOf(candidate)) {
    const { functionCall: call, thoughtSignature } = part
    const signature = typeof thoughtSignature === 'string' ? thoughtSignature : ''
    // Many models give their calls no id.
    if (isObject(call)) calls.push(callOf(call, `${responseId ?? 'call'}-${calls.length + 1}`, signature))
    else addText(part, signature, blocks)
  }
  const problem = calls.map((call) => callProblem(call, tools)).find(Boolean)
  if (problem) return { problem }
  const cached = isObject(usage) ? usage['cachedContentTokenCount'] : undefined
  return {
    message: {
      role: 'assistant',
      content: contentOf(blocks, calls),
      ...(calls.length > 0 ? { toolCalls: calls } : {}),
    },
    finishReason: finishReason(candidate['finishReason'], calls.length > 0),
    usage: { ...reportedUsage(usage), ...(cached != null && { cachedTokens: tokenCount(cached) }) },
    model: typeof modelVersion === 'string' && modelVersion !== '' ? modelVersion : asked,
  }
}

function callOf({ id, name, args = {} }: Fields, otherId: string, signature: string): ToolCall {
  return {
    id: typeof id === 'string' && id !== '' ? id : otherId,
    name: typeof name === 'string' ? name : '',
    arguments: isObject(args) ? args : null,
    ...(signature !== '' && { signature }),
  }
}

/** A signature without text belongs to the text before it. Thoughts are not signed. */
function addText({ text, thought }: Fields, signature: string, blocks: AssistantBlock[]): void {
  const last = blocks.at(-1)
  if (typeof text === 'string' && text !== '')
    blocks.push(
      thought === true
        ? { type: 'thinking', text }
        : { type: 'text', text, ...(signature !== '' && { signature }) },
    )
  else if (signature !== '' && last?.type === 'text' && last.signature === undefined)
    blocks[blocks.length - 1] = { ...last, signature }
}

/** One text alone, unsigned, is a string; null when there are only calls. */
function contentOf(blocks: readonly AssistantBlock[], calls: readonly ToolCall[]) {
  const [first, second] = blocks
  if (!first) return calls.length > 0 ? null : ''
  return first.type === 'text' && !second && first.signature === undefined ? first.text : blocks
}

/** Puts the chunks of a stream together: neighbouring texts of one kind are one part, up to a signature. */
export class BodyAssembly {
  #root: Fields = {}
  #candidate: Fields | undefined
  readonly #parts: Record<string, unknown>[] = []

  add({ candidates, ...rest }: Fields): void {
    this.#root = { ...this.#root, ...rest }
    const first: unknown = Array.isArray(candidates) ? candidates[0] : undefined
    if (!isObject(first)) return
    const { content, ...others } = first
    this.#candidate = { ...this.#candidate, ...others }
    for (const part of partsOf({ content })) this.#addPart(part)
  }

  /** The body as it would have come whole. */
  body(): Fields {
    if (!this.#candidate) return this.#root
    const content = { role: 'model', parts: this.#parts }
    return { ...this.#root, candidates: [{ ...this.#candidate, content }] }
  }

  #addPart(part: Fields): void {
    const last = this.#parts.at(-1)
    const isMore = last && isUnsignedText(last) && 'text' in part && last['thought'] === part['thought']
    if (!isMore || typeof part['text'] !== 'string') this.#parts.push({ ...part })
    else Object.assign(last, part, { text: `${last['text']}${part['text']}` })
  }
}

function isUnsignedText(part: Fields): boolean {
  return typeof part['text'] === 'string' && part['thoughtSignature'] === undefined
}
