import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { topicSpec } from '../../src/broker/topics.ts'
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

test('the page lists every key of a flow', () => {
  const keys = tableOf('Keys of a flow').flatMap(({ names }) => names)
  expect(keys.sort()).toEqual([...flowOptions, 'topics', 'wire', 'trustgraph'].sort())
})

test('the page lists every topic that a flow can configure, with its partitions', () => {
  const rows = tableOf('Topics').flatMap(({ names, second }) => names.map((name) => [name, Number(second)]))
  const place = { space: 'gm', workspace: 'w', flow: 'f' }
  const made = inputPorts.map((port) => [port, topicSpec(inputTopic(port, place, 'x')).partitions])
  expect(Object.fromEntries(rows)).toEqual(Object.fromEntries(made))
  expect(rows).toHaveLength(made.length)
})
