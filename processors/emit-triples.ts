// Facts become triples and entity contexts, in batches that fit a message. With provenance, the triples of each message of facts end
// with the subgraph that quotes them, and with their places in the document. Contexts come from facts only, never from provenance.
import { batches } from '../src/batches.ts'
import type { MessageOf } from '../src/flow/ports.ts'
import { type Context, defineProcessor, type Outputs } from '../src/flow/processor.ts'
import type { EntityContext } from '../src/messages/generated.ts'
import {
  contextLimits,
  definitionContexts,
  definitionTriples,
  type FactTriples,
  ontologyAttributeContexts,
  ontologyAttributeTriples,
  ontologyEntityContexts,
  ontologyEntityTriples,
  ontologyRelationshipTriples,
  relationshipTriples,
  topicTriples,
} from '../src/rdf/facts.ts'
import { groundingProvenance, subgraphProvenance } from '../src/rdf/provenance.ts'
import type { Term, Triple } from '../src/rdf/term.ts'
import { version } from '../src/version.ts'

/** Characters of a batch's strings together: in UTF-8 a message is at most 700 KiB. */
const maxSize = 150_000
/** Triples and contexts of one message: as many as TrustGraph's. */
const tripleLimits = { maxItems: 50, maxSize, sizeOf: tripleLength }

const factPorts = [
  'definitions',
  'relationships',
  'topics',
  'ontology-entities',
  'ontology-relationships',
  'ontology-attributes',
] as const

type FactMessage = MessageOf<(typeof factPorts)[number]>

export const emitTriples = defineProcessor({
  name: 'emit-triples',
  inputs: factPorts,
  outputs: ['triples', 'entity-contexts'],
  async *handle(message, { settings }: Context): Outputs<'triples' | 'entity-contexts'> {
    const facts = factTriples(message)
    const stated = facts.flatMap(({ triples }) => triples)
    const source = settings.provenance === 'subgraph' && facts.length > 0 ? provenance(message, facts) : []
    for (const triples of batches([...stated, ...source], tripleLimits))
      yield { to: 'triples', payload: { triples } }
    for (const entities of batches(contexts(message), contextLimits))
      yield { to: 'entity-contexts', payload: { entities } }
  },
})

function factTriples(message: FactMessage): FactTriples[] {
  switch (message.type) {
    case 'Definitions':
      return message.payload.facts.map(definitionTriples)
    case 'Relationships':
      return message.payload.facts.map(relationshipTriples)
    case 'Topics':
      return message.payload.facts.map(topicTriples)
    case 'OntologyEntities':
      return message.payload.facts.map(ontologyEntityTriples)
    case 'OntologyRelationships':
      return message.payload.facts.map(ontologyRelationshipTriples)
    case 'OntologyAttributes':
      return message.payload.facts.map(ontologyAttributeTriples)
    default:
      return message satisfies never
  }
}

/** Facts name no unit: the source of their message stands for it. */
function provenance(message: FactMessage, facts: readonly FactTriples[]): Triple[] {
  const { source: unit, documentId, chunkId, versionTime, payload } = message
  const ontologies = 'ontology' in payload ? payload.ontology.split(' ').filter((id) => id !== '') : []
  const { run, model } = payload
  const extraction = { chunkId, versionTime, unit, run, model, version, ontologies }
  const stated = facts.flatMap((fact) => fact.stated)
  const grounded = payload.facts.map(({ grounding }, at) => ({ grounding, stated: facts[at]!.stated }))
  return [
    ...subgraphProvenance(extraction, stated),
    ...groundingProvenance({ documentId, chunkId, versionTime, unit }, grounded),
  ]
}

function contexts(message: FactMessage): EntityContext[] {
  const { type, payload, chunkId } = message
  if (type === 'Definitions') return payload.facts.flatMap((fact) => definitionContexts(fact, chunkId))
  if (type === 'OntologyEntities')
    return payload.facts.flatMap((fact) => ontologyEntityContexts(fact, chunkId))
  if (type === 'OntologyAttributes')
    return payload.facts.flatMap((fact) => ontologyAttributeContexts(fact, chunkId))
  return []
}

function tripleLength({ s, p, o }: Triple): number {
  return termLength(s) + termLength(p) + termLength(o)
}

function termLength({ iri, value, datatype, triple }: Term): number {
  const own = (iri?.length ?? 0) + (value?.length ?? 0) + (datatype?.length ?? 0)
  return own + (triple ? tripleLength(triple) : 0)
}
