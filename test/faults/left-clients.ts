// Clients that have left: their requests are dead letters before the model is asked, on any broker, and neither the flow nor
// the clients beside them notice.
import { expect } from 'vitest'
import type { Broker, ReadMessage } from '../../src/broker/broker.ts'
import { deadTopic, topicName } from '../../src/broker/topics.ts'
import { PromptClient } from '../../src/flow/prompt-client.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { openExecution, type Site } from './execution.ts'

/** The reply of the model: one definition. */
export const rules = [{ reply: '{"entity":"mill","definition":"a machine"}\n' }]

export const request = {
  promptId: 'extract-definitions',
  terms: { text: '"A mill is a machine."' },
  streaming: true,
  context: {},
}

/** `clients` that have left, with `each` requests of each; ten requests of a client that has not are answered meanwhile. */
export async function leftClients(
  site: Site,
  { clients, each }: { readonly clients: number; readonly each: number },
): Promise<void> {
  await using llm = await startLlmServer({ rules })
  const space = `left-${clients}`
  const execution = await openExecution(site, { space, llmUrl: llm.url })
  try {
    const { runtime } = await execution.startRuntime({ only: ['prompt'] })
    let ended: unknown
    runtime.done.catch((error) => {
      ended = error
    })
    const client = await PromptClient.connect({ broker: execution.broker, space, lane: 'prompt' })
    const ask = async (text: string) => {
      for await (const part of client.ask('extract-definitions', { text }, { timeoutMs: 60_000 }))
        expect(JSON.parse(part.object ?? '[]')).toHaveLength(1)
    }
    await ask('Before.')
    const place = { space, workspace: 'default', flow: 'default' }
    const begun = performance.now()
    const sent = Array.from({ length: clients * each }, (_, n) => {
      const receiver = `client-left-${n % clients}`
      const replyTo = topicName({ ...place, class: 'response', role: 'prompt', receiver })
      return execution.send('prompt', request, { replyTo, documentId: `urn:test:left-${n % 10}` })
    })
    const asked = Array.from({ length: 10 }, (_, n) => ask(`Beside them: ${n}.`))
    const ids = await Promise.all(sent)
    await Promise.all(asked)
    const answered = performance.now() - begun
    const letters = await lettersOf(execution.broker, execution.topic('prompt'), ids.length)
    const over = performance.now() - begun
    process.stderr.write(
      `${ids.length} requests of ${clients} clients: ten others answered in ${Math.round(answered)} ms, all dead in ${Math.round(over)} ms\n`,
    )
    expect(ended).toBeUndefined()
    expect(letters.map(({ headers }) => headers['dead-code'])).toEqual(ids.map(() => 'reply_topic_missing'))
    expect(new Set(letters.map(({ headers }) => headers['id']))).toEqual(new Set(ids))
    expect(llm.counts.calls).toBe(11)
    expect(over).toBeLessThan(60_000)
    await client.close()
  } finally {
    await execution.close()
  }
}

/** The first `count` dead letters of a topic. */
export async function lettersOf(broker: Broker, topic: string, count: number): Promise<ReadMessage[]> {
  const dead = deadTopic(topic)
  const signal = AbortSignal.timeout(120_000)
  await expect.poll(() => broker.listTopics(dead), { timeout: 60_000, interval: 300 }).toHaveLength(1)
  const letters: ReadMessage[] = []
  for await (const letter of broker.read({ topic: dead, from: 'earliest', until: 'never' }, signal)) {
    letters.push(letter)
    if (letters.length === count) break
  }
  return letters
}
