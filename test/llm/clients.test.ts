// The behaviour of all models behind a server: one table of cases, run with each client.
import { afterEach, describe, expect, it } from 'vitest'
import { createAnthropic } from '../../src/llm/anthropic/anthropic.ts'
import { createGemini } from '../../src/llm/gemini/gemini.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../../src/llm/llm.ts'
import { createOllama } from '../../src/llm/ollama/ollama.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import { startAnthropicServer } from '../support/anthropic-server.ts'
import { startGeminiServer } from '../support/gemini-server.ts'
import type { Reply } from '../support/llm-script.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { line, startOllamaServer } from '../support/ollama-server.ts'

/** What the server behind the client does. */
type Behaviour =
  | { readonly does: 'reply'; readonly text: string; readonly reasoning?: string }
  /** Two deltas of four characters, then a cut connection, or silence. */
  | { readonly does: 'cut' | 'stall' }
  /** A reply that goes on long after its first delta. */
  | { readonly does: 'crawl' }
  | { readonly does: 'have'; readonly models: readonly string[] }

interface Bench {
  readonly llm: Llm
  /** Calls for a completion that the server received. */
  calls(): number
  /** Resolves when the client gave up a call. */
  cancelled(): Promise<void>
  close(): Promise<void>
}

/** Short when the server is silent; otherwise long enough for a busy machine. */
const patienceFor = ({ does }: Behaviour) => (does === 'stall' ? 1000 : 20_000)

const openaiBench = async (behaviour: Behaviour): Promise<Bench> => {
  const server = await startLlmServer(
    behaviour.does === 'have'
      ? { models: behaviour.models }
      : {
          rules: [{ reply: scriptedReply(behaviour) }],
        },
  )
  const options = { baseUrl: server.url, model: 'test-model', timeoutMs: patienceFor(behaviour) }
  const llm = createOpenAi(options)
  return {
    llm,
    calls: () => server.counts.calls,
    cancelled: () => server.until(({ cancelled }) => cancelled === 1),
    close: () => server.close(),
  }
}

function scriptedReply(behaviour: Exclude<Behaviour, { does: 'have' }>): Reply {
  switch (behaviour.does) {
    case 'reply':
      return { text: behaviour.text, ...(behaviour.reasoning ? { reasoning: behaviour.reasoning } : {}) }
    case 'crawl':
      return { text: 'word '.repeat(500), tokensPerSecond: 100 }
    default:
      return { text: 'abcdefghijkl', refuse: behaviour.does, refuseAfter: 2 }
  }
}

const geminiBench = async (behaviour: Behaviour): Promise<Bench> => {
  const server = await startGeminiServer(
    behaviour.does === 'have'
      ? { models: behaviour.models }
      : { rules: [{ reply: scriptedReply(behaviour) }] },
  )
  const options = { baseUrl: server.origin, model: 'test-model', timeoutMs: patienceFor(behaviour) }
  const llm = createGemini(options)
  return {
    llm,
    calls: () => server.bodies().length,
    cancelled: () => server.cancelled,
    close: () => server.close(),
  }
}

const ollamaBench = (api: 'chat' | 'generate') => async (behaviour: Behaviour) => {
  const say = (text: string) =>
    line(api === 'chat' ? { message: { content: text }, done: false } : { response: text, done: false })
  const server = await startOllamaServer(
    behaviour.does === 'have'
      ? { models: behaviour.models }
      : behaviour.does === 'reply'
        ? { text: behaviour.text, thinking: behaviour.reasoning ?? '' }
        : {
            answer: {
              chunks: [say('abcd'), say('efgh')],
              close: behaviour.does === 'cut' ? 'cut' : 'silence',
            },
          },
  )
  const options = { host: server.host, model: 'test-model', timeoutMs: patienceFor(behaviour), api }
  const llm = createOllama(options)
  return {
    llm,
    calls: () => server.requests.filter(({ path }) => path === `/api/${api}`).length,
    cancelled: () => server.untilCancelled(1),
    close: () => server.close(),
  }
}

const anthropicBench = async (behaviour: Behaviour): Promise<Bench> => {
  const server = await startAnthropicServer(
    behaviour.does === 'have'
      ? { models: behaviour.models }
      : { rules: [{ reply: scriptedReply(behaviour) }] },
  )
  const options = { baseUrl: server.origin, model: 'test-model', timeoutMs: patienceFor(behaviour) }
  const llm = createAnthropic(options)
  return {
    llm,
    calls: () => server.bodies().length,
    cancelled: () => server.cancelled,
    close: () => server.close(),
  }
}

/** Kind and text of the deltas, with neighbours of one kind joined: the network decides how many come. */
function deltas(events: readonly CompletionEvent[]): string[] {
  const joined: { kind: string; text: string }[] = []
  for (const event of events) {
    if (event.type !== 'delta') continue
    if (joined.at(-1)?.kind !== event.kind) joined.push({ kind: event.kind, text: '' })
    joined.at(-1)!.text += event.text
  }
  return joined.map(({ kind, text }) => `${kind} ${text}`)
}

const never = new AbortController().signal
const question: CompletionRequest = { messages: [{ role: 'user', content: 'What is a mill?' }] }

describe.each([
  ['an OpenAI-compatible server', openaiBench],
  ['/api/chat of Ollama', ollamaBench('chat')],
  ["Gemini's API", geminiBench],
  ['/api/generate of Ollama', ollamaBench('generate')],
  ["Anthropic's API", anthropicBench],
])('a model behind %s', (_, open) => {
  let bench: Bench
  afterEach(() => bench.close())

  async function start(behaviour: Behaviour): Promise<Llm> {
    bench = await open(behaviour)
    return bench.llm
  }

  async function events(llm: Llm, request = question): Promise<CompletionEvent[]> {
    const got: CompletionEvent[] = []
    for await (const event of llm.stream(request, never)) got.push(event)
    return got
  }

  it('gives deltas as they come, then one end', async () => {
    const got = await events(await start({ does: 'reply', text: 'A machine.' }))
    expect(deltas(got)).toEqual(['content A machine.'])
    expect(got.at(-1)).toMatchObject({
      type: 'end',
      finishReason: 'stop',
      usage: { promptTokens: 4, completionTokens: 3, totalTokens: 7 },
      model: 'test-model',
    })
  })

  it('keeps reasoning apart, and before the content', async () => {
    const got = await events(await start({ does: 'reply', text: '42', reasoning: 'Hm.' }))
    expect(deltas(got)).toEqual(['reasoning Hm.', 'content 42'])
    expect(got.at(-1)?.type).toBe('end')
  })

  it('ends with `length` when the limit cut it', async () => {
    const llm = await start({ does: 'reply', text: 'a reply that is longer' })
    const got = await events(llm, { ...question, sampling: { maxTokens: 2 } })
    expect(deltas(got)).toEqual(['content a reply '])
    expect(got.at(-1)).toMatchObject({ type: 'end', finishReason: 'length' })
  })

  it.each(['cut', 'stall'] as const)(
    'passes on the deltas before it broke off (%s), without an end',
    async (does) => {
      const llm = await start({ does })
      const seen: CompletionEvent[] = []
      const reading = (async () => {
        for await (const event of llm.stream(question, never)) seen.push(event)
      })()
      await expect(reading).rejects.toMatchObject({
        code: 'llm_unavailable',
        circuit: llm.circuit,
        details: { category: 'provider_unavailable' },
      })
      expect(deltas(seen)).toEqual(['content abcdefgh'])
      expect(seen.at(-1)?.type).toBe('delta')
      expect(bench.calls()).toBe(1)
    },
  )

  it('throws the reason of an abort, and cancels the call', async () => {
    const llm = await start({ does: 'crawl' })
    const stopping = new AbortController()
    const reason = new Error('enough')
    const reading = (async () => {
      for await (const event of llm.stream(question, stopping.signal)) if (event) stopping.abort(reason)
    })()
    await expect(reading).rejects.toBe(reason)
    await bench.cancelled()
    expect(bench.calls()).toBe(1)
  })

  it('makes no call with an aborted signal', async () => {
    const llm = await start({ does: 'reply', text: 'x' })
    await expect(llm.stream(question, AbortSignal.abort())[Symbol.asyncIterator]().next()).rejects.toThrow()
    expect(bench.calls()).toBe(0)
  })

  it('cancels the call when its reader has enough', async () => {
    const llm = await start({ does: 'crawl' })
    for await (const event of llm.stream(question, never)) if (event) break
    await bench.cancelled()
  })

  it('is unknown if the server does not have it, in a call and before one', async () => {
    const llm = await start({ does: 'have', models: ['other'] })
    await expect(events(llm)).rejects.toMatchObject({ code: 'llm_model_unknown' })
    await expect(llm.ready(never)).rejects.toMatchObject({
      code: 'llm_model_unknown',
      message: expect.stringContaining('other'),
    })
  })

  it('is ready if the server has it', async () => {
    const llm = await start({ does: 'have', models: ['other', 'test-model'] })
    await llm.ready(never)
    expect(bench.calls()).toBe(0)
  })

  it('is unavailable with its server', async () => {
    const llm = await start({ does: 'reply', text: 'x' })
    await bench.close()
    await expect(events(llm)).rejects.toMatchObject({ code: 'llm_unavailable' })
    await expect(llm.ready(never)).rejects.toMatchObject({ code: 'llm_unavailable' })
  })

  it('gives the same events to calls that run side by side', async () => {
    const llm = await start({ does: 'reply', text: 'the same for all' })
    const [first, ...others] = await Promise.all(Array.from({ length: 8 }, () => events(llm)))
    const texts = (got: CompletionEvent[]) => got.map((event) => (event.type === 'delta' ? event.text : ''))
    for (const other of others) expect(texts(other)).toEqual(texts(first!))
  })
})
