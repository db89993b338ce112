// OpenArmature's provider on Gemini's API: one model; the only state is what the server has refused. Structured output is native
// (`responseJsonSchema`) until the server refuses it or `native` is false; then a directive asks for it.
import {
  checkPrompt,
  createGemini,
  type GeminiOptions,
  geminiServer,
  modelPath,
  readBatches,
} from '../../llm/gemini/gemini.ts'
import type { Fields, GeminiReply } from '../../llm/gemini/reply.ts'
import { embeddedError, notACompletion } from '../../llm/provider-error.ts'
import { Refusals } from '../../llm/structured-output/schema-refusal.ts'
import { withinCall } from '../../llm/transport.ts'
import { completeOn, type Exchange } from '../call.ts'
import type { CallOptions, Provider } from '../provider.ts'
import { checkedText, jsonBody } from '../reply-text.ts'
import { passTokens } from '../token-events.ts'
import { BodyAssembly, readBody } from './message.ts'
import { generateBody } from './wire.ts'

/** A provider of `complete` for Gemini's API. */
export interface GeminiProviderOptions extends GeminiOptions {
  /** Whether the model takes `responseJsonSchema`. Default true. This provider remembers what the server refuses. */
  readonly native?: boolean | undefined
}

/** A provider for one model. Throws `configuration_invalid` for an invalid address. */
export function createGeminiProvider(options: GeminiProviderOptions): Provider {
  const { model, native = true } = options
  const server = geminiServer(options, model)
  const { peer } = server
  const prober = createGemini(options)

  async function exchange({ request, path, checked, how, signal }: Exchange) {
    const body = generateBody(request, path === 'native' ? checked.responseSchema?.schema : undefined)
    const method = how.stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
    const raw = await withinCall(peer, signal, async (upstream) => {
      const response = await server.fetch(`${modelPath(model)}:${method}`, body, upstream)
      const reply = { response: checkedText(response, peer), model, peer }
      return how.stream ? streamed(reply, how) : whole(reply)
    })
    const reading = readBody(raw, checked.tools, model)
    if ('problem' in reading) throw notACompletion(peer, `${reading.problem}: ${JSON.stringify(raw)}`)
    return { ...reading, raw }
  }

  const wire = {
    model,
    system: 'gemini',
    native,
    refusals: new Refusals({ ...peer, model }),
    accept: () => {},
    exchange,
  }
  return {
    model,
    ready: (signal = new AbortController().signal) => prober.ready(signal),
    complete: (request, how) => completeOn(wire, request, how),
  }
}

async function whole({ response, peer }: GeminiReply): Promise<Fields> {
  const body = await jsonBody(response, peer)
  if (body['error'] && !body['candidates']) throw embeddedError(body['error'], peer)
  checkPrompt(body, peer)
  return body
}

async function streamed(reply: GeminiReply, how: CallOptions): Promise<Fields> {
  const assembly = new BodyAssembly()
  const seen = { ...reply, onChunk: (chunk: Fields) => assembly.add(chunk) }
  await passTokens(readBatches(seen), how)
  return assembly.body()
}
