// An ontology while its files are read: elements by IRI. Several statements and several files may add to an element.
import type { Clause } from './ontology.ts'

export interface ElementBuilder {
  readonly iri: string
  /** Name and ontology come from the first ontology that declares it, otherwise from the first that mentions it. */
  name: string
  ontology: string
  declared: boolean
  /** By language tag in lower case; '' without one. */
  readonly labels: [language: string, text: string][]
  readonly comments: [language: string, text: string][]
  readonly synonyms: Set<string>
  deprecated: boolean
}

export interface ClassBuilder extends ElementBuilder {
  readonly parents: Set<string>
  readonly same: Set<string>
}

export interface PropertyBuilder extends ElementBuilder {
  readonly kind: 'object' | 'datatype'
  readonly domain: Clause[]
  readonly range: Clause[]
  readonly parents: Set<string>
  readonly inverses: Set<string>
}

export interface OntologyBuilder {
  /** The file of each ontology, by ontology id. */
  readonly files: Map<string, string>
  readonly classes: Map<string, ClassBuilder>
  readonly objectProperties: Map<string, PropertyBuilder>
  readonly datatypeProperties: Map<string, PropertyBuilder>
  /** Notes on what was left out because extraction cannot use it, as sentences. */
  readonly notes: string[]
  /** How often something was declared. */
  declarations: number
}

export function createOntologyBuilder(): OntologyBuilder {
  return {
    files: new Map(),
    classes: new Map(),
    objectProperties: new Map(),
    datatypeProperties: new Map(),
    notes: [],
    declarations: 0,
  }
}

/** The identity of an element. */
export interface Identity {
  readonly iri: string
  readonly name: string
  readonly ontology: string
}

/** A class that is declared. */
export function declareClass(builder: OntologyBuilder, identity: Identity): ClassBuilder {
  builder.declarations++
  return declared(mentionClass(builder, identity), identity)
}

/** A class that is only mentioned so far. */
export function mentionClass(builder: OntologyBuilder, identity: Identity): ClassBuilder {
  const known = builder.classes.get(identity.iri)
  if (known) return known
  const made = { ...element(identity), parents: new Set<string>(), same: new Set<string>() }
  builder.classes.set(identity.iri, made)
  return made
}

/** A property that is declared. */
export function declareProperty(
  builder: OntologyBuilder,
  identity: Identity,
  kind: PropertyBuilder['kind'],
): PropertyBuilder {
  builder.declarations++
  const map = kind === 'object' ? builder.objectProperties : builder.datatypeProperties
  const known = map.get(identity.iri)
  if (known) return declared(known, identity)
  const made = {
    ...element(identity),
    kind,
    domain: [],
    range: [],
    parents: new Set<string>(),
    inverses: new Set<string>(),
  }
  map.set(identity.iri, made)
  return declared(made, identity)
}

function element({ iri, name, ontology }: Identity): ElementBuilder {
  return {
    iri,
    name,
    ontology,
    declared: false,
    labels: [],
    comments: [],
    synonyms: new Set(),
    deprecated: false,
  }
}

function declared<E extends ElementBuilder>(element: E, { name, ontology }: Identity): E {
  if (!element.declared || compare(ontology, element.ontology) < 0) Object.assign(element, { name, ontology })
  element.declared = true
  return element
}

/** The best text for an English reader: English, otherwise without language, otherwise any. The choice is always the same. */
export function bestText(texts: readonly (readonly [language: string, text: string])[]): string | null {
  const rank = (language: string) => (/^en(-|$)/.test(language) ? 0 : language === '' ? 1 : 2)
  const order = texts.toSorted(([a, x], [b, y]) => rank(a) - rank(b) || compare(a, b) || compare(x, y))
  return order[0]?.[1] ?? null
}

/** By code units, which is the same everywhere, unlike a locale's order. */
export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
