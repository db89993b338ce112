// OpenArmature's provider on any OpenAI-compatible server: one model; the only state is what the server has refused. Structured
// output is native (`response_format`) until the server refuses it or `native` is false; then a directive asks for it.
import {
  createOpenAi,
  isStrict,
  looseFormat,
  type OpenAiOptions,
  openAiServer,
  readBatches,
  responseFormat,
} from '../../llm/openai/openai.ts'
import type { Fields, OpenAiReply } from '../../llm/openai/reply.ts'
import { embeddedError, invalid, notACompletion } from '../../llm/provider-error.ts'
import { Refusals } from '../../llm/structured-output/schema-refusal.ts'
import { withinCall } from '../../llm/transport.ts'
import { completeOn, type Exchange } from '../call.ts'
import type { CallOptions, Provider, ProviderRequest } from '../provider.ts'
import { checkedText, jsonBody } from '../reply-text.ts'
import { passTokens } from '../token-events.ts'
import { BodyAssembly, readBody } from './message.ts'
import { completionBody } from './wire.ts'

/** A provider of `complete` for OpenAI's API. */
export interface OpenAiProviderOptions extends OpenAiOptions {
  /** Whether the server takes `response_format`. Default true. This provider remembers what the server refuses. */
  readonly native?: boolean | undefined
  /** Whether the server can stream. Default true. */
  readonly streaming?: boolean | undefined
  /** `gen_ai.system` of the calls' spans, such as `vllm`. Default `openai`. */
  readonly system?: string | undefined
}

/** A provider for one model of one server. Throws `configuration_invalid` for an address that is none. */
export function createOpenAiProvider(options: OpenAiProviderOptions): Provider {
  const { model, native = true, streaming = true, system = 'openai' } = options
  const { fetch, peer } = openAiServer(options, model)
  const prober = createOpenAi(options)

  function accept(_: ProviderRequest, how: CallOptions): void {
    if (how.stream && !streaming)
      throw invalid(`${peer.destination} is set up as a server that cannot stream.`)
  }

  async function exchange({ request, path, loose, checked, how, signal }: Exchange) {
    const schema = path === 'native' ? checked.responseSchema?.schema : undefined
    const stream = how.stream === true
    const body = completionBody(request, {
      model,
      stream,
      responseFormat: schema && (loose ? looseFormat : responseFormat)(schema),
    })
    const raw = await send(body, how, signal)
    const reading = readBody(raw, checked.tools, model)
    if ('problem' in reading) throw notACompletion(peer, `${reading.problem}: ${JSON.stringify(raw)}`)
    return { ...reading, raw }
  }

  /** The body of the reply, whole or put together. Aborting `signal` ends the request and throws its reason. */
  function send(body: string, how: CallOptions, signal: AbortSignal): Promise<Fields> {
    return withinCall(peer, signal, async (upstream) => {
      const response = checkedText(await fetch('/chat/completions', body, upstream), peer)
      const reply = { response, model, peer, signal }
      return how.stream ? streamed(reply, how) : whole(reply)
    })
  }

  const wire = {
    model,
    system,
    native,
    refusals: new Refusals({ ...peer, model }),
    isStrict,
    accept,
    exchange,
  }
  return {
    model,
    ready: (signal = new AbortController().signal) => prober.ready(signal),
    complete: (request, how) => completeOn(wire, request, how),
  }
}

async function whole({ response, peer }: OpenAiReply): Promise<Fields> {
  const body = await jsonBody(response, peer)
  if (body['error'] && !body['choices']) throw embeddedError(body['error'], peer)
  return body
}

async function streamed(reply: OpenAiReply, how: CallOptions): Promise<Fields> {
  // Some servers ignore the flag.
  if (/\bjson\b/.test(reply.response.headers.get('content-type') ?? '')) return whole(reply)
  const assembly = new BodyAssembly()
  const seen = { ...reply, onChunk: (chunk: Fields) => assembly.add(chunk) }
  await passTokens(readBatches(seen), how)
  return assembly.body()
}
