// Facts become triples and entity contexts, in batches that fit a message. Where provenance is wanted, the triples of each
// message of facts end with the subgraph that quotes them. Contexts come from facts only, never from provenance.
import type { MessageOf } from '../src/flow/ports.ts'
import { type Context, defineProcessor, type Outputs } from '../src/flow/processor.ts'
import type { EntityContext } from '../src/messages/generated.ts'
import {
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
import { subgraphProvenance } from '../src/rdf/provenance.ts'
import type { Term, Triple } from '../src/rdf/term.ts'
import { version } from '../src/version.ts'

/** As TrustGraph's: triples and contexts of one message, at most. */
const maxTriples = 50
const maxContexts = 5
/** Characters of a batch's strings together: in UTF-8 a message is at most 700 KiB. */
const maxLength = 150_000

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
    const said = facts.flatMap(({ triples }) => triples)
    const whence = settings.provenance === 'subgraph' && facts.length > 0 ? provenance(message, facts) : []
    for (const triples of batches([...said, ...whence], maxTriples, tripleLength))
      yield { to: 'triples', payload: { triples } }
    for (const entities of batches(contexts(message), maxContexts, contextLength))
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

/** Facts name no unit: the processor that found them is one. */
function provenance(message: FactMessage, facts: readonly FactTriples[]): Triple[] {
  const { source: unit, chunkId, payload } = message
  const ontologies = 'ontology' in payload ? payload.ontology.split(' ').filter((id) => id !== '') : []
  const extraction = { chunkId, unit, run: payload.run, model: payload.model, version, ontologies }
  return subgraphProvenance(
    extraction,
    facts.flatMap(({ stated }) => stated),
  )
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

const tripleLength = ({ s, p, o }: Triple): number => termLength(s) + termLength(p) + termLength(o)
const termLength = ({ iri, value, datatype, triple }: Term): number =>
  (iri?.length ?? 0) + (value?.length ?? 0) + (datatype?.length ?? 0) + (triple ? tripleLength(triple) : 0)
const contextLength = ({ entity, context }: EntityContext) => termLength(entity) + context.length

function* batches<T>(list: readonly T[], max: number, size: (item: T) => number): Generator<T[]> {
  let batch: T[] = []
  let length = 0
  for (const item of list) {
    const more = size(item)
    if (batch.length === max || (batch.length > 0 && length + more > maxLength)) {
      yield batch
      batch = []
      length = 0
    }
    batch.push(item)
    length += more
  }
  if (batch.length > 0) yield batch
}
