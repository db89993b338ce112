// One chunk through the prompt processor and an extractor, with a model that says what the test wants it to.

import { prompt } from '../../processors/prompt.ts'
import { unitsOf } from '../../src/flow/expected-units.ts'
import { inputGroup, inputTopic } from '../../src/flow/ports.ts'
import type { AnyProcessor, FlowSettings } from '../../src/flow/processor.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { Chunk, Progress, Rejection } from '../../src/messages/generated.ts'
import type { DocumentStatus } from '../../src/progress/document-status.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import type { Catalogue } from '../../src/prompt/catalogue/prompt.ts'
import { scope, settings, startFlow } from './flow.ts'
import { type Script, scriptedLlm } from './scripted-llm.ts'

export interface Extracted {
  readonly definitions: readonly Message<'Definitions'>[]
  readonly relationships: readonly Message<'Relationships'>[]
  readonly topics: readonly Message<'Topics'>[]
  readonly rows: readonly Message<'Rows'>[]
  readonly ontologyEntities: readonly Message<'OntologyEntities'>[]
  readonly ontologyRelationships: readonly Message<'OntologyRelationships'>[]
  readonly ontologyAttributes: readonly Message<'OntologyAttributes'>[]
  readonly rejected: readonly Rejection[]
  /** The entries on progress, of every part of every unit. */
  readonly progress: readonly Progress[]
  /** The prompts as the model saw them. */
  readonly prompts: readonly string[]
  /** Facts by kind, and rejected items by reason, as progress counts them. */
  readonly counted: { readonly facts: Record<string, number>; readonly rejected: Record<string, number> }
}

/** What an extractor makes of `script`'s replies to a chunk; resolves when every unit of it has ended. */
export async function extractChunk(
  extractor: AnyProcessor,
  script: Script,
  more: {
    readonly settings?: Partial<FlowSettings>
    readonly chunk?: Partial<Chunk>
    readonly prompts?: Catalogue
  } = {},
): Promise<Extracted> {
  const own = { ...settings, ...more.settings }
  const llm = scriptedLlm(script)
  const flow = await startFlow([prompt, extractor], {
    llm,
    flows: [{ ...scope, settings: own }],
    ...(more.prompts && { prompts: more.prompts }),
  })
  try {
    const text = more.chunk?.text ?? 'Once upon a time there was a mill.'
    await flow.send('chunk', { part: 0, index: 0, offset: 0, length: text.length, text, ...more.chunk })
    const open = new Set(unitsOf(extractor.name, own))
    const topic = flow.topic('progress')
    const until = AbortSignal.timeout(20_000)
    if (open.size > 0)
      for await (const entry of flow.broker.read({ topic, from: 'earliest', until: 'never' }, until)) {
        const { payload } = flow.codec.decode(entry.value, entry.headers) as Message<'Progress'>
        if (payload.last || payload.kind === 'dead') open.delete(payload.unit ?? '')
        if (open.size === 0) break
      }
    await settled(flow, extractor)
    const all = async (port: Parameters<typeof flow.topic>[0]) =>
      extractor.outputs.includes(port) ? await flow.all(flow.topic(port)) : []
    const progress = (await flow.all(topic)).map((each) => (each as Message<'Progress'>).payload)
    return {
      definitions: (await all('definitions')) as Message<'Definitions'>[],
      relationships: (await all('relationships')) as Message<'Relationships'>[],
      topics: (await all('topics')) as Message<'Topics'>[],
      rows: (await all('rows')) as Message<'Rows'>[],
      ontologyEntities: (await all('ontology-entities')) as Message<'OntologyEntities'>[],
      ontologyRelationships: (await all('ontology-relationships')) as Message<'OntologyRelationships'>[],
      ontologyAttributes: (await all('ontology-attributes')) as Message<'OntologyAttributes'>[],
      rejected: (await all('rejected')).flatMap((each) => (each as Message<'Rejected'>).payload.items),
      progress,
      prompts: llm.requests.map(({ messages }) => messages.at(-1)!.content),
      counted: {
        facts: sum(progress.map((each) => each.facts)),
        rejected: sum(progress.map((each) => each.rejected)),
      },
    }
  } finally {
    await flow.stop()
  }
}

async function settled(
  { broker }: Awaited<ReturnType<typeof startFlow>>,
  extractor: AnyProcessor,
): Promise<void> {
  const place = { space: 'gm', ...scope }
  for (const port of extractor.inputs) {
    const group = inputGroup(port, place, extractor.name)
    while ((await broker.lag(group, inputTopic(port, place, extractor.name))).total > 0)
      await new Promise(setImmediate)
  }
}

function sum(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const total: Record<string, number> = {}
  for (const each of counts)
    for (const [name, count] of Object.entries(each)) total[name] = (total[name] ?? 0) + count
  return total
}

/** What the ledger makes of a document of one chunk, of which these units are expected, from what was said on progress. */
export function documentStatus(progress: readonly Progress[], units: readonly string[]): DocumentStatus {
  const aggregate = createProgressAggregate()
  const about = { documentId: 'urn:d', chunkId: 'urn:d/0/0', causationId: '', time: 0 }
  const begun = [
    { kind: 'document', parts: 1 },
    { kind: 'part', part: 0, chunks: 1, units },
  ]
  for (const payload of [...begun, ...progress]) aggregate.add({ ...about, payload } as Message<'Progress'>)
  return aggregate.status('urn:d')!
}
