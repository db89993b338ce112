// `run` refuses a budget that could not be kept, before it needs its broker.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { startGraphmill } from '../support/processes.ts'

let llm: LlmServer
beforeAll(async () => {
  llm = await startLlmServer()
})
afterAll(() => llm.close())

test.each([
  [['--budget', '20/day'], 'add --limit-scope workspace or --limit-scope all'],
  [['--limit-scope', 'all', '--budget', '20/day'], '--prices test-model=IN/OUT'],
  [['--limit-scope', 'all', '--budget', '20/week'], 'as in 20/day'],
  [['--limit-scope', 'all', '--budget', '0/day'], 'as in 20/day'],
])('%j is refused with advice', async (options, advice) => {
  const broker = ['--broker', 'kafka://127.0.0.1:1', '--http', 'off']
  const process = startGraphmill(['run', 'prompt', ...broker, ...options], {
    OPENAI_BASE_URL: llm.url,
    GRAPHMILL_MODEL: 'test-model',
  })
  const { code } = await process.ended
  expect(process.stderr()).toContain('configuration_invalid')
  expect(process.stderr()).toContain(advice)
  expect(code).toBe(2)
})
