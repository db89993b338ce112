// What a flow asks of its broker before it starts, and what its processors may read.
import { expect, test } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { schemasTopic } from '../../src/broker/topics.ts'
import { defineProcessor } from '../../src/flow/processor.ts'
import { run, topicsOf } from '../../src/flow/run.ts'
import { noLlm, refusing, scope, settings, startFlow } from '../support/flow.ts'

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

test('a processor reads no topic that it does not declare: its permissions follow from what it declares', async () => {
  const errors: unknown[] = []
  const curious = defineProcessor({
    name: 'curious',
    inputs: ['chunk'],
    outputs: ['status', 'retractions', 'topics'],
    reads: ['status'],
    async *handle(_message, { read }) {
      for await (const _ of read('status', {}));
      try {
        for await (const _ of read('retractions', {}));
      } catch (thrown) {
        errors.push((thrown as Error).message)
      }
      yield { to: 'topics', payload: { run: { id: 'r', startedAt: 1 }, facts: [] } }
    },
  })
  const flow = await startFlow([curious])
  await flow.send('chunk', { part: 0, index: 0, offset: 0, text: 't' })
  await flow.first(flow.topic('topics'), 1)
  expect(errors).toEqual(['The processor curious does not declare that it reads retractions.'])
  await flow.stop()
})
