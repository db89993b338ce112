// OpenArmature's provider on Anthropic's Messages API: one model; the only state is what the server has refused. Structured output
// is native (`output_config.format`) until the server refuses it or `native` is false; then the model must call a tool with the
// value, or, when the request has tools or lets the model think, a directive asks for it.
import {
  type AnthropicOptions,
  anthropicServer,
  createAnthropic,
  isThinking,
  notAnthropic,
  readBatches,
  recoded,
} from '../../llm/anthropic/anthropic.ts'
import type { AnthropicReply, Fields } from '../../llm/anthropic/reply.ts'
import { embeddedError } from '../../llm/provider-error.ts'
import { Refusals } from '../../llm/structured-output/schema-refusal.ts'
import { withinCall } from '../../llm/transport.ts'
import { completeOn, type Exchange } from '../call.ts'
import type { CallOptions, Provider, ProviderRequest } from '../provider.ts'
import { checkedText, jsonBody } from '../reply-text.ts'
import { passTokens } from '../token-events.ts'
import { MessageAssembly, readMessage } from './message.ts'
import { messagesBody } from './wire.ts'

/** A provider of `complete` for Anthropic's API. */
export interface AnthropicProviderOptions extends AnthropicOptions {
  /** Whether the model takes `output_config.format`. Default true. This provider remembers what the server refuses. */
  readonly native?: boolean | undefined
}

/** A provider for one model. Throws `configuration_invalid` for an invalid address. */
export function createAnthropicProvider(options: AnthropicProviderOptions): Provider {
  const { model, native = true } = options
  const server = anthropicServer(options, model)
  const { peer } = server
  const prober = createAnthropic(options)

  async function exchange({ request, path, checked, how, signal }: Exchange) {
    const byTool = path === 'fallback' && canForceTool(request)
    const schema = path === 'native' || byTool ? checked.responseSchema?.schema : undefined
    const body = messagesBody(request, { model, stream: how.stream === true, schema, byTool })
    const raw = await withinCall(peer, signal, async (upstream) => {
      const response = checkedText(await server.fetch('/v1/messages', body, upstream), peer)
      const reply = { response, model, peer, signal, byTool }
      return how.stream ? streamed(reply, how) : whole(reply)
    })
    const reading = readMessage(raw, { model, tools: checked.tools, byTool })
    if ('problem' in reading) throw notAnthropic(peer, `${reading.problem}: ${JSON.stringify(raw)}`)
    return { ...reading, raw }
  }

  const wire = {
    model,
    system: 'anthropic',
    native,
    refusals: new Refusals({ ...peer, model }),
    accept: () => {},
    canForceTool,
    exchange,
  }
  return {
    model,
    ready: (signal = new AbortController().signal) => prober.ready(signal),
    complete: (request, how) => completeOn(wire, request, how),
  }
}

function canForceTool({ tools = [], toolChoice, config }: ProviderRequest): boolean {
  return tools.length === 0 && toolChoice == null && !isThinking(config?.extras ?? {})
}

async function whole({ response, peer }: AnthropicReply): Promise<Fields> {
  const body = await jsonBody(response, peer)
  if (body['type'] === 'error') throw recoded(embeddedError(body['error'], peer))
  return body
}

async function streamed(reply: AnthropicReply, how: CallOptions): Promise<Fields> {
  // Some servers ignore `stream`.
  if (/\bjson\b/.test(reply.response.headers.get('content-type') ?? '')) return whole(reply)
  const assembly = new MessageAssembly()
  const seen = { ...reply, onEvent: (event: Fields) => assembly.add(event) }
  await passTokens(readBatches(seen), how)
  return assembly.message()
}
