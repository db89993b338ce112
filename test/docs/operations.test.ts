import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { processors } from '../../processors/index.ts'
import { readConfig } from '../../src/config/config.ts'
import { readFlows } from '../../src/config/flows.ts'
import { optionTable } from '../../src/config/options.ts'
import { topicsOf } from '../../src/flow/run.ts'

const page = readFileSync('docs/operations.md', 'utf8')

test('the arithmetic of topics and partitions is that of the default flow', () => {
  const names: readonly string[] = optionTable.extractors.default.map((name) => `extract-${name}`)
  const served = processors.filter(({ name }) => !name.startsWith('extract-') || names.includes(name))
  const topics = topicsOf(served, { space: 'gm', workspace: 'default', flow: 'default' })
  const partitions = topics.reduce((sum, topic) => sum + topic.partitions, 0)
  expect(page).toContain(`has ${topics.length} topics with ${partitions} partitions`)
  const rows = [...page.matchAll(/^\| [^|]+ \| (\d+) \| (\d+) \| (\d+) \|$/gm)].map((row) =>
    row.slice(1).map(Number),
  )
  expect(rows.map(([number = 0, each = 0]) => number * each)).toEqual(rows.map(([, , all]) => all))
  const sum = (column: number) => rows.reduce((total, row) => total + row[column]!, 0)
  expect([sum(0), sum(2)]).toEqual([topics.length, partitions])
})

test('the flows file of the page is one', () => {
  const [, text = ''] = /```yaml\n(flows:.*?)```/s.exec(page) ?? []
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
  try {
    writeFileSync(join(folder, 'flows.yaml'), text)
    const flows = readFlows(join(folder, 'flows.yaml'), readConfig({ flags: {}, environment: {} }), {})
    expect(flows.map(({ options }) => `${options.workspace}/${options.flow}`)).toEqual([
      'acme/papers',
      'acme/contracts',
      'beta/default',
    ])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('options that the page names are there', () => {
  const flags = new Set([...page.matchAll(/`--([a-z-]+)[ `]/g)].map(([, name]) => name!))
  const other = ['all', 'id', 'size', 'time']
  expect([...flags].filter((name) => !(name in optionTable) && !other.includes(name))).toEqual([])
})
