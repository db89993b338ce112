import { expect, test } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { topicSpec } from '../../src/broker/topics.ts'
import { requireFlow } from '../../src/cli/require-flow.ts'

const brokerWith = async (...names: string[]) => {
  const broker = createMemoryCluster().connect()
  await broker.ensureTopics(names.map((name) => topicSpec(name)))
  return broker
}
const place = { space: 'gm', workspace: 'default', flow: 'default' }

test('a flow with at least one topic is known, one of another space is not', async () => {
  const broker = await brokerWith('gm.response.prompt.me.default.default', 'gn.flow.chunk.w.f')
  await requireFlow(broker, place)
  await expect(requireFlow(broker, { space: 'gm', workspace: 'w', flow: 'f' })).rejects.toMatchObject({
    code: 'flow_unknown',
    message: 'The broker has no topic of the flow w/f in the space gm. There is: default/default.',
  })
})

test('a typo gets a suggestion', async () => {
  const broker = await brokerWith('gm.flow.chunk.default.default', 'gm.flow.chunk.acme.papers')
  await expect(requireFlow(broker, { ...place, flow: 'defualt' })).rejects.toThrow(
    /default\/defualt .* Did you mean default\/default\?$/,
  )
  await expect(requireFlow(broker, { ...place, workspace: 'acm', flow: 'papers' })).rejects.toThrow(
    /Did you mean acme\/papers\?$/,
  )
})

test('a broker without topics knows no flow', async () => {
  await expect(requireFlow(await brokerWith('gm.notify.schemas'), place)).rejects.toThrow(
    /^The broker has no topic of the flow default\/default in the space gm\.$/,
  )
})
