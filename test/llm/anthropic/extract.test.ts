// `graphmill extract --llm anthropic`, end to end, against a server that keeps the published rules of Anthropic's API.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  type AnthropicRecording,
  type AnthropicScript,
  startAnthropicServer,
} from '../../support/anthropic-server.ts'
import { graphmill } from '../../support/command.ts'

let folder: string
let document: string
let server: AnthropicRecording
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-anthropic-'))
  document = join(folder, 'mill.txt')
  writeFileSync(document, 'The mill stands by the river. The miller grinds grain.')
})
afterEach(() => server.close())
afterAll(() => rmSync(folder, { recursive: true }))

const key = 'sk-ant-a-secret-of-this-test'

async function begin(script: AnthropicScript = {}) {
  server = await startAnthropicServer({ apiKey: key, ...script })
  const env = { ANTHROPIC_BASE_URL: server.origin, ANTHROPIC_API_KEY: key }
  return (args: readonly string[], more: Readonly<Record<string, string>> = {}) =>
    graphmill(['extract', document, '--llm', 'anthropic', '--extractors', 'topics', ...args], {
      env: { ...env, ...more },
      cwd: folder,
    })
}

const topic = (name: string) => JSON.stringify({ topic: name, definition: `What ${name} are.` })
const topics = (...names: readonly string[]) => names.map((name) => `${topic(name)}\n`).join('')
const turns = () => server.bodies().map(({ messages }) => messages as { role: string; content: string }[])

test('gives facts, and a second run asks nothing', async () => {
  const extract = await begin({ rules: [{ reply: topics('mills', 'rivers') }] })
  const cache = { GRAPHMILL_NO_CACHE: 'false', GRAPHMILL_CACHE_DIR: join(folder, 'cache') }
  const first = await extract([], cache)
  const second = await extract([], cache)
  expect(first.stderr).toContain(`the text goes to anthropic test-model at ${server.origin}`)
  expect(first.stderr).toMatch(/facts +2 topics/)
  expect(second.stderr).toMatch(/facts +2 topics/)
  expect([first.code, second.code]).toEqual([0, 0])
  expect(second.stdout).toBe(first.stdout)
  expect(first.stdout).toContain('What rivers are.')
  expect(server.bodies()).toHaveLength(1)
})

test('relies on the schema of a model that keeps to one, and asks for lines elsewhere', async () => {
  const reply = topics('mills', 'rivers')
  const constrained = await (await begin({ rules: [{ reply }] }))([])
  expect(server.bodies()[0]).toMatchObject({ output_config: { format: { type: 'json_schema' } } })
  await server.close()
  const lines = await (await begin({ rules: [{ reply }], lacks: ['format'] }))([])
  expect(server.bodies()).toHaveLength(1)
  expect(server.bodies()[0]).not.toHaveProperty('output_config')
  expect(lines.stdout).toBe(constrained.stdout)
  await server.close()
  const byTool = await (await begin({ rules: [{ reply }], lacks: ['format'] }))(['--output-mode', 'native'])
  expect(server.bodies().map((body) => 'tool_choice' in body)).toEqual([false, true])
  expect(byTool.stdout).toBe(constrained.stdout)
})

test('waits as long as a refusal says, and slows down when the server is overloaded', async () => {
  const extract = await begin({
    answers: [
      [429, 'rate_limit_error', 'slow down', { 'retry-after': '1' }],
      [529, 'overloaded_error', 'Overloaded'],
    ],
    rules: [{ reply: topics('mills') }],
  })
  const started = performance.now()
  const { code, stderr } = await extract([])
  expect(performance.now() - started).toBeGreaterThan(1000)
  expect(code).toBe(0)
  expect(stderr).toMatch(/facts +1 topics/)
  expect(server.bodies()).toHaveLength(3)
})

test('asks again when the server breaks off in mid-reply, and counts the facts once', async () => {
  const whole = topics('mills', 'rivers', 'grain')
  const extract = await begin({
    rules: [{ reply: [{ text: whole, refuse: 'stream-error' }, { text: whole, refuse: 'cut' }, whole] }],
  })
  const { code, stderr } = await extract([])
  expect(code).toBe(0)
  expect(stderr).toMatch(/facts +3 topics/)
  expect(server.bodies()).toHaveLength(3)
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
  expect(turns().map((messages) => messages.map(({ role }) => role))).toEqual([
    ['user'],
    ['user', 'assistant', 'user'],
  ])
  expect(turns()[1]![1]!.content).toContain('What rivers are.')
})

test('asks for a longer reply when it was cut off in its first item', async () => {
  const long = topics('m'.repeat(120))
  const extract = await begin({ rules: [{ reply: [{ text: long, truncateAfter: 50 }, long] }] })
  const { code, stderr } = await extract(['--output-mode', 'text-based'])
  expect(code).toBe(0)
  expect(stderr).toMatch(/facts +1 topics/)
  expect(server.bodies().map((body) => body['max_tokens'])).toEqual([16_384, 100])
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

test('reports a refusal of the model as an incomplete unit', async () => {
  const extract = await begin({ rules: [{ reply: { text: '', finish: 'refusal' } }] })
  const { code, stderr } = await extract([])
  expect(code).toBe(3)
  expect(stderr).toMatch(/incomplete +1 refused/)
})

test('reports what the calls cost, by the counts of the server', async () => {
  const extract = await begin({ rules: [{ reply: topics('mills') }] })
  const prices = ['--prices', 'test-model=1000/1000']
  const { stderr } = await extract(prices)
  expect(stderr).toMatch(/cost +0\.\d+/)
})

test('names the variable when the key is wrong, and shows the key nowhere', async () => {
  const extract = await begin()
  const { code, stdout, stderr } = await extract([], { ANTHROPIC_API_KEY: 'sk-ant-a-wrong-key-of-this-test' })
  expect(code).toBe(1)
  expect(stderr).toContain('[llm_authentication]')
  expect(stderr).toContain('ANTHROPIC_API_KEY')
  expect(stdout + stderr).not.toContain('a-wrong-key')
})

test('is chosen when it is the only server that is configured, and asks which of two', async () => {
  await begin({ rules: [{ reply: topics('mills') }], models: ['claude-one'] })
  const env = { ANTHROPIC_BASE_URL: server.origin, ANTHROPIC_API_KEY: key }
  const args = ['extract', document, '--extractors', 'topics']
  const alone = await graphmill(args, { env, cwd: folder })
  expect(alone.stderr).toContain('the text goes to anthropic claude-one')
  const both = await graphmill(args, { env: { ...env, OPENAI_API_KEY: 'x' }, cwd: folder })
  expect(both.code).not.toBe(0)
  expect(both.stderr).toMatch(/OpenAI .* and Anthropic .*--llm/)
})

test('doctor checks the key and asks the model', async () => {
  await begin()
  const env = { ANTHROPIC_BASE_URL: server.origin, ANTHROPIC_API_KEY: key }
  const { stdout } = await graphmill(['doctor', '--llm', 'anthropic'], { env, cwd: folder })
  expect(stdout).toMatch(/key .*accepts it/)
  expect(stdout).toMatch(/model .*anthropic test-model .*answers/)
  expect(stdout).not.toContain(key)
})

test('config shows the variables, and not the key', async () => {
  await begin()
  const env = { ANTHROPIC_BASE_URL: server.origin, ANTHROPIC_API_KEY: key }
  const { stdout } = await graphmill(['config'], { env, cwd: folder })
  expect(stdout).toMatch(/ANTHROPIC_API_KEY +\*\*\*/)
  expect(stdout).toContain(server.origin)
  expect(stdout).not.toContain(key)
})
