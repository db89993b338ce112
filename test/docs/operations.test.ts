import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { processors } from '../../processors/index.ts'
import { optionTable } from '../../src/config/options.ts'
import type { TopicSettings } from '../../src/flow/ports.ts'
import { topicsOf } from '../../src/flow/run.ts'

const page = readFileSync('docs/operations.md', 'utf8')

/** The processors of a flow with these extractors: rows are stored only where they are extracted. */
const servingWith = (extractors: readonly string[]) =>
  processors.filter(({ name }) =>
    name === 'store-rows'
      ? extractors.includes('extract-rows')
      : !name.startsWith('extract-') || extractors.includes(name),
  )

test('the numbers of topics and partitions are those of the default flow', () => {
  const names: readonly string[] = optionTable.extractors.default.map((name) => `extract-${name}`)
  const served = servingWith(names)
  const topics = topicsOf(served, { space: 'gm', workspace: 'default', flow: 'default' })
  const partitions = topics.reduce((sum, topic) => sum + topic.partitions, 0)
  expect(page).toContain(`has ${topics.length} topics with ${partitions} partitions`)
  const table = page.slice(page.indexOf('| topics |')).split('\n\n', 1)[0]!
  const rows = [...table.matchAll(/^\| [^|]+ \| (\d+) \| (\d+) \| (\d+) \|$/gm)].map((row) =>
    row.slice(1).map(Number),
  )
  expect(rows.map(([number = 0, each = 0]) => number * each)).toEqual(rows.map(([, , all]) => all))
  const sum = (column: number) => rows.reduce((total, row) => total + row[column]!, 0)
  expect([sum(0), sum(2)]).toEqual([topics.length, partitions])
})

test('the numbers for other extractors, and for one partition, are right', () => {
  const countsOf = (extractors: readonly string[], settings: TopicSettings = {}) => {
    const named = servingWith(extractors)
    const topics = topicsOf(named, { space: 'gm', workspace: 'default', flow: 'default', topics: settings })
    return [topics.length, topics.reduce((sum, topic) => sum + topic.partitions, 0)]
  }
  const all = processors.map(({ name }) => name).filter((name) => name.startsWith('extract-'))
  const formula = ([topics = 0, each = 0]: number[], names: readonly string[]) => {
    const rows = names.includes('extract-rows') ? 1 : 0
    return [topics + names.length + rows, each + 12 * names.length + 3 * rows]
  }
  const base = /has (\d+) \+ E topics with (\d+) \+ 12 × E partitions/.exec(page)!.slice(1).map(Number)
  for (let count = 0; count <= all.length; count++)
    expect(countsOf(all.slice(0, count))).toEqual(formula(base, all.slice(0, count)))
  const [topics, partitions] = countsOf(all)
  expect(page).toContain(`all six it is ${topics} topics with ${partitions} partitions`)
  const usual = optionTable.extractors.default.map((name) => `extract-${name}`)
  expect(page).toContain(`have ${(100 * countsOf(usual)[1]!).toLocaleString('en')}.`)
  const one = { partitions: 1 }
  const small = { chunk: one, prompt: one, 'prompt-live': one, 'prompt-reply': one }
  expect(page).toContain(`the default flow has ${countsOf(usual, small)[1]}.`)
})

test('the deployments give a stopping process more time than its messages in flight need', () => {
  const longest = optionTable['llm-timeout'].default + 15
  expect(page).toContain(`\`--llm-timeout\` (${optionTable['llm-timeout'].default} s) and 15 s`)
  const compose = readFileSync('docker-compose.yml', 'utf8')
  const periods = [...compose.matchAll(/stop_grace_period: (\d+)/g)]
  expect(periods).toHaveLength(1)
  for (const [line, seconds] of periods) expect(Number(seconds), line).toBeGreaterThan(longest)
})

test('the options that the page names exist', () => {
  const flags = new Set([...page.matchAll(/`--([a-z-]+)[ `]/g)].map(([, name]) => name!))
  const other = ['all', 'id', 'size', 'time', 'watch']
  expect([...flags].filter((name) => !(name in optionTable) && !other.includes(name))).toEqual([])
})

test('SECURITY.md says what every processor trusts, and docs/permissions.md what it may do', () => {
  const security = readFileSync('SECURITY.md', 'utf8')
  const permissions = readFileSync('docs/permissions.md', 'utf8')
  for (const { name } of processors) {
    expect(security).toMatch(new RegExp(`^\\| .*\`${name}\``, 'm'))
    expect(permissions).toContain(`\n| ${name} | `)
  }
  expect(security).not.toMatch(/\S+@\S+\.\w/)
})
