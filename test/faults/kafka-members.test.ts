// Members come and go, and handlers are slow and busy, on real Kafka: nothing is lost, left unread, or taken from its handler.

import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { emitTriples } from '../../processors/emit-triples.ts'
import { extractTopics } from '../../processors/extract-topics.ts'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import type { MessageOf } from '../../src/flow/ports.ts'
import type { AnyProcessor, Context } from '../../src/flow/processor.ts'
import { definitionTriples } from '../../src/rdf/facts.ts'
import { brokerSource } from '../support/brokers.ts'
import { bookOf, difference, same, textOfTriple } from '../support/graph.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { extractionReply, guessExtraction } from '../support/llm-extraction.ts'
import { chunkOf, type Reply } from '../support/llm-script.ts'
import { startLlmServer } from '../support/llm-server.ts'
import {
  extractors,
  type Outcome,
  openExecution,
  type RunningRuntime,
  type Site,
  undisturbed,
  units,
} from './execution.ts'
import { expectAll } from './expect-all.ts'

const present = (await brokerSource('members that come and go, on Kafka', ['jars'])) !== undefined

/** Resolves when `condition` holds: handlers report nothing. */
async function eventually(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 50))
}

const taken = ({ work }: RunningRuntime, name: string) => work.get(name)?.taken ?? 0

describe.skipIf(!present).concurrent('members that come and go, on Kafka', { timeout: 180_000 }, () => {
  let server: KafkaServer
  let site: Site
  let expected: Outcome

  beforeAll(async () => {
    server = await startKafka()
    site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
    await using llm = await startLlmServer()
    expected = await undisturbed(llm.url)
  })
  afterAll(() => server?.stop())

  test('a second member joins and leaves every group in mid-run', async () => {
    await using llm = await startLlmServer({ latencyMs: 1500 })
    const execution = await openExecution(site, { space: 'second-member', llmUrl: llm.url })
    await execution.startRuntime()
    await execution.load()
    await execution.until(({ units }) => units.done >= 50)
    const second = await execution.startRuntime()
    // The document was cut long ago: those who cut have more to do, of which nothing new comes.
    const [text, about] = [
      bookOf(1),
      { title: 'again', uri: '', mediaType: 'text/plain', part: 0, offset: 0 },
    ]
    const sharing = ['chunk-text', 'prompt', ...extractors, 'emit-triples', 'store-triples', 'ledger']
    for (let number = 0; sharing.some((name) => taken(second, name) === 0); number++) {
      await execution.send('document', { ...about, text }, { documentId: `urn:test:again-${number}` })
      await delay(200)
    }
    const { units: then } = await execution.until(() => true)
    expect(then.done).toBeLessThan(units)
    await second.stop()
    await expectAll(execution, expected)
    await execution.close()
  })

  test('a handler awaits for 90 s and another keeps the loop busy for 20 s: no member is evicted', async () => {
    const slowCalls = 3
    const reply = ({ prompt, number }: { prompt: string; number: number }): Reply => {
      const chunk = chunkOf(prompt)
      const text = extractionReply(guessExtraction(prompt.replace(chunk, ''))!, chunk)
      return { text, latencyMs: number <= slowCalls ? 90_000 : 0 }
    }
    let awaited = 0
    const slow: AnyProcessor = {
      ...extractTopics,
      async *handle(message: MessageOf<'chunk' | 'prompt-reply'>, context: Context) {
        if (message.type === 'PromptResponse' && awaited++ === 0) await delay(90_000)
        yield* extractTopics.handle(message, context)
      },
    }
    let worked = 0
    const busy: AnyProcessor = {
      ...emitTriples,
      async *handle(message: MessageOf<'definitions'>, context: Context) {
        const end = performance.now() + (worked++ === 100 ? 20_000 : 0)
        while (performance.now() < end);
        yield* emitTriples.handle(message, context)
      },
    }
    await using llm = await startLlmServer({ rules: [{ reply }] })
    const execution = await openExecution(site, { space: 'slow-and-busy', llmUrl: llm.url })
    const { work } = await execution.startRuntime({ instead: [slow, busy] })
    await execution.load()
    await expectAll(execution, expected)
    expect(awaited).toBeGreaterThan(0)
    expect(worked).toBeGreaterThan(100)
    expect([...work].filter(([, { lost }]) => lost > 0)).toEqual([])
    expect(llm.counts.calls).toBe(units)
    await execution.close()
  })

  test('a full partition that was lost and won back is read to its end', async () => {
    const gate = Promise.withResolvers<void>()
    const gated: AnyProcessor = {
      ...emitTriples,
      async *handle(message: MessageOf<'definitions'>, context: Context) {
        const gone = new Promise<never>((_, reject) => {
          context.signal.addEventListener('abort', () => reject(context.signal.reason))
        })
        await Promise.race([gate.promise, gone])
        yield* emitTriples.handle(message, context)
      },
    }
    await using llm = await startLlmServer()
    const execution = await openExecution(site, { space: 'full-partition', llmUrl: llm.url })
    const first = await execution.startRuntime({ only: ['emit-triples', 'store-triples'], instead: [gated] })
    // More than a member holds of a partition, in each of three.
    const facts = Array.from({ length: 20_000 }, (_, number) => ({
      entity: `Mill ${number}`,
      definition: `The mill of number ${number}, which stands by the river with the others of its kind.`,
    }))
    const run = { id: 'run', startedAt: 0 }
    await Promise.all(facts.map((fact) => execution.send('definitions', { run, facts: [fact] })))
    await eventually(() => taken(first, 'emit-triples') > 0)
    const second = await execution.startRuntime({ only: ['emit-triples'], instead: [gated] })
    await eventually(() => taken(second, 'emit-triples') > 0)
    await second.stop(0)
    gate.resolve()
    await execution.settled()
    const triples = new Set(facts.flatMap((fact) => definitionTriples(fact).triples.map(textOfTriple)))
    expect(difference(await execution.graph(), triples)).toEqual(same)
    await execution.close()
  })
})
