import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { topicSpec } from '../../src/broker/topics.ts'
import { flowsOf } from '../../src/cli/flows.ts'
import { readConfig } from '../../src/config/config.ts'
import { flowOptions } from '../../src/config/flows.ts'
import { inputPorts, inputTopic } from '../../src/flow/ports.ts'

const page = readFileSync('docs/flows.md', 'utf8')
const namesIn = (text: string) => [...text.matchAll(/`([a-z-]+)`/g)].map(([, name]) => name!)
/** The rows of the table under a heading: the names in the first column, and the second column. */
const tableOf = (heading: string) => {
  const [, section = ''] = new RegExp(`^## ${heading}$(.*?)(?=^## |$(?![^]))`, 'ms').exec(page) ?? []
  const rows = [...section.matchAll(/^\| (`[^|]+) \| ([^|]*) \|/gm)]
  return rows.map(([, first = '', second = '']) => ({ names: namesIn(first), second }))
}

test('the flows file of the page is one', () => {
  const [, text = ''] = /```yaml\n(flows:.*?)```/s.exec(page) ?? []
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
  try {
    const flows = join(folder, 'flows.yaml')
    writeFileSync(flows, text)
    const read = flowsOf(readConfig({ flags: { flows }, environment: {} }))
    expect(read.map(({ options }) => `${options.workspace}/${options.flow}`)).toEqual([
      'acme/papers',
      'acme/contracts',
      'beta/default',
    ])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('the page lists every key of a flow', () => {
  const keys = tableOf('What a flow may say').flatMap(({ names }) => names)
  expect(keys.sort()).toEqual([...flowOptions, 'topics'].sort())
})

test('the page lists every topic that a flow may say something of, with its partitions', () => {
  const rows = tableOf('Topics').flatMap(({ names, second }) => names.map((name) => [name, Number(second)]))
  const place = { space: 'gm', workspace: 'w', flow: 'f' }
  const made = inputPorts.map((port) => [port, topicSpec(inputTopic(port, place, 'x')).partitions])
  expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(made))
  expect(rows).toHaveLength(made.length)
})
