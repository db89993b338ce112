import { expect, test } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { topicSpec } from '../../src/broker/topics.ts'
import { readToEnd } from '../../src/cli/read-to-end.ts'

const topic = 'gm.flow.rejected.default.default'

async function filled() {
  const broker = createMemoryCluster().connect()
  await broker.ensureTopics([{ ...topicSpec(topic), partitions: 1 }])
  for (const text of ['one', 'two', 'three'])
    await broker.publish({ topic, key: 'k', value: Buffer.from(text), headers: {} })
  return broker
}

test('returns everything on a topic, and ends', async () => {
  const broker = await filled()
  const texts = []
  for await (const { value } of readToEnd(broker, topic, new AbortController().signal))
    texts.push(Buffer.from(value).toString())
  expect(texts).toEqual(['one', 'two', 'three'])
})

test('throws if it is stopped before the end', async () => {
  const broker = await filled()
  const stop = new AbortController()
  const read = async () => {
    for await (const _ of readToEnd(broker, topic, stop.signal)) stop.abort(new Error('enough'))
  }
  await expect(read()).rejects.toThrow('enough')
})
