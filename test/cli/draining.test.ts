// A `graphmill run` that is stopped while slow connections fill its HTTP server and a model has not answered yet, on a real Kafka.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { freePorts } from '../support/ports.ts'
import { startGraphmill } from '../support/processes.ts'
import { openSlowConnections } from '../support/slow-connections.ts'

const present = (await brokerSource('a process that drains', ['jars'])) !== undefined

describe.skipIf(!present)('a process that drains', { timeout: 180_000 }, () => {
  let kafka: KafkaServer
  beforeAll(async () => {
    kafka = await startKafka()
  })
  afterAll(async () => kafka?.stop())

  test('finishes its work, answers probes and ends at once despite many slow connections', async () => {
    const answer = Promise.withResolvers<string>()
    const asked = Promise.withResolvers<void>()
    await using llm = await startLlmServer({
      rules: [
        {
          reply() {
            asked.resolve()
            return answer.promise
          },
        },
      ],
    })
    const [port = 0] = await freePorts(1)
    const broker = ['--broker', `kafka://${kafka.bootstrap.join(',')}`]
    const runtime = startGraphmill(
      ['run', 'prompt', ...broker, '--http', `127.0.0.1:${port}`, '--no-cache'],
      {
        OPENAI_BASE_URL: llm.url,
        GRAPHMILL_MODEL: 'test-model',
      },
    )
    await runtime.says('"msg":"running"')
    const client = startGraphmill(['prompt', 'extract-topics', '--term', 'text="Mills grind."', ...broker])
    await asked.promise

    const slow = openSlowConnections(port, '/status.json')
    const probe = () => fetch(`http://127.0.0.1:${port}/readyz`).then(({ status }) => status)
    try {
      // The server keeps 512 at a time.
      await expect.poll(() => slow.closed, { timeout: 60_000 }).toBeGreaterThan(200)
      expect(await probe()).toBe(200)
      const ended = runtime.end('SIGTERM')
      await runtime.says('"msg":"stopping"')
      expect(await probe()).toBe(503)
      answer.resolve('{"topic":"mills","definition":"machines"}\n')
      // The grace period is two minutes: it ends by its own, and not by that.
      expect(await ended).toEqual({ code: 0, signal: null })
    } finally {
      slow.stop()
      await runtime.end('SIGKILL')
    }
    expect(runtime.stderr()).toContain('"msg":"stopped"')
    expect(runtime.stderr()).not.toContain('the process ends before everything was finished')
    expect((await client.ended).code).toBe(0)
    expect(client.stdout()).toContain('"mills"')
  })
})
