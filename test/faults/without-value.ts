// A message without a value on `document`, from a producer that is not ours, removes the document with its key.
import { expect } from 'vitest'
import { createCodec } from '../../src/messages/codec.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { openExecution, type Site } from './execution.ts'

export async function removalWithoutValue(
  site: Site,
  send: (topic: string, key: string) => Promise<unknown>,
): Promise<void> {
  const execution = await openExecution(site, { space: 'without-value', llmUrl: 'http://127.0.0.1:9' })
  try {
    await execution.startRuntime({ only: ['chunk-text'] })
    const header = { documentId: 'urn:doc', chunkId: '', version: 'v', versionTime: 1 }
    await execution.send('document', { title: '', text: 'Some text.', last: true }, header)
    await send(execution.topic('document'), 'urn:doc')
    const range = { topic: execution.topic('progress'), from: 'earliest', until: 'never' } as const
    const codec = createCodec(loadSchemas())
    const kinds: string[] = []
    for await (const { value, headers } of execution.broker.read(range, AbortSignal.timeout(60_000))) {
      const { documentId, versionTime, payload } = codec.decode(value, headers) as Message<'Progress'>
      kinds.push(`${documentId} ${payload.kind}`)
      if (payload.kind !== 'removed') continue
      expect(versionTime).toBeGreaterThan(1)
      break
    }
    expect(kinds).toEqual(['urn:doc part', 'urn:doc removed'])
  } finally {
    await execution.close()
  }
}
