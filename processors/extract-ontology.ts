// Facts in the terms of the flow's ontologies. The prompt for a chunk holds the part of the ontologies that the chunk needs, and every
// item of a reply is checked against the whole of the same version. The ontologies' own triples and entity contexts are published once
// per flow and version.
import { batches } from '../src/batches.ts'
import { GraphmillError } from '../src/errors.ts'
import { defineUnitExtractor, type Fact, type FactsByPort, rejectionLimits } from '../src/flow/extractor.ts'
import {
  type Context,
  defineProcessor,
  type FlowSettings,
  type Outputs,
  type Scope,
} from '../src/flow/processor.ts'
import { isObject } from '../src/is-object.ts'
import { excerptOf } from '../src/items/excerpt.ts'
import type { Message } from '../src/messages/envelope.ts'
import type { EntityContext, OntologyAttributeInit, OntologyEntityInit } from '../src/messages/generated.ts'
import type { Ontologies } from '../src/ontology/ontologies.ts'
import { contextLimits, individualContexts, ontologyContexts } from '../src/rdf/facts.ts'
import type { Triple } from '../src/rdf/term.ts'

const ontologyPorts = ['ontology-entities', 'ontology-relationships', 'ontology-attributes'] as const
type OntologyPort = (typeof ontologyPorts)[number]

const extractor = defineUnitExtractor({
  name: 'extract-ontology',
  prompt: 'extract-with-ontologies',
  outputs: ontologyPorts,
  async *requests({ payload: { text } }, { settings, signal }) {
    const service = ontologiesOf(settings).current()
    yield {
      terms: { text, ...(await service.select(text, signal)) },
      context: { version: service.summary.version },
      grounding: { names: ['entity', 'subject', 'object', 'value'] },
      // The definitions of an entity may come in a later part than the entity, and have one context with it.
      repeat: true,
    }
  },
  async reader({ context }, { settings, signal }, items) {
    if (items.length === 0) return { fact: () => ({ refused: 'empty' }) }
    const service = ontologiesOf(settings).at(context['version'] ?? '')
    const verdicts = await service.check(
      items.map((item) => (isObject(item) ? item : {})),
      signal,
    )
    const { ids, version } = service.summary
    return {
      fact: (_item, index) => inContext(verdicts[index]!),
      contexts: contextsOf,
      payload: (facts) => ({ ontology: ids.join(' '), version, facts }),
    }
  },
})

/** The contexts of all facts are made of the whole reply. */
function inContext(read: Fact<OntologyPort>): Fact<OntologyPort> {
  if ('refused' in read || read.to === 'ontology-relationships') return read
  return { to: read.to, fact: { ...read.fact, isInContext: true } } as Fact<OntologyPort>
}

function contextsOf(facts: FactsByPort<OntologyPort>, chunkId: string): Iterable<EntityContext[]> {
  const entities = (facts.get('ontology-entities') ?? []) as readonly OntologyEntityInit[]
  const attributes = (facts.get('ontology-attributes') ?? []) as readonly OntologyAttributeInit[]
  return batches(individualContexts(entities, attributes, chunkId), contextLimits)
}

export const extractOntology = defineProcessor({
  ...extractor,
  outputs: [...extractor.outputs, 'triples', 'entity-contexts'],
  async *handle(message, context) {
    if (message.type === 'Chunk') yield* publishOntologies(context)
    yield* extractor.handle(message, context)
  },
  /** Items that can no longer be checked are rejected; the dead letter keeps them. */
  async *onDead(message, error): Outputs<'rejected'> {
    if (message.type !== 'PromptResponse' || error.code !== 'version_gone') return
    const { promptId, run, model } = message.payload
    const items = uncheckedItems(message).map((item) => ({
      reason: error.code,
      text: excerptOf(JSON.stringify(item)),
      message: error.message,
    }))
    for (const batch of batches(items, rejectionLimits))
      yield { to: 'rejected', payload: { promptId, run, model, items: batch } }
  },
})

function ontologiesOf({ ontologies }: FlowSettings): Ontologies {
  if (ontologies) return ontologies
  throw new GraphmillError('ontology_not_configured', 'The flow has no ontologies.')
}

/** The versions that this process has published, by flow. When a message fails half-way, the next one publishes its version. */
const published = new WeakMap<Scope, Set<string>>()

/** No document states an ontology: it stays when the document whose chunk came first is removed. */
const ofNoDocument = { documentId: '', chunkId: '', version: '', versionTime: 0 } as const

/** Every replica publishes a version once: the triples are a set, so a repeat adds nothing. */
async function* publishOntologies({
  scope,
  settings,
  signal,
}: Context): Outputs<'triples' | 'entity-contexts'> {
  const service = ontologiesOf(settings).current()
  const { version } = service.summary
  const versions = published.get(scope) ?? new Set()
  published.set(scope, versions)
  if (versions.has(version)) return
  versions.add(version)
  let stored = false
  try {
    const publishing: (Promise<void> | undefined)[] = []
    let before: Triple[] = []
    for (let from = 0; ; ) {
      const triples = await service.triples(from, signal)
      if (triples.length === 0) break
      publishing.push(yield { to: 'triples', ...ofNoDocument, payload: { triples } })
      for (const entities of batches(ontologyContexts(triples, before), { maxItems: 5 }))
        publishing.push(yield { to: 'entity-contexts', ...ofNoDocument, payload: { entities } })
      before = triples
      from += triples.length
    }
    await Promise.all(publishing)
    stored = true
  } finally {
    if (!stored) versions.delete(version)
  }
}

/** They are a JSON list: the reader has parsed them before it asked for their version. */
function uncheckedItems({ payload }: Message<'PromptResponse'>): readonly unknown[] {
  return JSON.parse(payload.object ?? '[]') as unknown[]
}
