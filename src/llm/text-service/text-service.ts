// The model behind the text-completion service of a flow, such as TrustGraph's. A call is a request on the flow's topics, and its reply
// comes whole.
import { GraphmillError } from '../../errors.ts'
import type { CompletionEvent, CompletionRequest, Llm, TextMessage } from '../llm.ts'

export interface TextServiceOptions {
  /** What the model is called in caches and figures until a reply names it. */
  readonly model: string
  /** How long a reply may take, in milliseconds. */
  readonly timeoutMs: number
}

/** Its stream throws the errors of the service, and `llm_not_configured` outside of a flow. */
export function createTextService({ model, timeoutMs }: TextServiceOptions): Llm {
  const destination = 'the text-completion service of the flow'

  async function* stream(request: CompletionRequest, signal: AbortSignal): AsyncGenerator<CompletionEvent> {
    const { messages, service } = request
    if (!service)
      throw new GraphmillError(
        'llm_not_configured',
        'A text-completion service is asked by the processor prompt of a flow, and by nothing else.',
      )
    const system = messages.filter(({ role }) => role === 'system').map(({ content }) => content)
    const asked = { system: system.join('\n\n'), prompt: promptOf(messages), timeoutMs }
    const { text, usage, model: named } = await service(asked, signal)
    if (text !== '') yield { type: 'delta', kind: 'content', text }
    yield { type: 'end', finishReason: 'stop', usage, model: named ?? model, raw: { response: text } }
  }

  return {
    provider: 'text-service',
    model,
    destination,
    circuit: `llm:text-service ${destination} ${model}`,
    usesService: true,
    stream,
    ready: async () => {},
  }
}

/** The service takes one message of the user: an answer that is to be continued or corrected stands in it. */
function promptOf(messages: readonly TextMessage[]): string {
  return messages
    .filter(({ role }) => role !== 'system')
    .map(({ role, content }) => (role === 'assistant' ? `You have answered:\n\n${content}` : content))
    .join('\n\n')
}
