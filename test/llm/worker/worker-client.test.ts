// Calls in the thread behave like calls in this thread: their failures, their limits, and the end of the thread.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import type { GraphmillError } from '../../../src/errors.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../../../src/llm/llm.ts'
import { createOpenAi } from '../../../src/llm/openai/openai.ts'
import { ProviderError } from '../../../src/llm/provider-error.ts'
import { createModelWorker, inWorker } from '../../../src/llm/worker/worker-client.ts'
import type { Refusal } from '../../support/llm-script.ts'
import { startLlmServer } from '../../support/llm-server.ts'

const never = new AbortController().signal
const question: CompletionRequest = { messages: [{ role: 'user', content: 'What is a mill?' }] }
const optionsOf = (baseUrl: string, timeoutMs = 20_000) => ({
  baseUrl,
  apiKey: 'sk-1234',
  model: 'test-model',
  timeoutMs,
})

/** Name, message and code of an error and of all its causes. */
const causes = (error: unknown): unknown[] =>
  error instanceof Error
    ? [error.name, error.message, (error as { code?: string }).code, ...causes(error.cause)]
    : []

async function outcome(llm: Llm) {
  const events: CompletionEvent[] = []
  try {
    for await (const event of llm.stream(question, never)) events.push(event)
    return { events }
  } catch (thrown) {
    return { events, error: thrown as GraphmillError }
  }
}

const refusals: readonly Refusal[] = [
  ...([
    'unauthorized',
    'forbidden',
    'model-unknown',
    'rate-limit',
    'quota',
    'server-error',
    'loading',
  ] as const),
  ...([
    'context',
    'invalid',
    'hang',
    'reset',
    'html',
    'malformed',
    'stream-error',
    'cut',
    'eof',
    'stall',
  ] as const),
]

describe('a call in the thread', () => {
  it.each(refusals)('fails like a call in this thread: %s', async (kind) => {
    await using server = await startLlmServer({
      refuse: { kind },
      retryAfter: 7,
      rules: [{ reply: 'A reply of some length.' }],
    })
    const isSilent = kind === 'hang' || kind === 'stall'
    const options = optionsOf(server.url, isSilent ? 1000 : undefined)
    const here = await outcome(createOpenAi(options))
    const there = await outcome(inWorker(createOpenAi(options), { provider: 'openai', ...options }))
    expect(there.events).toEqual(here.events)
    expect(there.error).toBeInstanceOf(ProviderError)
    expect(causes(there.error)).toEqual(causes(here.error))
    for (const field of [
      'code',
      'category',
      'message',
      'retryAfterMs',
      'circuit',
      'details',
      'retry',
    ] as const)
      expect(there.error![field as 'code']).toEqual(here.error![field as 'code'])
  })

  it('sends no more than its reader takes', async () => {
    let sent = 0
    const event = `data: ${JSON.stringify({ choices: [{ delta: { content: 'x'.repeat(60_000) } }] })}\n\n`
    const server = createServer((_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      const write = () => {
        while (!response.destroyed && response.write(event)) sent += event.length
        sent += event.length
      }
      response.on('drain', write)
      write()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const options = optionsOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`)
    const llm = inWorker(createOpenAi({ ...options }), { provider: 'openai', ...options })
    const reading = llm.stream(question, never)[Symbol.asyncIterator]()
    await reading.next()
    let before = -1
    for (; before !== sent; await delay(300)) before = sent
    expect(sent).toBeLessThan(40 * 1024 * 1024)
    let taken = 0
    while (taken < 20 * 1024 * 1024) {
      const { value } = await reading.next()
      taken += (value as { text: string }).text.length
    }
    expect(sent).toBeGreaterThan(before)
    await reading.return?.()
    server.close()
    server.closeAllConnections()
  })

  it('works with any flags of Node', async () => {
    await using server = await startLlmServer({ rules: [{ reply: 'yes' }] })
    const { href } = new URL('../../../src/llm/worker/worker-client.ts', import.meta.url)
    const program = `
      import { inWorker } from ${JSON.stringify(href)}
      const spec = { provider: 'openai', baseUrl: ${JSON.stringify(server.url)}, model: 'test-model' }
      const llm = inWorker({ circuit: 'llm' }, spec)
      const events = llm.stream({ messages: [{ role: 'user', content: 'x' }] }, new AbortController().signal)
      for await (const event of events) if (event.type === 'delta') console.log(event.text)`
    for (const flags of [['--max-old-space-size=512', '--use-openssl-ca'], []]) {
      const args = [...flags, '--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program]
      const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 20_000 })
      expect(stdout).toBe('yes\n')
    }
    const file = join(await mkdtemp(join(tmpdir(), 'graphmill-flags-')), 'program.mjs')
    await writeFile(file, program)
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--max-old-space-size=512', '--use-openssl-ca', '--disable-warning=ExperimentalWarning', file],
      { timeout: 20_000 },
    )
    expect(stdout).toBe('yes\n')
  })

  it('fails for an invalid address', async () => {
    const options = optionsOf('http://127.0.0.1:1/v1')
    const llm = inWorker(createOpenAi(options), { provider: 'openai', ...options, baseUrl: 'nowhere' })
    expect((await outcome(llm)).error).toMatchObject({ code: 'configuration_invalid' })
  })

  it('fails when the thread breaks down, and the next one has another', async () => {
    const program = `
      import { parentPort, threadId } from 'node:worker_threads'
      parentPort.on('message', ({ id, task }) => {
        const content = task?.request.messages[0].content
        if (content === 'break') process.exit(3)
        if (task) parentPort.postMessage({ id, event: { type: 'delta', kind: 'content', text: String(threadId) } })
        if (content === 'end') parentPort.postMessage({ id, value: undefined })
      })`
    const thread = createModelWorker(new URL(`data:text/javascript,${encodeURIComponent(program)}`))
    const options = optionsOf('http://127.0.0.1:1/v1')
    const llm = inWorker(createOpenAi(options), { provider: 'openai', ...options }, thread)
    const ask = (content: string) => llm.stream({ messages: [{ role: 'user', content }] }, never)
    const texts = async (events: AsyncIterable<CompletionEvent>) => {
      const got: string[] = []
      for await (const event of events) if (event.type === 'delta') got.push(event.text)
      return got
    }
    const [first] = await texts(ask('end'))
    const waiting = texts(ask('wait'))
    const breaking = texts(ask('break'))
    const failure = {
      code: 'llm_unavailable',
      circuit: llm.circuit,
      message: expect.stringContaining('ended with 3'),
    }
    await Promise.all([waiting, breaking].map((each) => expect(each).rejects.toMatchObject(failure)))
    const [second] = await texts(ask('end'))
    expect(Number(second)).toBeGreaterThan(Number(first))
  })
})
