// The cost of `extract`: its estimate, its total, and its limit.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Ended, graphmill } from '../support/command.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'

const chunks = 20
let server: LlmServer
let folder: string
beforeEach(async () => {
  server = await startLlmServer()
  folder = mkdtempSync(join(tmpdir(), 'graphmill-cost-'))
  const text = (n: number) =>
    `Mill ${n} is a windmill of the polder ${n}, built in 16${n + 10}. `.padEnd(140, 'Its sails turn. ')
  writeFileSync(join(folder, 'mills.txt'), Array.from({ length: chunks }, (_, n) => text(n)).join('\n\n'))
})
afterEach(async () => {
  await server.close()
  rmSync(folder, { recursive: true, force: true })
})

/** A folder of prompts, in which the one for definitions is a json prompt. */
function jsonPrompt(): string {
  const prompts = join(folder, 'prompts')
  mkdirSync(prompts)
  const prompt = {
    'response-type': 'json',
    prompt: 'Definitions of {{text}} as a JSON array',
    schema: { type: 'array', items: { type: 'object' } },
  }
  writeFileSync(join(prompts, 'extract-definitions.yaml'), JSON.stringify(prompt))
  return prompts
}

/** Definitions of 20 chunks, at 1 and 2 per million tokens, without the cache. */
const extract = (...more: string[]) => extractIn({}, ...more)
const extractIn = (env: Readonly<Record<string, string>>, ...more: string[]): Promise<Ended> =>
  graphmill(
    [
      'extract',
      join(folder, 'mills.txt'),
      ...['--chunk-size', '150', '--chunk-overlap', '0', '--extractors', 'definitions'],
      ...['--prices', 'test-model=1/2', ...more],
    ],
    { env: { OPENAI_BASE_URL: server.url, GRAPHMILL_MODEL: 'test-model', ...env } },
  )
const costIn = ({ stderr }: Ended) => Number(/^cost +([\d.]+)$/m.exec(stderr)![1])
const lines = (path: string) => readFileSync(join(folder, path), 'utf8').trim().split('\n').sort()
/** A reply with a given cost: 1 for the prompt, and 2 per token. */
const reply = (tokens: number, text = '{"entity":"mill","definition":"a machine"}') => ({
  text,
  usage: { prompt_tokens: 1000, completion_tokens: tokens, total_tokens: 1000 + tokens },
})

test('--dry-run prints chunks, calls and cost, for replies as long as the text', async () => {
  const item = JSON.stringify({ entity: 'mill', definition: 'a machine'.padEnd(100) })
  server.set({ rules: [{ reply: item }] })
  const dry = await extract('--dry-run')
  expect(server.counts.calls).toBe(0)
  const real = await extract()
  const said =
    /chunks +(\d+)\nrequests +(\d+)\ntokens +about (\d+) in, (\d+) out\ncost +about ([\d.]+)\n/.exec(
      dry.stdout,
    )!
  const [, chunked, requests, input, output, cost] = said.map(Number)
  expect([chunked, requests]).toEqual([chunks, server.counts.calls])
  expect(cost).toBeCloseTo((input! * 1 + output! * 2) / 1e6, 4)
  const used = /^tokens +(\d+) in, (\d+) out$/m.exec(real.stderr)!.map(Number)
  // The server counts four characters a token, the estimate three and a half.
  expect(input! / used[1]!).toBeGreaterThan(1)
  expect(input! / used[1]!).toBeLessThan(1.3)
  expect(cost! / costIn(real)).toBeGreaterThan(0.9)
  expect(cost! / costIn(real)).toBeLessThan(1.4)
})

test('--dry-run knows the cached replies of a json prompt, in each output mode', async () => {
  const prompts = jsonPrompt()
  server.set({ rules: [{ reply: '[{"entity":"mill","definition":"a mill"}]' }] })
  const env = { GRAPHMILL_NO_CACHE: 'false', GRAPHMILL_CACHE_DIR: join(folder, 'cache') }
  const inCache = (mode: string, ...more: string[]) =>
    extractIn(env, '--prompts', prompts, '--output-mode', mode, ...more)
  expect((await inCache('text-based')).code).toBe(0)
  const [same, other] = await Promise.all([
    inCache('text-based', '--dry-run'),
    inCache('fallback', '--dry-run'),
  ])
  expect(same.stdout).toContain('requests   20, 20 of them cached\n')
  expect(other.stdout).toContain('requests   20\n')
})

test('--max-cost is spent only on replies when the server limits the rate', async () => {
  const refuse = { kind: 'rate-limit', first: 6 } as const
  server.set({ rules: [{ reply: reply(500) }], refuse, retryAfter: 0 })
  // Each call costs 0.002, so that the whole is 0.04; the refused ones would be 0.006 more.
  const { code, stderr } = await extract('--max-cost', '0.0403')
  expect(stderr).toMatch(/calls +20 first\ncost +0.0400\n/)
  expect(code).toBe(0)
  expect(server.counts.refused).toBe(6)
})

test('--max-cost stops in time when the server limits the rate', async () => {
  server.set({ rules: [{ reply: reply(500) }], refuse: { kind: 'rate-limit', first: 6 }, retryAfter: 0 })
  const ended = await extract('--max-cost', '0.0205')
  expect(ended.code).toBe(3)
  // Ten calls make 0.02; one reply may be a fifth longer than those before.
  expect(costIn(ended)).toBeLessThanOrEqual(0.0205)
  expect(costIn(ended)).toBeGreaterThanOrEqual(0.018)
  expect(ended.stderr).toMatch(/incomplete +1[01] max_cost\n/)
})

test('--max-cost is exceeded by at most the concurrent calls when replies get longer', async () => {
  const empty = reply(1, '[]')
  server.set({ rules: [{ times: 10, reply: empty }, { reply: reply(20_000) }] })
  const ended = await extract('--max-cost', '0.02', '--concurrency', '2')
  expect(ended.code).toBe(3)
  expect(server.counts.calls).toBeGreaterThan(10)
  expect(server.counts.calls).toBeLessThanOrEqual(12)
})

test('--max-cost leaves json prompts partial, and keeps the results of the others', async () => {
  const prompts = jsonPrompt()
  server.set({
    rules: [
      {
        reply: ({ number }) =>
          reply(500, JSON.stringify([{ entity: `mill ${number}`, definition: 'a mill' }])),
      },
    ],
  })
  const ended = await extract('--prompts', prompts, '--max-cost', '0.0205', '--out', join(folder, 'part.nq'))
  expect(ended.stderr).not.toContain('cost_limit_reached')
  expect(ended.code).toBe(3)
  const found = Number(/facts +(\d+) definitions/.exec(ended.stderr)![1])
  expect(found).toBe(server.counts.calls)
  expect(found).toBeGreaterThanOrEqual(8)
  expect(ended.stderr).toContain(`incomplete ${chunks - found} max_cost\n`)
  for (let n = 1; n <= found; n++)
    expect(lines('part.nq').some((line) => line.includes(`"mill ${n}"`))).toBe(true)
})
