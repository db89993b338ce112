// `graphmill eval` as a process: replays of the examples, a model server, mistakes and interruptions.
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { EvaluationReport } from '../../../src/evaluation/report.ts'
import { graphmill } from '../../support/command.ts'
import { type LlmServer, startLlmServer } from '../../support/llm-server.ts'

let server: LlmServer
let folder: string
beforeAll(async () => {
  server = await startLlmServer()
})
afterAll(() => server.close())
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-eval-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
  server.set({ rules: undefined, models: undefined })
})

const file = (name: string, content: string) => {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}
const lines = (...values: readonly object[]) => values.map((value) => `${JSON.stringify(value)}\n`).join('')
const evaluate = (...args: readonly string[]) =>
  graphmill(['eval', ...args], { env: { OPENAI_BASE_URL: server.url, GRAPHMILL_MODEL: 'test-model' } })
const reportOf = (stdout: string) => JSON.parse(stdout) as EvaluationReport
const examples = [...globSync('examples/eval/*.jsonl').sort(), '--ontologies', 'examples/eval']

describe('a replay of the 60 examples', () => {
  test('has an F1 of 1.0 for every kind when it is clean', async () => {
    const { code, stdout, stderr } = await evaluate(...examples, '--replay', 'clean', '--format', 'json')
    expect(stderr).toContain('no model is asked')
    const { scored, kinds, overall, rejected, partial, failed, scores, hallucinated, damages, cost } =
      reportOf(stdout)
    expect({ code, scored, rejected, partial, failed, damages, cost }).toEqual({
      ...{ code: 0, scored: 60, rejected: {}, partial: 0, failed: 0, damages: [], cost: 0 },
    })
    expect(kinds.map(({ kind, f1 }) => [kind, f1])).toEqual(
      ['definitions', 'relationships', 'entities', 'triples'].map((kind) => [
        kind,
        { value: 1, low: 1, high: 1 },
      ]),
    )
    expect(overall).toMatchObject({ gold: overall.matched, found: overall.matched, f1: { value: 1 } })
    expect(overall.gold).toBeGreaterThan(200)
    expect(hallucinated).toEqual({ subject: 0, relation: 0, object: 0 })
    expect(new Set(scores.map(({ id }) => id)).size).toBe(60)
    expect(server.counts.calls).toBe(0)
  })

  test('loses nothing when replies are damaged in the ways of models, and says which ways there were', async () => {
    const { code, stdout } = await evaluate(...examples, '--replay', 'damaged', '--format', 'json')
    const { damages, overall, calls, rejected } = reportOf(stdout)
    expect(code).toBe(0)
    expect(damages.map(({ damage, f1 }) => [damage, f1])).toEqual(
      [
        ...['code fence', 'cut off', 'list', 'list without its end', 'mixed lines', 'prose'],
        ...['several lines', 'single quotes', 'thinking', 'trailing commas'],
      ].map((damage) => [damage, 1]),
    )
    expect(overall).toMatchObject({ f1: { value: 1 }, gold: overall.found })
    // Replies that were cut off after some items, and inside the first one.
    expect(calls['continuation']).toBeGreaterThan(0)
    expect(calls['longer']).toBeGreaterThan(0)
    expect(rejected).toEqual({})
  })

  test('gives the same report every time', async () => {
    const once = () => evaluate(...examples.slice(0, 1), ...examples.slice(3), '--replay', 'damaged')
    const [one, other] = await Promise.all([once(), once()])
    expect(one.stdout).toBe(other.stdout)
    expect(one.stdout).toMatch(
      /^KIND +GOLD +FOUND +MATCHED +PRECISION +RECALL +F1 +HALLUCINATED +UNGROUNDED$/m,
    )
  })
})

test('a replay covers rows, topics, agent-kg, and documents of several chunks', async () => {
  const schema = file(
    'mill.yaml',
    'name: mill\nfields:\n  - { name: name, type: string, primary: true }\n  - { name: opened, type: integer }\n',
  )
  const filler = 'The river runs past the mill and the miller sleeps. '.repeat(60)
  const gold = file(
    'gold.jsonl',
    lines({
      text: `Low Quern opened in 1764. ${filler}\n\n${filler} High Quern opened in 1801.`,
      definitions: [{ entity: 'Low Quern', definition: "a mill that isn't new" }],
      relationships: [{ subject: 'Low Quern', predicate: 'stands by', object: 'the "river"' }],
      topics: [{ topic: 'mills' }],
      rows: [
        { schema: 'mill', values: { name: 'Low Quern', opened: 1764 } },
        { schema: 'mill', values: { name: 'High Quern', opened: 1801 } },
      ],
    }),
  )
  const run = async (...args: string[]) =>
    reportOf((await evaluate(gold, '--schemas', schema, '--format', 'json', ...args)).stdout)
  const clean = await run('--replay', 'clean')
  expect(clean.kinds.map(({ kind, f1 }) => [kind, f1.value])).toEqual([
    ['definitions', 1],
    ['relationships', 1],
    ['topics', 1],
    ['rows', 1],
  ])
  const agent = await run('--replay', 'damaged', '--extractors', 'agent-kg')
  expect(agent.kinds.map(({ kind, f1 }) => [kind, f1.value])).toEqual([
    ['definitions', 1],
    ['relationships', 1],
  ])
  expect(agent.notExtracted).toEqual(['topics', 'rows'])
})

test('a replay tells documents apart that begin in the same way', async () => {
  const preamble = 'This report is confidential. The river Ouse runs past the mill. '.repeat(12)
  const ouse = { entity: 'Ouse', definition: 'a river' }
  const documents = ['Ada', 'Bo', 'Cy'].map((name) => ({
    text: `${preamble}${name} is a boat. ${preamble}`,
    definitions: [{ entity: name, definition: 'a boat' }, ouse],
  }))
  const gold = file('gold.jsonl', lines(...documents))
  const options = ['--replay', 'clean', '--chunk-size', '300', '--chunk-overlap', '40', '--format', 'json']
  const { overall, scored } = reportOf((await evaluate(gold, ...options)).stdout)
  expect(scored).toBe(3)
  expect(overall).toMatchObject({ gold: 6, found: 6, f1: { value: 1 } })
})

const boat = { id: 'boat', text: 'Ada is a boat. Bo is a dog.' }
const definitions = [
  { entity: 'Ada', definition: 'a boat' },
  { entity: 'Bo', definition: 'a dog' },
]

describe('with a model', () => {
  test('precision, recall, F1, hallucinations, rejections, tokens and cost are those of its replies', async () => {
    const reply = lines(
      { entity: 'ADA', definition: 'A boat.' },
      { entity: 'Gannet', definition: 'A seabird.' },
      { entity: 'nobody' },
    )
    server.set({ rules: [{ reply: { text: reply, usage: { prompt_tokens: 1000, completion_tokens: 50 } } }] })
    const gold = file('gold.jsonl', lines({ ...boat, definitions }))
    const prices = ['--prices', 'test-model=2/10', '--format', 'json']
    const { code, stdout, stderr } = await evaluate(gold, ...prices)
    expect(stderr).toContain(`the text goes to openai test-model at ${server.url}`)
    const report = reportOf(stdout)
    const calls = Object.values(report.calls).reduce((sum, each) => sum + each, 0)
    expect(code).toBe(0)
    expect(report.kinds).toMatchObject([
      {
        ...{ kind: 'definitions', gold: 2, found: 2, matched: 1, hallucinated: 1 },
        ...{ precision: { value: 0.5 }, recall: { value: 0.5 }, f1: { value: 0.5 } },
      },
    ])
    expect(report.kinds[0]?.shares).toMatchObject({
      hallucinated: { value: 0.5 },
      ungrounded: { value: 0.5 },
    })
    expect(report.rejected).toEqual({ schema: 1 })
    expect(report).toMatchObject({ promptTokens: calls * 1000, completionTokens: calls * 50, unreported: 0 })
    expect(report.cost).toBeCloseTo((calls * (1000 * 2 + 50 * 10)) / 1e6, 10)
    const strict = reportOf((await evaluate(gold, '--ungrounded', 'reject', '--format', 'json')).stdout)
    expect(strict.kinds).toMatchObject([{ found: 1, matched: 1, precision: { value: 1 } }])
    expect(strict.rejected).toEqual({ schema: 1, ungrounded: 1 })
    expect(strict.cost).toBeNull()
  })

  test('a run is compared with an earlier one, and --min-f1 decides the exit code', async () => {
    const gold = file('gold.jsonl', lines({ ...boat, definitions }))
    server.set({ rules: [{ reply: lines(definitions[0]!) }] })
    const first = await evaluate(gold, '--format', 'json', '--min-f1', '0.7')
    expect(first).toMatchObject({ code: 1, stderr: expect.stringContaining('below --min-f1 0.7') })
    const saved = file('first.json', first.stdout)
    server.set({ rules: [{ reply: lines(...definitions) }] })
    const [second, html] = await Promise.all([
      evaluate(gold, '--compare', saved, '--min-f1', '0.7'),
      evaluate(gold, '--compare', saved, '--format', 'html'),
    ])
    expect(second.code).toBe(0)
    expect(second.stdout).toMatch(/^definitions +f1 +0\.667 +1\.000 +0\.333 \(0\.333 to 0\.333\)$/m)
    expect(html.stdout).toMatch(/^<!doctype html>/)
    expect(html.stdout).toContain('<td>0.333 (0.333 to 0.333)</td>')
    const other = file('other.jsonl', lines({ ...boat, definitions: [] }))
    const refused = await evaluate(other, '--compare', saved)
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toContain('first.json: it is about other gold facts')
  })

  test('two models and two prompts are compared, each with what it was made with', async () => {
    const promptsOf = (name: string) => {
      mkdirSync(join(folder, name))
      const prompt = 'response-type: jsonl\nprompt: "As in NAME: {{ text }}"\n'.replace('NAME', name)
      file(join(name, 'extract-definitions.yaml'), prompt)
      return join(folder, name)
    }
    const [short, long] = [promptsOf('short'), promptsOf('long')]
    server.set({
      models: ['small', 'large'],
      rules: [
        { match: 'As in long', reply: lines(...definitions) },
        {
          match: 'As in short',
          reply: ({ body }) =>
            lines(body.model === 'large' ? definitions[0]! : { entity: 'nothing', definition: 'x' }),
        },
      ],
    })
    const gold = file('gold.jsonl', lines({ ...boat, definitions }))
    const run = async (model: string, prompts: string, ...args: string[]) => {
      const { code, stdout } = await evaluate(gold, '--model', model, '--prompts', prompts, ...args)
      expect(code).toBe(0)
      return stdout
    }
    const before = file('before.json', await run('small', short, '--format', 'json'))
    const [models, prompts] = await Promise.all([
      run('large', short, '--compare', before),
      run('small', long, '--compare', before),
    ])
    expect(models).toContain(
      `small with ${short} (before) and large with ${short} (after) in the 1 documents`,
    )
    expect(models).toMatch(/^definitions +hallucinated +1\.000 +0\.000 +-1\.000 \(/m)
    expect(models).toMatch(/^definitions +recall +0\.000 +0\.500 +0\.500 \(/m)
    expect(prompts).toContain(
      `small with ${short} (before) and small with ${long} (after) in the 1 documents`,
    )
    expect(prompts).toMatch(/^definitions +recall +0\.000 +1\.000 +1\.000 \(/m)
    expect(prompts).toContain(`prompts       ${long}`)
  })

  test('documents that --max-cost leaves unread are not scored, and the exit code says so', async () => {
    server.set({
      rules: [
        { reply: { text: lines(...definitions), usage: { prompt_tokens: 1000, completion_tokens: 50 } } },
      ],
    })
    const twelve = Array.from({ length: 12 }, (_, n) => ({ ...boat, id: `b${n}`, text: `${boat.text} ${n}` }))
    const gold = file('gold.jsonl', lines(...twelve.map((each) => ({ ...each, definitions }))))
    // A call costs 0.0025.
    const prices = ['--prices', 'test-model=2/10', '--max-cost', '0.01', '--concurrency', '1']
    const { code, stdout, stderr } = await evaluate(gold, ...prices, '--format', 'json')
    const { scored, documents, partial, failed, overall, cost } = reportOf(stdout)
    expect({ code, documents, partial, failed }).toEqual({ code: 1, documents: 12, partial: 0, failed: 0 })
    expect(stderr).toContain('stopped before the end, by Ctrl-C or --max-cost')
    expect(cost).toBeLessThanOrEqual(0.01)
    expect(scored).toBeGreaterThan(0)
    expect(scored).toBe(Math.round(cost! / 0.0025))
    expect(overall).toMatchObject({ gold: 2 * scored, f1: { value: 1 } })
  })

  test('Ctrl-C in the middle reports the documents that had ended', async () => {
    server.set({
      rules: [
        { match: 'Ada is a boat', reply: lines(...definitions) },
        { match: 'The slow one', reply: { refuse: 'hang' } },
      ],
    })
    const slow = { id: 'slow', text: 'The slow one.', definitions: [] }
    const gold = file('gold.jsonl', lines({ ...boat, definitions }, slow))
    let isStopped = false
    const { code, stdout, stderr } = await graphmill(['eval', gold], {
      env: { OPENAI_BASE_URL: server.url, GRAPHMILL_MODEL: 'test-model' },
      onStderr: (text, kill) => {
        // The line of progress says that the other document has ended.
        if (isStopped || !/^1\/2 units of 2 chunks 50%, 2 facts/m.test(text)) return
        isStopped = true
        kill('SIGINT')
      },
    })
    expect(stderr).toContain('stopped before the end')
    expect(stdout).toMatch(/^definitions +2 +2 +2 +1\.000 /m)
    expect(stdout).toMatch(/^documents +1 scored, 1 not finished$/m)
    expect(code).toBe(1)
  })

  test('a document whose chunk is dead is scored, named as failed, and exits with 4', async () => {
    server.set({ rules: [{ reply: { refuse: 'context' } }] })
    const gold = file('gold.jsonl', lines({ id: 'x', text: 'Ada.', definitions: [definitions[0]!] }))
    const { code, stdout, stderr } = await evaluate(gold, '--min-f1', '0.5')
    expect(stdout).toMatch(/^documents +1 scored, 1 failed$/m)
    expect(stdout).toMatch(/^definitions +1 +0 +0 +- +0\.000 /m)
    expect(stderr).toMatch(/graphmill: .*context/)
    expect(code).toBe(4)
  })
})

describe('mistakes', () => {
  test('in a gold file name the line and what was meant, and no model is asked', async () => {
    const before = server.counts.calls
    const gold = file('gold.jsonl', lines({ ...boat, definitions }, { text: 'x', definition: [] }))
    const { code, stdout, stderr } = await evaluate(gold)
    expect(stderr).toContain('gold.jsonl:2: definition: there is no such field; did you mean "definitions"?')
    expect(stderr).toContain('docs/evaluation.md')
    expect({ code, stdout, calls: server.counts.calls - before }).toEqual({ code: 1, stdout: '', calls: 0 })
  })

  test.each([
    [['--replay', 'dirty'], /Allowed choices are clean, damaged/],
    [['--format', 'turtle'], /Allowed choices are table, json, html/],
    [['--min-f1', '80%'], /must be a number from 0 to 1/],
    [['--extractors', 'topcs'], /There is no extractor topcs\. Did you mean topics/],
  ])('on the command line are wrong usage: %s', async (args, message) => {
    const gold = file('gold.jsonl', lines({ ...boat, definitions }))
    const { code, stderr } = await evaluate(gold, ...args)
    expect(stderr).toMatch(message)
    expect(code).toBe(2)
  })
})

test('more documents than are in the flow at once are all scored', async () => {
  const many = Array.from({ length: 1100 }, (_, n) => ({
    text: `Mill number ${n} is a mill.`,
    definitions: [{ entity: `Mill number ${n}`, definition: 'a mill' }],
  }))
  const { stdout } = await evaluate(
    file('gold.jsonl', lines(...many)),
    '--replay',
    'clean',
    '--format',
    'json',
  )
  expect(reportOf(stdout)).toMatchObject({ scored: 1100, overall: { gold: 1100, f1: { value: 1 } } })
}, 60_000)

test('the examples are sixty sentences, twenty for each ontology', () => {
  for (const path of globSync('examples/eval/*.jsonl'))
    expect(readFileSync(path, 'utf8').trim().split('\n'), path).toHaveLength(20)
  expect(globSync('examples/eval/*.jsonl')).toHaveLength(3)
})
