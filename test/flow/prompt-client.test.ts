import { afterEach, describe, expect, test } from 'vitest'
import { prompt } from '../../processors/prompt.ts'
import { deadTopic, topicSpec } from '../../src/broker/topics.ts'
import { PromptClient } from '../../src/flow/prompt-client.ts'
import type { CompletionEvent, Llm } from '../../src/llm/llm.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { noLlm, startFlow, type TestFlow } from '../support/flow.ts'

const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2 }
const end = { type: 'end', finishReason: 'stop', usage, model: 'm', raw: null } as const

/** A model whose reply is made of the request's last message. */
const model = (write: (asked: string, signal: AbortSignal) => AsyncIterable<string>): Llm => ({
  ...noLlm,
  async *stream(request, signal): AsyncGenerator<CompletionEvent> {
    for await (const text of write(request.messages.at(-1)!.content, signal))
      yield { type: 'delta', kind: 'content', text }
    yield end
  },
})

let flow: TestFlow | undefined
let clients: PromptClient[] = []
const start = async (llm: Llm) => {
  flow = await startFlow([prompt], { llm })
  const client = await PromptClient.connect({ broker: flow.broker })
  clients.push(client)
  return { flow, client }
}
afterEach(async () => {
  for (const client of clients) await client.close().catch(() => undefined)
  clients = []
  await flow?.stop()
})

const lines = (items: readonly object[]) => items.map((item) => `${JSON.stringify(item)}\n`)
const definitions = [1, 2, 3].map((n) => ({ entity: `mill ${n}`, definition: 'a machine' }))

describe('a client of the prompt service', () => {
  test('gets the items of a streamed reply in order, and the totals with the last part', async () => {
    const { client } = await start(
      model(async function* () {
        yield* lines(definitions)
      }),
    )
    const items: unknown[] = []
    let last: { readonly endOfStream: boolean } | undefined
    for await (const part of client.ask(
      'extract-definitions',
      { text: 'x' },
      { streaming: true, context: { mine: 'yes' } },
    )) {
      items.push(...JSON.parse(part.object!))
      last = part
    }
    expect(items).toEqual(definitions)
    expect(last).toMatchObject({
      endOfStream: true,
      accepted: 3,
      rejected: 0,
      finishReason: 'stop',
      context: { mine: 'yes' },
    })
  })

  test('keeps many requests apart', async () => {
    const { client } = await start(
      model(async function* (asked) {
        yield `reply to ${/number \d+/.exec(asked)?.[0]}`
      }),
    )
    const ask = async (n: number) => {
      let text = ''
      for await (const part of client.ask('summarise', { text: `number ${n}` }, { streaming: n % 2 === 0 }))
        text += part.text
      return text
    }
    const replies = await Promise.all(Array.from({ length: 40 }, (_, n) => ask(n)))
    expect(replies).toEqual(Array.from({ length: 40 }, (_, n) => `reply to number ${n}`))
  })

  test('gets the error of a reply as an error with its code', async () => {
    const { client } = await start(model(async function* () {}))
    const ask = client.ask('no-such-prompt', {})
    await expect(ask.next()).rejects.toMatchObject({ code: 'prompt_unknown' })
    await expect(client.askEncoded('summarise', { text: 'bare' }).next()).rejects.toMatchObject({
      code: 'terms_invalid',
      message: expect.stringContaining('"bare"'),
    })
  })

  test('need not be ours: a request without headers is answered on the topic that its envelope names', async () => {
    const { flow } = await start(
      model(async function* () {
        yield* lines(definitions)
      }),
    )
    const replyTo = 'gm.response.prompt.foreign.default.default'
    await flow.broker.ensureTopics([topicSpec(replyTo)])
    const header = {
      ...{
        source: 'foreign',
        time: Date.now(),
        workspace: 'default',
        flow: 'default',
        collection: 'default',
      },
      ...{ documentId: '', chunkId: '', correlationId: 'mine', causationId: '', replyTo },
      ...{ deadline: Date.now() + 60_000, traceparent: null },
    }
    const payload = { promptId: 'extract-definitions', terms: { text: '"mill"' } }
    const sealing = { topic: flow.topic('prompt-live'), salt: '', id: () => 'mine' }
    const request = flow.codec.encode(header, { type: 'PromptRequest', payload }, sealing)
    await flow.broker.publish({ ...request, headers: {} })
    const [reply] = await flow.first(replyTo, 1)
    expect(reply).toMatchObject({
      correlationId: 'mine',
      payload: { seq: 0, endOfStream: true, error: null },
    })
    expect(JSON.parse((reply as Message<'PromptResponse'>).payload.object!)).toEqual(definitions)
  })

  test('gets an error when its context is too large, however large it is', async () => {
    const { client, flow } = await start(model(async function* () {}))
    for (const size of [5000, 650_000]) {
      const ask = client.ask('extract-definitions', { text: 'x' }, { context: { mine: 'x'.repeat(size) } })
      await expect(ask.next()).rejects.toMatchObject({ code: 'context_too_large' })
    }
    const letters = await flow.letters('prompt-live', 2)
    expect(letters.map(({ headers }) => headers['dead-code'])).toEqual(Array(2).fill('context_too_large'))
  })

  test('gives up after its timeout, and when its signal aborts', async () => {
    const { client } = await start(
      model(async function* (_, signal) {
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      }),
    )
    await expect(client.ask('summarise', { text: 'x' }, { timeoutMs: 50 }).next()).rejects.toMatchObject({
      code: 'deadline_exceeded',
      message: expect.stringMatching(
        /^No reply within 0\.05 s: no prompt processor runs for the flow default\/default, or/,
      ),
      remedy: expect.stringContaining('graphmill topics lag'),
    })
    const cancel = new AbortController()
    const asked = client.ask('summarise', { text: 'x' }, { signal: cancel.signal }).next()
    cancel.abort(new Error('enough'))
    await expect(asked).rejects.toThrow('enough')
  })

  test('says that a reply which has begun did not end in time', async () => {
    const { client } = await start(
      model(async function* (_, signal) {
        yield 'It begins, '
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      }),
    )
    const asked = client.ask('summarise', { text: 'x' }, { timeoutMs: 6000, streaming: true })
    expect((await asked.next()).value).toMatchObject({ text: 'It begins, ' })
    await expect(asked.next()).rejects.toMatchObject({
      code: 'deadline_exceeded',
      message: 'The reply did not end within 6 s: the model is slower than that.',
    })
  })

  test('removes its reply topic when it closes, and affects no other client when it disappears in mid-reply', async () => {
    const asked = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const { flow, client } = await start(
      model(async function* () {
        asked.resolve()
        await gate.promise
        yield 'too late'
      }),
    )
    const pending = client.ask('summarise', { text: 'x' }).next()
    pending.catch(() => undefined)
    await asked.promise
    await client.close()
    gate.resolve()
    expect((await flow.broker.listTopics('gm.response.prompt.client-')).length).toBe(0)
    await expect
      .poll(async () => (await flow.broker.listTopics(deadTopic(flow.topic('prompt-live')))).length)
      .toBe(1)
    const next = await PromptClient.connect({ broker: flow.broker })
    clients.push(next)
    expect((await next.ask('summarise', { text: 'y' }).next()).value).toMatchObject({ text: 'too late' })
  })
})
