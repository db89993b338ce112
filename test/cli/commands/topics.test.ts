// `graphmill topics lag`: the groups that the flow uses, on the memory broker.
import { expect, test } from 'vitest'
import { loadProcessors } from '../../../processors/modules.ts'
import { createMemoryCluster } from '../../../src/broker/memory/memory.ts'
import { lag } from '../../../src/cli/commands/topics.ts'
import { readConfig } from '../../../src/config/config.ts'
import { groupsOf, topicsOf } from '../../../src/flow/run.ts'

const place = { space: 'gm', workspace: 'default', flow: 'default' }

const rowsWith = async (flags: Record<string, unknown>, member?: string) => {
  const broker = createMemoryCluster().connect()
  const processors = await loadProcessors()
  await broker.ensureTopics(topicsOf(processors, place))
  const stop = new AbortController()
  const group = groupsOf(processors, place).find((each) => each.group.includes(`.${member}.`))
  const reading =
    group && broker.consume({ ...group, maxInFlight: 1, ordering: 'none', from: 'earliest' }, stop.signal)
  const first = reading?.[Symbol.asyncIterator]().next()
  try {
    return await lag(broker, readConfig({ flags, environment: {} }))
  } finally {
    stop.abort()
    await first
    await broker.close()
  }
}
const extractorsIn = (rows: Awaited<ReturnType<typeof lag>>) =>
  [...new Set(rows.flatMap(({ group }) => /extract-[a-z-]+/.exec(String(group))?.[0] ?? []))].sort()

test('groups of extractors that the flow does not use are hidden', async () => {
  const standard = await rowsWith({})
  expect(extractorsIn(standard)).toEqual(['extract-definitions', 'extract-relationships', 'extract-topics'])
  expect(standard.map(({ group }) => group)).toContainEqual(expect.stringContaining('store-triples'))
  const only = await rowsWith({ extractors: ['agent-kg'] })
  expect(extractorsIn(only)).toEqual(['extract-agent-kg'])
})

test('store-rows has a group only where rows are extracted and a folder is named for them', async () => {
  const groupsWith = async (flags: Record<string, unknown>) =>
    (await rowsWith(flags)).filter(({ group }) => String(group).includes('store-rows')).length
  expect(await groupsWith({})).toBe(0)
  expect(await groupsWith({ rows: 'rows' })).toBe(0)
  expect(await groupsWith({ schemas: ['mill.yaml'] })).toBe(0)
  expect(await groupsWith({ schemas: ['mill.yaml'], rows: 'rows' })).toBe(1)
})

test('a group that has members is shown, whatever the options say', async () => {
  const rows = await rowsWith({}, 'extract-agent-kg')
  expect(extractorsIn(rows)).toContain('extract-agent-kg')
  expect(rows.filter(({ group }) => String(group).includes('agent-kg'))).toHaveLength(1)
})
