// The graph for Graphviz: entities are nodes, relationships edges, and attributes boxes. Definitions and classes are tooltips.
import type { Graph } from './graph.ts'

export function dot({ facts, nameOf }: Graph): string {
  const notes = new Map<string, string[]>()
  const lines: string[] = []
  const note = (iri: string, text?: string) => {
    const known = notes.get(iri) ?? []
    notes.set(iri, text === undefined ? known : [...known, text])
  }
  for (const [at, { subject, predicate, object, kind }] of facts.entries()) {
    const name = nameOf(predicate)
    note(
      subject,
      kind === 'definition' ? object : kind === 'class' ? `${name}: ${nameOf(object)}` : undefined,
    )
    if (kind === 'relationship') {
      note(object)
      lines.push(`  ${text(subject)} -> ${text(object)} [label=${text(name)}];`)
    } else if (kind === 'attribute') {
      lines.push(`  ${text(`value ${at}`)} [label=${text(object)}, shape=box];`)
      lines.push(`  ${text(subject)} -> ${text(`value ${at}`)} [label=${text(name)}];`)
    }
  }
  const nodes = [...notes].map(
    ([iri, each]) => `  ${text(iri)} [label=${text(nameOf(iri))}, tooltip=${text(each.join('\n') || iri)}];`,
  )
  return ['digraph graphmill {', ...nodes, ...lines, '}', ''].join('\n')
}

/** A quoted string; Graphviz reads `\` followed by a letter as an escape. */
const text = (value: string) =>
  `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replace(/\r?\n/g, '\\n').replaceAll('\0', '\ufffd')}"`
