import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { durationText } from '../../src/cli/progress.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { startGraphmill } from '../support/processes.ts'

test.each([
  [400, '1 s'],
  [59_001, '1 min 0 s'],
  [3_598_000, '59 min 58 s'],
  [7_500_000, '2 h 5 min'],
])('%i ms are %s', (ms, text) => {
  expect(durationText(ms)).toBe(text)
})

test('a model that asks to wait for an hour is reported once, with its message and the time', {
  timeout: 60_000,
}, async () => {
  await using server = await startLlmServer({ refuse: { kind: 'rate-limit' }, retryAfter: 3600 })
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-progress-'))
  const file = join(folder, 'mill.txt')
  writeFileSync(file, 'The mill stands by the river.')
  const extract = startGraphmill(
    ['extract', file, '--extractors', 'definitions,topics', '--log-level', 'warn'],
    { OPENAI_BASE_URL: server.url, GRAPHMILL_MODEL: 'test-model' },
  )
  await extract.says('0/2 units of 1 chunks 0%, 0 facts, waiting for openai ')
  // Two more looks at the same pause.
  await wait(4500)
  await extract.end('SIGINT')
  rmSync(folder, { recursive: true })
  const said = extract.stderr().match(/^graphmill: waiting for .*$/gm)
  expect(said).toEqual([
    expect.stringMatching(
      /^graphmill: waiting for openai .*test-model: .* is limiting the rate of calls \(429\): .* \[llm_rate_limited\], next try in (59 min \d+ s|1 h 0 min)\. Lower --concurrency/,
    ),
  ])
  expect(extract.stderr().match(/waiting for/g)).toHaveLength(2)
  // For `run`, which shows no line of progress.
  expect(extract.stderr().match(/"calls to the model are paused"/g)).toHaveLength(1)
})
