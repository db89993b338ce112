import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { graphmill } from '../../support/command.ts'
import { type LlmServer, startLlmServer } from '../../support/llm-server.ts'

let server: LlmServer
let folder: string
beforeAll(async () => {
  server = await startLlmServer()
})
afterAll(() => server.close())
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
  const text = (n: number) => `Mill ${n} is a windmill. The miller of mill ${n} grinds grain.`
  writeFileSync(join(folder, 'mills.txt'), Array.from({ length: 8 }, (_, n) => text(n)).join('\n\n'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const command = (args: readonly string[], more: Record<string, string> = {}) =>
  graphmill(args, {
    env: {
      OPENAI_BASE_URL: server.url,
      GRAPHMILL_MODEL: 'test-model',
      GRAPHMILL_CACHE_DIR: join(folder, 'cache'),
      GRAPHMILL_NO_CACHE: 'false',
      ...more,
    },
  })
const extractIn = (env: Record<string, string>, ...more: string[]) =>
  command(['extract', join(folder, 'mills.txt'), '--chunk-size', '150', '--chunk-overlap', '0', ...more], env)
const extract = (...more: string[]) => extractIn({}, ...more)
const calls = () => server.counts.calls
const lines = (path: string) => readFileSync(join(folder, path), 'utf8').trim().split('\n').sort()
const prices = ['--prices', 'test-model=1/2']

describe('extract', () => {
  test('asks only for what is not cached, and says so', async () => {
    const before = calls()
    const first = await extract('--out', join(folder, 'first.nq'))
    expect(first.code).toBe(0)
    const asked = calls() - before
    expect(asked).toBeGreaterThan(10)
    expect(first.stderr).toMatch(new RegExp(`calls +${asked} first`))
    const again = await extract('--resume', ...prices, '--out', join(folder, 'again.nq'))
    expect(again.code).toBe(0)
    expect(calls() - before).toBe(asked)
    expect(again.stderr).toMatch(new RegExp(`calls +${asked} cached\\ncost +0.0000`))
    expect(lines('again.nq')).toEqual(lines('first.nq'))
    const anew = await extract('--no-cache')
    expect(anew.code).toBe(0)
    expect(calls() - before).toBe(2 * asked)
    expect((await extract('--no-cache', '--resume')).code).toBe(2)
  })

  test('estimates without a call, including cached replies', async () => {
    const before = calls()
    const dry = await extract('--dry-run', ...prices)
    expect(dry.code).toBe(0)
    expect(dry.stdout).toMatch(
      /chunks +\d+\nrequests +\d+\ntokens +about \d+ in, \d+ out\ncost +about 0\.\d+\n/,
    )
    const row = JSON.parse((await extract('--dry-run', '--json', ...prices)).stdout) as Record<string, number>
    expect(dry.stdout).toContain(`requests   ${row['requests']}\n`)
    expect(dry.stdout).toContain(`about ${row['promptTokens']} in, ${row['completionTokens']} out`)
    expect(row).toMatchObject({
      remembered: 0,
      cost: expect.closeTo(Number(/0\.\d+/.exec(dry.stdout)![0]), 3),
    })
    const unpriced = await extract('--dry-run', '--json')
    expect(JSON.parse(unpriced.stdout)).toMatchObject({ chunks: row['chunks'], cost: null })
    expect((await extract('--dry-run')).stdout).not.toContain('cost')
    expect(calls()).toBe(before)
    await extract()
    expect((await extract('--dry-run')).stdout).toMatch(/requests +(\d+), \1 of them cached/)
  })

  test('stops at the cost limit, keeps its results, and continues on request', async () => {
    const whole = await extract('--no-cache', ...prices, '--out', join(folder, 'whole.nq'))
    const cost = Number(/cost +([\d.]+)/.exec(whole.stderr)![1])
    const limit = cost / 2
    const part = await extract(...prices, '--max-cost', String(limit), '--out', join(folder, 'part.nq'))
    expect(part.code).toBe(3)
    expect(part.stderr).toMatch(/incomplete +\d+ max_cost/)
    const spent = Number(/cost +([\d.]+)/.exec(part.stderr)![1])
    expect(spent).toBeLessThanOrEqual(limit)
    expect(spent).toBeGreaterThan(limit / 2)
    expect(lines('part.nq').length).toBeGreaterThan(5)
    const before = calls()
    const rest = await extract('--resume', ...prices, '--out', join(folder, 'rest.nq'))
    expect(rest.code).toBe(0)
    expect(rest.stderr).toMatch(/calls +.*\d+ cached/)
    expect(calls() - before).toBeGreaterThan(0)
    expect(lines('rest.nq')).toEqual(lines('whole.nq'))
    expect((await extract('--max-cost', '1')).code).toBe(2)
  })

  test('counts the cost of failed runs', async () => {
    const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 }
    await using failing = await startLlmServer({
      rules: [
        {
          match: 'Mill 3',
          reply: { text: '{"entity": "a mill of which too much is said"}', truncateAfter: 3, usage },
        },
        { reply: { text: '[]', usage } },
      ],
    })
    const env = { OPENAI_BASE_URL: failing.url }
    const { code, stderr } = await extractIn(env, '--no-cache', ...prices)
    expect(code).toBe(4)
    expect(stderr).toContain('[item_too_long]')
    const { calls } = failing.counts
    expect(stderr).toMatch(/calls +\d+ first, 3 longer/)
    expect(stderr).toContain(`cost       ${((calls * (1000 * 1 + 100 * 2)) / 1e6).toFixed(4)}\n`)
    expect(stderr).toMatch(new RegExp(`tokens +${calls * 1000} in, ${calls * 100} out`))
  })
})

describe('cache', () => {
  test('prints its size, and is cleared', async () => {
    expect((await command(['cache', 'stats'])).stdout).toMatch(/entries +0\n/)
    await extract()
    const { stdout } = await command(['cache', 'stats'])
    const entries = Number(/entries +(\d+)/.exec(stdout)![1])
    expect(entries).toBeGreaterThan(10)
    const row = JSON.parse((await command(['cache', 'stats', '--json'])).stdout) as Record<string, unknown>
    expect(row).toMatchObject({ entries, folder: expect.any(String), bytes: expect.any(Number) })
    expect(new Date(row['oldest'] as string).getTime()).toBeGreaterThan(Date.now() - 600_000)
    expect((await command(['cache', 'clear'])).stdout).toContain(`${entries} entries removed`)
    expect((await command(['cache', 'stats'])).stdout).toMatch(/entries +0\n/)
  })
})
