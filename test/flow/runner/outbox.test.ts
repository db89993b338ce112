import { expect, test } from 'vitest'
import { createMemoryCluster } from '../../../src/broker/memory/memory.ts'
import { GraphmillError } from '../../../src/errors.ts'
import { systemClock } from '../../../src/flow/clock.ts'
import { createContextSigner } from '../../../src/flow/context-signature.ts'
import { createCircuits } from '../../../src/flow/runner/circuits.ts'
import { createOutbox } from '../../../src/flow/runner/outbox.ts'
import { createCodec } from '../../../src/messages/codec.ts'
import { emptyHeader } from '../../../src/messages/envelope.ts'
import { loadSchemas } from '../../../src/messages/registry.ts'

test('the missing topic of one output is not reported as that of another, which waits for its own', async () => {
  const broker = createMemoryCluster().connect()
  const abort = new AbortController()
  const failures: [topic: string, code: string][] = []
  broker.publish = async ({ topic }) => {
    throw new GraphmillError(topic.includes('chunk') ? 'topic_missing' : 'broker_unavailable', topic)
  }
  const outbox = createOutbox(
    {
      broker,
      codec: createCodec(loadSchemas()),
      circuits: createCircuits({ now: () => 0, random: () => 1 }),
      clock: systemClock,
      space: 'gm',
      signer: createContextSigner(),
    },
    {
      cause: { ...emptyHeader, id: 'cause', source: 's', time: 1, workspace: 'w', flow: 'f' },
      source: 'p',
      signal: abort.signal,
      onFailure(thrown, topic) {
        failures.push([topic, (thrown as GraphmillError).code])
        return thrown
      },
      onStored() {},
    },
  )
  const waiting = outbox.put({ to: 'triples', payload: { triples: [] } })
  const failed = outbox.put({ to: 'chunk', payload: { text: 'mills' } })
  const gone = await failed.catch((thrown: unknown) => thrown)
  abort.abort(gone)
  await expect(waiting).rejects.toBe(gone)
  expect(failures).toEqual([[expect.stringContaining('chunk'), 'topic_missing']])
})
