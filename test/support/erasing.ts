// A flow in which a document with a word of its own has left that word everywhere: in topics, dead letters, replies and statuses.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { chunkText } from '../../processors/chunk-text.ts'
import { emitTriples } from '../../processors/emit-triples.ts'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { ledger } from '../../processors/ledger.ts'
import { prompt } from '../../processors/prompt.ts'
import type { Broker } from '../../src/broker/broker.ts'
import { topicSpec } from '../../src/broker/topics.ts'
import { GraphmillError } from '../../src/errors.ts'
import { systemClock, uuids } from '../../src/flow/clock.ts'
import { type ErasureOptions, eraseDocuments } from '../../src/flow/erasure.ts'
import { defineProcessor } from '../../src/flow/processor.ts'
import { groupsOf } from '../../src/flow/run.ts'
import { createCircuits } from '../../src/flow/runner/circuits.ts'
import { openCache } from '../../src/llm/cache/reply-cache.ts'
import { scope, settings, startFlow, type TestFlow } from './flow.ts'
import { scriptedLlm } from './scripted-llm.ts'

/** The word, which stands in the document `hr/42` and its title. */
export const marker = 'Zephyrine'

/** Refuses chunks about people, so that they are dead letters. */
const squeamish = defineProcessor({
  name: 'squeamish',
  inputs: ['chunk'],
  outputs: [],
  // biome-ignore lint/correctness/useYield: it publishes nothing
  async *handle({ payload }) {
    if (payload.text.includes('Person')) throw new GraphmillError('message_invalid', 'not about people')
  },
})

const processors = [chunkText, prompt, extractDefinitions, squeamish, emitTriples, ledger]
const texts = {
  'hr/42': [`Curriculum of ${marker}`, `Person ${marker} mills.`],
  'hr/43': ['Curriculum of Ada', 'Person Ada counts.'],
  mill: ['On mills', 'A mill grinds.'],
} as const

export interface Erasing {
  readonly flow: TestFlow
  /** Everything that was logged. */
  readonly log: () => string
  load(documentId: keyof typeof texts, versionTime: number): Promise<void>
  erase(more?: Partial<ErasureOptions>, signal?: AbortSignal): ReturnType<typeof eraseDocuments>
  /** Resolves when every group has settled everything. */
  settled(): Promise<void>
  /** The places in which the word stands. */
  found(): Promise<string[]>
  stop(): Promise<void>
}

export async function startErasing(broker: Broker, cacheDir: string): Promise<Erasing> {
  let log = ''
  const stream = new Writable({
    write(line, _, done) {
      log += line
      done()
    },
  })
  const cache = openCache({ dir: cacheDir })
  const llm = scriptedLlm(({ messages }) => {
    const entity = JSON.stringify(messages).includes(marker) ? marker : 'Ada'
    return `{"type":"definition","entity":"${entity}","definition":"${entity} is a person of the mill."}\n{"odd":"${entity}"}`
  })
  const flow = await startFlow(processors, {
    cluster: { connect: () => broker } as never,
    flows: [{ ...scope, settings: { ...settings, extractors: ['extract-definitions'] } }],
    ...{ llm, replies: cache, log: pino({ level: 'info' }, stream), ids: uuids, clock: systemClock },
  })
  const groups = groupsOf(processors, { space: 'gm', ...scope })
  const settled = async () => {
    for (let quiet = 0; quiet < 2; ) {
      const lags = await Promise.all(groups.map(({ group, topic }) => broker.lag(group, topic)))
      quiet = lags.every(({ total }) => total === 0) ? quiet + 1 : 0
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  const topics = async () => (await broker.listTopics('gm.')).map(({ name }) => name)
  return {
    flow,
    log: () => log,
    settled,
    async load(documentId, versionTime) {
      const [title, text] = texts[documentId]
      const header = { documentId, chunkId: '', version: `v${versionTime}`, versionTime }
      await flow.send('progress', { kind: 'loading', title }, header)
      const payload = { title, uri: '', mediaType: 'text/plain', part: 0, offset: 0, text, last: true }
      await flow.send('document', payload, header)
      await flow.send('progress', { kind: 'document', parts: 1, title }, header)
    },
    erase: (more = {}, signal = AbortSignal.timeout(60_000)) =>
      eraseDocuments(
        [{ documentId: 'hr/42', newestTime: 1 }],
        {
          ...{ broker, codec: flow.codec, circuits: createCircuits(), clock: systemClock, ids: uuids },
          ...{
            space: 'gm',
            scope,
            source: 'erase',
            by: 'the test',
            groups,
            timeoutMs: 50_000,
            withOthers: true,
          },
          ...more,
        },
        signal,
      ),
    async found() {
      const places = log.includes(marker) ? ['log'] : []
      for (const topic of await topics()) {
        const newest = new Map<string, string>()
        for await (const entry of broker.read(
          { topic, from: 'earliest', until: 'end' },
          new AbortController().signal,
        )) {
          const { key, headers, value, position } = entry
          const text = `${key} ${JSON.stringify(headers)} ${Buffer.from(value).toString('latin1')}`
          newest.set(topicSpec(topic).compacted ? key : `${entry.partition} ${position}`, text)
        }
        if ([...newest.values()].some((text) => text.includes(marker))) places.push(topic)
      }
      for (const file of await readdir(cacheDir, { recursive: true, withFileTypes: true }))
        if (file.isFile() && (await readFile(join(file.parentPath, file.name), 'latin1')).includes(marker)) {
          places.push('cache')
          break
        }
      return places
    },
    async stop() {
      await flow.stop()
      await cache.close()
    },
  }
}
