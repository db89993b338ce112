// `graphmill extract --llm gemini`, end to end, against a server that keeps the published rules of Gemini's API.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { graphmill } from '../../support/command.ts'
import {
  chunk,
  type GeminiScript,
  type GeminiServer,
  startGeminiServer,
} from '../../support/gemini-server.ts'

let folder: string
let document: string
let server: GeminiServer
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-gemini-'))
  document = join(folder, 'mill.txt')
  writeFileSync(document, 'The mill stands by the river. The miller grinds grain.')
})
afterEach(() => server.close())
afterAll(() => rmSync(folder, { recursive: true }))

const key = 'AIza-a-secret-of-this-test'

async function begin(script: GeminiScript = {}) {
  server = await startGeminiServer({ apiKey: key, ...script })
  const env = { GEMINI_BASE_URL: server.origin, GEMINI_API_KEY: key }
  return (args: readonly string[], more: Readonly<Record<string, string>> = {}) =>
    graphmill(['extract', document, '--llm', 'gemini', '--extractors', 'topics', ...args], {
      env: { ...env, ...more },
      cwd: folder,
    })
}

const topic = (name: string) => JSON.stringify({ topic: name, definition: `What ${name} are.` })
const topics = (...names: readonly string[]) => names.map((name) => `${topic(name)}\n`).join('')
const contents = () =>
  server.bodies().map((body) => body['contents'] as { role: string; parts: { text: string }[] }[])

test('gives facts, and a second run asks nothing', async () => {
  const extract = await begin({ rules: [{ reply: topics('mills', 'rivers') }] })
  const cache = { GRAPHMILL_NO_CACHE: 'false', GRAPHMILL_CACHE_DIR: join(folder, 'cache') }
  const first = await extract([], cache)
  const second = await extract([], cache)
  expect(first.stderr).toContain(`the text goes to gemini test-model at ${server.origin}/v1beta`)
  expect(first.stderr).toMatch(/facts +2 topics/)
  expect(second.stderr).toMatch(/facts +2 topics/)
  expect([first.code, second.code]).toEqual([0, 0])
  expect(second.stdout).toBe(first.stdout)
  expect(first.stdout).toContain('What rivers are.')
  expect(server.bodies()).toHaveLength(1)
})

test('gives the same facts by schema, by a function, and in words, whatever the model can do', async () => {
  const rules = [{ reply: topics('mills', 'rivers') }]
  const bySchema = await (await begin({ rules }))([])
  expect(server.bodies()[0]).toMatchObject({ generationConfig: { responseJsonSchema: { type: 'object' } } })
  for (const [lacks, calls] of [
    [['schema'], 2],
    [['schema', 'functions', 'instruction'], 5],
  ] as const) {
    await server.close()
    const other = await (await begin({ rules, lacks }))([])
    expect(other.stdout).toBe(bySchema.stdout)
    expect(other.code).toBe(0)
    expect(server.bodies()).toHaveLength(calls)
  }
})

test('waits as long as a refusal says, and slows down when the server is overloaded', async () => {
  const info = { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '1.2s' }
  const extract = await begin({
    answers: [
      [429, 'RESOURCE_EXHAUSTED', 'You exceeded your current quota.', [info]],
      [503, 'UNAVAILABLE', 'The model is overloaded. Please try again later.'],
    ],
    rules: [{ reply: topics('mills') }],
  })
  const started = performance.now()
  const { code, stderr } = await extract([])
  expect(performance.now() - started).toBeGreaterThan(1200)
  expect(code).toBe(0)
  expect(stderr).toMatch(/facts +1 topics/)
  expect(server.bodies()).toHaveLength(3)
})

test('asks again when the server breaks off in mid-reply, and counts the facts once', async () => {
  const whole = topics('mills', 'rivers', 'grain')
  const extract = await begin({
    rules: [
      {
        reply: [
          { text: whole, refuse: 'stream-error' },
          { text: whole, refuse: 'cut' },
          { text: whole, refuse: 'eof' },
          whole,
        ],
      },
    ],
  })
  const { code, stderr } = await extract([])
  expect(code).toBe(0)
  expect(stderr).toMatch(/facts +3 topics/)
  expect(server.bodies()).toHaveLength(4)
})

test.each([
  ['lines', ['--output-mode', 'text-based']],
  ['a list', []],
])('continues a reply that was cut off at the limit: %s', async (_, args) => {
  const [first, rest] = [topics('mills', 'rivers'), topics('grain')]
  const cut = { text: first + rest, truncateAfter: Math.ceil((first.length + 14) / 4) }
  const extract = await begin({ rules: [{ match: 'cut off', reply: rest }, { reply: cut }] })
  const { code, stderr, stdout } = await extract(args)
  expect(code).toBe(0)
  expect(stderr).toMatch(/facts +3 topics/)
  expect(stdout).toContain('What grain are.')
  expect(contents().map((turns) => turns.map(({ role }) => role))).toEqual([
    ['user'],
    ['user', 'model', 'user'],
  ])
  expect(contents()[1]![1]!.parts[0]!.text).toContain('What rivers are.')
})

test('asks again for an item that fails its schema', async () => {
  const extract = await begin({
    rules: [
      { match: 'does not fit its schema', reply: topics('mills') },
      { reply: `{"topic":"mills"}\n${topics('rivers')}` },
    ],
  })
  const { code, stderr } = await extract(['--output-mode', 'text-based'])
  expect(code).toBe(0)
  expect(stderr).toMatch(/facts +2 topics/)
  expect(server.bodies()).toHaveLength(2)
})

test('reports a reply that a filter removed as an incomplete unit, and a blocked prompt with its reason', async () => {
  const removed = await (
    await begin({ answers: [{ events: [{ candidates: [{ finishReason: 'SAFETY' }] }] }] })
  )([])
  expect(removed.stderr).toMatch(/incomplete +1 refused/)
  expect(removed.code).toBe(3)
  await server.close()
  const blocked = await (
    await begin({ answers: [{ events: [{ promptFeedback: { blockReason: 'OTHER' } }] }] })
  )([])
  expect(blocked.stderr).toMatch(/a filter blocked it \(OTHER\).*\[llm_prompt_blocked\] Read the text/)
  expect(blocked.code).toBe(4)
})

test('reports what the calls cost, thoughts too', async () => {
  const usageMetadata = {
    promptTokenCount: 1000,
    candidatesTokenCount: 200,
    thoughtsTokenCount: 300,
    totalTokenCount: 1500,
  }
  const extract = await begin({
    answers: [{ events: [{ ...chunk([{ text: `{"items":[${topic('mills')}]}` }], 'STOP'), usageMetadata }] }],
  })
  const { stderr } = await extract(['--prices', 'test-model=1/10'])
  // 1,000 tokens at 1 and 500 at 10 a million.
  expect(stderr).toMatch(/cost +0\.0060\b/)
})

test('names the variable when the key is wrong, and shows the key nowhere', async () => {
  const extract = await begin()
  const { code, stdout, stderr } = await extract([], { GEMINI_API_KEY: 'AIza-a-wrong-key-of-this-test' })
  expect(code).toBe(1)
  expect(stderr).toContain('[llm_authentication]')
  expect(stderr).toContain('GEMINI_API_KEY')
  expect(stdout + stderr).not.toContain('a-wrong-key')
})

test('is chosen when it is the only server that is configured, and asks which of two', async () => {
  await begin({ rules: [{ reply: topics('mills') }], models: ['gemini-one'] })
  const env = { GEMINI_BASE_URL: server.origin, GEMINI_API_KEY: key }
  const args = ['extract', document, '--extractors', 'topics']
  const alone = await graphmill(args, { env, cwd: folder })
  expect(alone.stderr).toContain('the text goes to gemini gemini-one')
  const both = await graphmill(args, { env: { ...env, OPENAI_API_KEY: 'x' }, cwd: folder })
  expect(both.code).toBe(2)
  expect(both.stderr).toMatch(/OpenAI .* and Gemini .*--llm/)
})

test('doctor checks the key and asks the model; config shows the variables and not the key', async () => {
  await begin()
  const env = { GEMINI_BASE_URL: server.origin, GEMINI_API_KEY: key }
  const doctor = await graphmill(['doctor'], { env, cwd: folder })
  expect(doctor.stdout).toMatch(/key .*accepts it/)
  expect(doctor.stdout).toMatch(/model .*gemini test-model .*answers/)
  const config = await graphmill(['config'], { env, cwd: folder })
  expect(config.stdout).toMatch(/GEMINI_API_KEY +\*\*\*/)
  expect(config.stdout).toContain(server.origin)
  expect(doctor.stdout + config.stdout).not.toContain(key)
})
