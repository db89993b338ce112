// The key of contexts is turned on under load, in the documented order, on real Kafka: nothing is lost on the way, and after it
// no request can speak for an extractor.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { extractors, openExecution, undisturbed } from './execution.ts'
import { expectAll } from './expect-all.ts'
import { lettersOf, request } from './left-clients.ts'

const present = (await brokerSource('context keys, on Kafka', ['jars'])) !== undefined
const names = ['chunk-text', 'prompt', 'emit-triples', 'store-triples', ...extractors]

describe.skipIf(!present)('a key of contexts, on Kafka', { timeout: 300_000 }, () => {
  let server: KafkaServer
  let folder: string
  beforeAll(async () => {
    server = await startKafka()
    folder = await mkdtemp(join(tmpdir(), 'graphmill-key-'))
  }, 120_000)
  afterAll(async () => {
    await server?.stop()
    await rm(folder, { recursive: true })
  }, 120_000)

  test('is turned on replica by replica in mid-work without a loss, and then no client can reply in the name of an extractor', async () => {
    await using llm = await startLlmServer({ latencyMs: 100 })
    const expected = await undisturbed(llm.url)
    const site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
    const execution = await openExecution(site, { space: 'key', llmUrl: llm.url })
    const key = randomBytes(24).toString('base64')
    const file = join(folder, 'key')
    await writeFile(file, `${key},unsigned\n`)
    try {
      const without = await execution.startProcess(names)
      await execution.load()
      await execution.until(({ units }) => units.done >= 50)
      const keyed = await execution.startProcess(names, ['--context-key-file', file])
      await without.end('SIGTERM')
      await execution.until(({ state }) => state === 'done')
      await expectAll(execution, expected)
      // The file changes under the running process: from now on a context without a signature counts no more.
      await writeFile(file, `${key}\n`)
      const inbox = execution.topic('prompt-reply', 'extract-definitions')
      const forge = () =>
        execution.send(
          'prompt',
          { ...request, context: { unit: 'extract-definitions' } },
          { replyTo: inbox, documentId: execution.documentId(), chunkId: `${execution.documentId()}/0/0` },
        )
      const id = await forge()
      const [letter] = await lettersOf(execution.broker, inbox, 1)
      expect(letter!.headers).toMatchObject({ correlationId: id, 'dead-code': 'context_unsigned' })
      await expectAll(execution, expected)
      await keyed.end('SIGTERM')
    } finally {
      await execution.close()
    }
  })
})
