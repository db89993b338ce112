// The graph as one HTML file that loads nothing: a drawing, a search, a filter, and a table of the facts with their places in the text.
// The script of the page is built from the folder `page`.
import { existsSync, readFileSync } from 'node:fs'
import type { PageData, PageFact } from '../../page/data.ts'
import { factKinds, type Graph } from './graph.ts'

/** Of the build: beside the compiled program, or below the sources. */
const places = ['../../page/', '../../dist/page/'].map((path) => new URL(path, import.meta.url))

/** The whole page as text. */
export function graphPage(graph: Graph, title: string): string {
  const folder = places.find((place) => existsSync(new URL('main.js', place)))!
  const read = (name: string) => readFileSync(new URL(name, folder), 'utf8')
  const parts: Readonly<Record<string, string>> = {
    'page title': escaped(title),
    '/* page.css */': read('page.css'),
    // Nothing may end the element of the data early, or begin another one.
    '"page data"': JSON.stringify(pageData(graph)).replaceAll('<', '\\u003c'),
    '/* main.js */': read('main.js').replaceAll('</script', '<\\/script'),
  }
  return read('page.html').replace(/page title|\/\* [\w.]+ \*\/|"page data"/g, (part) => parts[part]!)
}

const escaped = (text: string) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)

export function pageData({ facts, nameOf }: Graph): PageData {
  const [entities, predicates] = [new Map<string, number>(), new Map<string, number>()]
  const indexIn = (map: Map<string, number>, iri: string) => {
    const index = map.get(iri) ?? map.size
    map.set(iri, index)
    return index
  }
  const rows = facts.map(({ subject, predicate, object, kind, sources, isUngrounded }): PageFact => {
    const value =
      kind === 'relationship' ? indexIn(entities, object) : kind === 'class' ? nameOf(object) : object
    const found = sources.map(
      ({ text, document, start, end, page }) => [text, document, start, end, page] as const,
    )
    const ends = [factKinds.indexOf(kind), found, isUngrounded ? 1 : 0] as const
    return [indexIn(entities, subject), indexIn(predicates, predicate), value, ...ends]
  })
  return {
    kinds: factKinds,
    entities: [...entities.keys()].map((iri) => [nameOf(iri), iri]),
    predicates: [...predicates.keys()].map(nameOf),
    facts: rows,
  }
}
