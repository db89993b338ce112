// Limits that replicas share, with real processes on a real broker: they join, stop and are killed, and a model server counts.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import { bookOf, chunkSize } from '../support/graph.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { freePorts } from '../support/ports.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../support/processes.ts'

/** A flow whose chunks wait for `prompt`, and replicas of it. */
async function openSite(broker: string, space: string, { chunks, llm }: { chunks: number; llm: LlmServer }) {
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-limits-'))
  const started: GraphmillProcess[] = []
  const common = ['--broker', broker, '--space', space]

  async function start(processors: readonly string[], ...options: readonly string[]) {
    const [port] = await freePorts(1)
    const http = `127.0.0.1:${port}`
    const process = startGraphmill(['run', ...processors, ...common, '--http', http, ...options], {
      OPENAI_BASE_URL: llm.url,
      GRAPHMILL_MODEL: 'test-model',
    })
    started.push(process)
    await process.says('"msg":"running"')
    const page = async (path: string) => (await fetch(`http://${http}${path}`)).text()
    return {
      ...process,
      page,
      async share(): Promise<number> {
        return Number(/^graphmill_limit_share{.*} (\S+)$/m.exec(await page('/metrics'))?.[1])
      },
    }
  }

  const book = join(folder, 'book.txt')
  writeFileSync(book, bookOf(chunks))
  await start(['chunk-text', 'extract-topics', 'ledger'], '--chunk-size', String(chunkSize))
  await graphmill('load', book, ...common)
  return {
    prompt: (...options: readonly string[]) =>
      start(['prompt'], '--limit-scope', 'all', '--no-cache', ...options),
    status: () => graphmill('status', '--json', ...common),
    async [Symbol.asyncDispose]() {
      for (const process of started) await process.end('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function eventually(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await delay(100)
}

/** The most and the least calls of the server in any minute that lies between two times. */
function minutes({ requests }: LlmServer, from: number, to: number): { most: number; least: number } {
  const times = requests.filter(({ method }) => method === 'POST').map(({ at }) => at)
  const within = (start: number) => times.filter((at) => at > start && at <= start + 60_000).length
  const starts = Array.from({ length: Math.floor((to - from - 60_000) / 500) + 1 }, (_, n) => from + 500 * n)
  return {
    most: Math.max(...times.map((at) => within(at - 60_000))),
    least: Math.min(...starts.map(within)),
  }
}

/** One joins, one gets SIGTERM, one SIGKILL. Takes some 70 s: the limits are those of a minute. */
export async function sharedRate(broker: string): Promise<void> {
  const began = performance.now()
  await using llm = await startLlmServer({ latencyMs: 1000 })
  await using site = await openSite(broker, 'shared-rate', { chunks: 500, llm })
  const limits = ['--requests-per-minute', '240', '--concurrency', '6']
  const [first, second] = await Promise.all([site.prompt(...limits), site.prompt(...limits)])
  await eventually(async () => (await first.share()) >= 0.5 && (await second.share()) >= 0.5)
  const from = performance.now() - began
  const third = await site.prompt(...limits)
  await eventually(async () => (await third.share()) >= 0.3)
  expect(await second.end('SIGTERM')).toMatchObject({ code: 0 })
  await eventually(async () => (await third.share()) >= 0.5)
  await first.end('SIGKILL')
  await eventually(async () => (await third.share()) === 1)
  await eventually(async () => performance.now() - began > from + 62_000)
  const { most, least } = minutes(llm, from, performance.now() - began)
  expect(most).toBeLessThanOrEqual(1.1 * 240)
  expect(least).toBeGreaterThanOrEqual(240 / 2)
  expect(llm.counts.maxConcurrent).toBeLessThanOrEqual(6)
}

/** One is killed with some of the budget; the other uses it up, waits visibly, and goes on with a larger one. */
export async function sharedBudget(broker: string): Promise<void> {
  const usage = { prompt_tokens: 900, completion_tokens: 100, total_tokens: 1000 }
  await using llm = await startLlmServer({ latencyMs: 500, rules: [{ reply: { text: '', usage } }] })
  await using site = await openSite(broker, 'shared-budget', { chunks: 200, llm })
  const atOnce = 2
  const [first, second] = await Promise.all(
    [1, 2].map(() => site.prompt('--budget', '100000tokens/day', '--concurrency', String(2 * atOnce))),
  )
  await llm.until(({ calls }) => calls >= 40)
  await first!.end('SIGKILL')
  await eventually(async () => (await second!.page('/readyz')).includes('budget:* test-model'))
  await eventually(async () => (await site.status()).includes('budget_exhausted'))
  const { calls } = llm.counts
  // What was in flight may pass it. What the killed one had reserved is at most what it spends in 10 s.
  expect(calls).toBeLessThanOrEqual(100 + 2 * atOnce)
  expect(calls).toBeGreaterThanOrEqual(100 - 10 * 2 * 2 * atOnce)
  expect(await second!.page('/metrics')).toMatch(/^graphmill_budget_limit{.*} 100000$/m)
  expect(await second!.end('SIGTERM')).toMatchObject({ code: 0 })
  expect(llm.counts.calls).toBe(calls)
  await site.prompt('--budget', '1000000tokens/day')
  await llm.until((counts) => counts.calls >= calls + 50)
}
