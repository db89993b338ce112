// Builds an ontology from a builder: keys, cycles, superproperties, inverses and the version.
import { createHash } from 'node:crypto'
import {
  bestText,
  compare,
  type ElementBuilder,
  type OntologyBuilder,
  type PropertyBuilder,
} from './builder.ts'
import type {
  Clause,
  Elements,
  Ontology,
  OntologyClass,
  OntologyElement,
  OntologyProperty,
} from './ontology.ts'

/** A problem of the whole ontology, and the element where it is. */
export interface Flaw {
  readonly iri: string
  readonly ontology: string
  readonly message: string
}

/** The ontology, and its problems. When there are any, the ontology must not be used. */
export function build(builder: OntologyBuilder): {
  readonly ontology: Ontology
  readonly flaws: readonly Flaw[]
} {
  const classKeys = keysOf([...builder.classes.values()])
  const objectKeys = keysOf([...builder.objectProperties.values()])
  const datatypeKeys = keysOf([...builder.datatypeProperties.values()])
  const classes = sortByKey(
    [...builder.classes.values()].map(
      (each): OntologyClass => ({
        ...described(each, classKeys),
        parents: [...each.parents].sort(compare),
        same: [...each.same].sort(compare),
      }),
    ),
  )
  const objectProperties = finishProperties(builder.objectProperties, objectKeys)
  const datatypeProperties = finishProperties(builder.datatypeProperties, datatypeKeys)
  const ids = [...builder.files.keys()].sort(compare)
  const content = {
    ids,
    classes: [...classes.values()],
    objectProperties: [...objectProperties.values()],
    datatypeProperties: [...datatypeProperties.values()],
  }
  const version = createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, 32)
  return {
    ontology: { ids, version, classes, objectProperties, datatypeProperties },
    flaws: circles(classes),
  }
}

/** Gives each element the shortest prefixed name that no other of its kind has. Elements that share a name all get a prefix. */
function keysOf(elements: readonly ElementBuilder[]): ReadonlyMap<string, string> {
  const forms: readonly ((element: ElementBuilder) => string)[] = [
    ({ name }) => oneLine(name),
    ({ name, ontology }) => `${oneLine(ontology)}:${oneLine(name)}`,
    ({ iri }) => iri,
  ]
  const keys = new Map<string, string>()
  let open = elements
  for (const form of forms) {
    const owners = new Map<string, number>()
    for (const element of open) owners.set(form(element), (owners.get(form(element)) ?? 0) + 1)
    const taken = new Set(keys.values())
    for (const element of open)
      if (owners.get(form(element)) === 1 && !taken.has(form(element))) keys.set(element.iri, form(element))
    open = open.filter(({ iri }) => !keys.has(iri))
  }
  return keys
}

function described(element: ElementBuilder, keys: ReadonlyMap<string, string>): OntologyElement {
  const label = bestText(element.labels)
  const names = new Set([...element.labels.map(([, text]) => text), ...element.synonyms])
  if (label !== null) names.delete(label)
  return {
    iri: element.iri,
    key: keys.get(element.iri)!,
    name: oneLine(element.name),
    ontology: element.ontology,
    label,
    synonyms: [...names].sort(compare),
    comment: bestText(element.comments),
    deprecated: element.deprecated,
  }
}

/** The clauses of a property: its own, those of its superproperties, and, with the sides swapped, those of its inverses. */
function finishProperties(
  drafts: ReadonlyMap<string, PropertyBuilder>,
  keys: ReadonlyMap<string, string>,
): Elements<OntologyProperty> {
  const inverses = new Map<string, Set<string>>([...drafts.keys()].map((iri) => [iri, new Set()]))
  for (const { iri, inverses: own } of drafts.values())
    for (const other of own) {
      if (!drafts.has(other)) continue
      inverses.get(iri)!.add(other)
      inverses.get(other)!.add(iri)
    }
  return sortByKey(
    [...drafts.values()].map((each): OntologyProperty => {
      const line = superproperties(each, drafts)
      const turned = [...inverses.get(each.iri)!].map((iri) => drafts.get(iri)!)
      return {
        ...described(each, keys),
        kind: each.kind,
        domain: unique([...line.flatMap(({ domain }) => domain), ...turned.flatMap(({ range }) => range)]),
        range: unique([...line.flatMap(({ range }) => range), ...turned.flatMap(({ domain }) => domain)]),
        parents: [...each.parents].filter((iri) => drafts.has(iri)).sort(compare),
        inverses: [...inverses.get(each.iri)!].sort(compare),
      }
    }),
  )
}

function superproperties(
  property: PropertyBuilder,
  drafts: ReadonlyMap<string, PropertyBuilder>,
): PropertyBuilder[] {
  const found = new Set([property])
  for (const { parents } of found)
    for (const iri of parents) {
      const parent = drafts.get(iri)
      if (parent) found.add(parent)
    }
  return [...found]
}

function unique(clauses: readonly Clause[]): Clause[] {
  const byText = new Map(
    clauses.map((clause) => [...new Set(clause)].sort(compare)).map((clause) => [clause.join(' '), clause]),
  )
  return [...byText].sort(([a], [b]) => compare(a, b)).map(([, clause]) => clause)
}

/** Reports each cycle of inheritance once, at its first class. */
function circles(classes: Elements<OntologyClass>): Flaw[] {
  const flaws: Flaw[] = []
  const done = new Set<string>()
  /** The path from a class up to the current one, with the parents of each that are still to be visited: depth first, without recursion. */
  const path = new Map<string, Iterator<string>>()
  const enter = (iri: string) => path.set(iri, (classes.get(iri)?.parents ?? []).values())
  for (const start of classes.keys()) {
    const line = done.has(start) ? [] : [start]
    for (const iri of line) enter(iri)
    while (line.length > 0) {
      const here = line.at(-1)!
      const { value: parent, done: over } = path.get(here)!.next()
      if (over) {
        done.add(here)
        path.delete(here)
        line.pop()
      } else if (path.has(parent)) {
        const names = [...line.slice(line.indexOf(parent)), parent].map((iri) => classes.get(iri)?.key ?? iri)
        const { iri, ontology } = classes.get(parent)!
        flaws.push({ iri, ontology, message: `it is a kind of itself: ${names.join(' > ')}` })
      } else if (!done.has(parent)) {
        enter(parent)
        line.push(parent)
      }
    }
  }
  return flaws
}

function sortByKey<E extends OntologyElement>(elements: E[]): Elements<E> {
  return new Map(elements.sort((a, b) => compare(a.key, b.key)).map((element) => [element.iri, element]))
}

/** Puts a key on one line, for a prompt. */
function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, 200)
}
