// The scripted model server itself: what other tests lean on.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { extractionReply } from './llm-extraction.ts'
import { type LlmScript, readScript } from './llm-script.ts'
import { type LlmServer, startLlmServer } from './llm-server.ts'

let server: LlmServer
afterEach(() => server?.close())

async function ask(prompt: string, more: object = {}, signal?: AbortSignal): Promise<Response> {
  return fetch(`${server.url}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'test-model', messages: [{ role: 'user', content: prompt }], ...more }),
    ...(signal ? { signal } : {}),
  })
}

async function say(prompt: string, more: object = {}): Promise<string> {
  const body = (await (await ask(prompt, more)).json()) as { choices: { message: { content: string } }[] }
  return body.choices[0]!.message.content
}

async function withScript(script: LlmScript): Promise<void> {
  server = await startLlmServer(script)
}

describe('the scripted model server', () => {
  it('streams a role delta, content, a finish delta, usage and [DONE]', async () => {
    await withScript({ rules: [{ reply: 'Hello, world.' }] })
    const text = await (await ask('hi', { stream: true, stream_options: { include_usage: true } })).text()
    const events = text.trimEnd().split('\n\n')
    expect(events.at(-1)).toBe('data: [DONE]')
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event.slice('data: '.length)))
    expect(chunks[0].choices[0].delta).toEqual({ role: 'assistant', content: null })
    expect(chunks.slice(1, 5).map((chunk) => chunk.choices[0].delta.content)).toEqual([
      'Hell',
      'o, w',
      'orld',
      '.',
    ])
    expect(chunks[5].choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' })
    expect(chunks[6]).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 1, completion_tokens: 4, total_tokens: 5 },
    })
  })

  it('answers by the first rule that matches, with the 1st, 2nd, … reply of a list', async () => {
    await withScript({
      rules: [
        { match: 'mill', reply: ['one', 'two'] },
        { match: '/^w.nd$/i', reply: 'regular' },
        { match: 'once', reply: 'only once', times: 1 },
        { reply: (call) => `${call.number}: ${call.prompt}` },
      ],
    })
    expect([await say('a mill'), await say('mills'), await say('mill')]).toEqual(['one', 'two', 'two'])
    expect(await say('WIND')).toBe('regular')
    expect([await say('once'), await say('once')]).toEqual(['only once', '1: once'])
  })

  it('cuts a reply at max_tokens with finish_reason length', async () => {
    await withScript({ rules: [{ reply: 'abcdefghijkl' }] })
    const body = (await (await ask('hi', { max_tokens: 2 })).json()) as { choices: object[] }
    expect(body.choices[0]).toMatchObject({ message: { content: 'abcdefgh' }, finish_reason: 'length' })
  })

  it('extracts items from the words of the chunk, the same ones for the same chunk', async () => {
    await withScript({})
    const prompt = 'Find definitions.\n<text>\nA windmill grinds grain. Sails catch wind.\n</text>'
    const reply = await say(prompt)
    expect(reply).toBe(extractionReply('definitions', 'A windmill grinds grain. Sails catch wind.'))
    const items = reply
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    for (const item of items) expect('A windmill grinds grain. Sails catch wind.').toContain(item.entity)
    expect(extractionReply('definitions', 'Another windmill grinds no grain.')).not.toBe(reply)
    expect(extractionReply('topics', '')).toBe('')
  })

  it('refuses what it is told to refuse', async () => {
    await withScript({
      refuse: { kind: 'rate-limit', first: 1 },
      retryAfter: 7,
      unsupported: ['temperature'],
    })
    const limited = await ask('hi')
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([429, '7'])
    expect((await ask('hi', { temperature: 0 })).status).toBe(400)
    expect((await ask('hi')).status).toBe(200)
    expect(server.counts).toMatchObject({ calls: 3, refused: 2, completed: 1 })
  })

  it('counts a client that goes away', async () => {
    await withScript({ rules: [{ reply: { text: 'word '.repeat(1000), tokensPerSecond: 50 } }] })
    const going = new AbortController()
    const response = await ask('hi', { stream: true }, going.signal)
    await response.body!.getReader().read()
    going.abort()
    await server.until(({ cancelled }) => cancelled === 1)
    expect(server.counts).toMatchObject({ concurrent: 0, completed: 0 })
  })

  it('refuses more calls at once, or per window, than its limits', async () => {
    await withScript({ maxConcurrent: 2, latencyMs: 50 })
    const statuses = await Promise.all([1, 2, 3, 4].map(async () => (await ask('hi')).status))
    expect(statuses.sort()).toEqual([200, 200, 429, 429])
    server.set({ maxConcurrent: undefined, latencyMs: 0, maxRequests: 4 })
    const more = [await ask('hi'), await ask('hi'), await ask('hi')]
    expect(more.map(({ status }) => status)).toEqual([200, 200, 429])
  })

  it('is away and comes back on the same port', async () => {
    await withScript({})
    await server.away('refuse')
    await expect(ask('hi')).rejects.toThrow()
    await server.back()
    expect((await ask('hi')).status).toBe(200)
    await server.away('503')
    expect((await ask('hi')).status).toBe(503)
  })

  it('records bodies and headers as they came', async () => {
    await withScript({ apiKey: 'secret' })
    expect((await ask('hi')).status).toBe(401)
    expect(JSON.parse(server.requests[0]!.text)).toEqual(server.requests[0]!.body)
    expect(server.requests[0]!.headers['content-type']).toMatch(/text/)
  })

  it('runs as a process of its own, from a file', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'llm-server-'))
    const path = join(directory, 'script.yaml')
    await writeFile(path, 'rules:\n  - match: mill\n    reply:\n      text: ab\n      repeat: 3\n')
    expect((await readScript(path)).rules).toHaveLength(1)
    const child = spawn(process.execPath, [join(import.meta.dirname, 'llm-server-main.ts'), path])
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    server = { url: `http://127.0.0.1:${Number(line.toString())}/v1`, close: async () => {} } as LlmServer
    expect(await say('a mill')).toBe('ababab')
    child.kill('SIGTERM')
    const [code] = await once(child, 'exit')
    await rm(directory, { recursive: true })
    expect(code).toBe(0)
  })
})
