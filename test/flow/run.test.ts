// What a flow asks of its broker before it starts.
import { expect, test } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { schemasTopic } from '../../src/broker/topics.ts'
import { run, topicsOf } from '../../src/flow/run.ts'
import { noLlm, refusing, scope, settings } from '../support/flow.ts'

test('all topics are asked for at once, so that a broker that cannot create them names every missing one', async () => {
  const asked: string[][] = []
  const broker = {
    ...createMemoryCluster().connect(),
    async ensureTopics(topics: readonly { readonly name: string }[]) {
      asked.push(topics.map(({ name }) => name).sort())
      throw new Error('none of them exists')
    },
  }
  const processors = [refusing()]
  const store = { write: async () => {}, ready: async () => {} }
  const started = run(
    { broker, flows: [{ ...scope, settings }], processors, llm: noLlm, store: store as never },
    new AbortController().signal,
  )
  await expect(started).rejects.toThrow('none of them exists')
  const flowTopics = topicsOf(processors, { ...scope, space: 'gm' }).map(({ name }) => name)
  expect(asked).toEqual([[...flowTopics, schemasTopic('gm')].sort()])
})
