// The model options, as the server sees them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { graphmill } from '../support/command.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { startOllamaServer } from '../support/ollama-server.ts'

let folder: string
let document: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-model-'))
  document = join(folder, 'mill.txt')
  writeFileSync(document, 'The mill stands by the river. The miller grinds grain.')
})
afterAll(() => rmSync(folder, { recursive: true }))

const extract = (env: Readonly<Record<string, string>>, ...args: string[]) =>
  graphmill(['extract', document, ...args], { env, cwd: folder })

test('Ollama: its only model, with a context length of 8192 or --num-ctx', async () => {
  const ollama = await startOllamaServer({ text: '{"topic":"mills","definition":"machines"}\n' })
  const env = { OLLAMA_HOST: ollama.host }
  const plain = await extract(env, '--extractors', 'topics')
  const longer = await extract(env, '--extractors', 'topics', '--num-ctx', '16384')
  const asked = ollama.requests.filter(({ path }) => path === '/api/chat').map(({ body }) => body)
  await ollama.close()
  expect(plain.stderr).toContain(`the text goes to ollama test-model:latest at ${ollama.url}`)
  expect(asked).toMatchObject([
    { model: 'test-model:latest', options: { num_ctx: 8192 } },
    { model: 'test-model:latest', options: { num_ctx: 16384 } },
  ])
  expect([plain.code, longer.code]).toEqual([0, 0])
})

describe('--temperature', () => {
  const topics = ['--extractors', 'topics']

  test('is sent to an OpenAI-compatible server and to Ollama, even if it is 0, and not sent unless it is set', async () => {
    const line = '{"topic":"mills","definition":"machines"}\n'
    const [openai, ollama] = [await startLlmServer(), await startOllamaServer({ text: line })]
    for (const env of [{ OPENAI_BASE_URL: openai.url }, { OLLAMA_HOST: ollama.host }] as const)
      for (const set of [[], ['--temperature', '0']])
        expect((await extract({ ...env }, ...topics, ...set)).code).toBe(0)
    const bodies = openai.requests
      .filter(({ path }) => path.endsWith('/completions'))
      .map(({ body }) => body!)
    const options = ollama.requests
      .filter(({ path }) => path === '/api/chat')
      .map(({ body }) => body!.options!)
    await Promise.all([openai.close(), ollama.close()])
    for (const sent of [bodies, options]) {
      expect(sent.map(({ temperature }) => temperature)).toEqual([undefined, 0])
      expect('temperature' in sent[0]!).toBe(false)
    }
  })

  test("is overridden by a prompt's own, and a reply at another temperature is not a cache hit", async () => {
    const server = await startLlmServer()
    const prompt = join(folder, 'extract-topics.yaml')
    const own = 'response-type: jsonl\ntemperature: 0.2\nprompt: "Topics of {{text}}"\n'
    writeFileSync(prompt, own)
    const env = {
      OPENAI_BASE_URL: server.url,
      GRAPHMILL_CACHE_DIR: join(folder, 'cache'),
      GRAPHMILL_NO_CACHE: '',
    }
    await extract(env, ...topics, '--temperature', '1', '--prompts', prompt)
    for (const set of ['0', '1', '0']) await extract(env, ...topics, '--temperature', set)
    const sent = server.requests
      .filter(({ path }) => path.endsWith('/completions'))
      .map(({ body }) => body!['temperature'])
    await server.close()
    expect(sent).toEqual([0.2, 0, 1])
  })
})

test('--llm chooses between two configured servers', async () => {
  const [openai, ollama] = [await startLlmServer(), await startOllamaServer()]
  const env = { OPENAI_BASE_URL: openai.url, OLLAMA_HOST: ollama.host }
  const { stderr } = await extract(env, '--llm', 'openai', '--extractors', 'topics')
  expect(stderr).toContain(`the text goes to openai test-model at ${openai.url}`)
  expect([openai.counts.calls, ollama.requests.length]).toEqual([1, 0])
  await Promise.all([openai.close(), ollama.close()])
})

test('--output-mode says how a model is asked for JSON', async () => {
  const server = await startLlmServer({ rules: [{ reply: '{"items":[]}' }] })
  const env = { OPENAI_BASE_URL: server.url }
  const json = await extract(env, '--extractors', 'topics', '--output-mode', 'openai_oo')
  const lines = await extract(env, '--extractors', 'topics', '--output-mode', 'fallback', '--no-cache')
  const wrong = await extract(env, '--output-mode', 'sideways')
  const asked = server.requests.filter(({ path }) => path.endsWith('/completions'))
  await server.close()
  expect([json.code, lines.code]).toEqual([0, 0])
  expect(asked.map(({ body }) => (body as Record<string, unknown>)['response_format'])).toEqual([
    { type: 'json_object' },
    undefined,
  ])
  expect(wrong.code).not.toBe(0)
  expect(wrong.stderr).toContain('ollama_oo')
})

test('--requests-per-minute spaces the calls', async () => {
  const server = await startLlmServer()
  const { code } = await extract({ OPENAI_BASE_URL: server.url }, '--requests-per-minute', '30')
  const times = server.requests.filter(({ path }) => path.endsWith('/completions')).map(({ at }) => at)
  await server.close()
  expect(code).toBe(0)
  expect(times).toHaveLength(3)
  // They start 4.2 s apart, at twice the rate 2.1 s; on a busy machine the first one may arrive late.
  expect(times[2]! - times[0]!).toBeGreaterThan(2500)
})

test('--tokens-per-minute spaces the calls by their tokens', async () => {
  const server = await startLlmServer({ rules: [{ reply: '' }] })
  // A prompt is about a thousand tokens, so that a second one is due some seconds after the first.
  const args = ['--extractors', 'topics,definitions', '--tokens-per-minute', '20000']
  const { code } = await extract({ OPENAI_BASE_URL: server.url }, ...args)
  const times = server.requests.filter(({ path }) => path.endsWith('/completions')).map(({ at }) => at)
  await server.close()
  expect(code).toBe(0)
  expect(times[1]! - times[0]!).toBeGreaterThan(300)
})
