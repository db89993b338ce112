// A document that was made up, and the triples that came of it: each paragraph is one chunk with names of its own, so that
// no chunk can be lost without its triples missing from the set.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type DefaultGraph, Parser, type Quad, type Term } from 'n3'
import type { Triple } from '../../src/rdf/term.ts'

/** Makes each paragraph a chunk: no two of them fit into one, and none is longer. */
export const chunkSize = 700

const sentences = [
  'The village of % lies on the river %, which % crossed by boat before there was a bridge.',
  'In the mill of % the miller % ground the grain that the farmers of % brought him.',
  '% wrote a chronicle of the valley, and % copied it for the library of the abbey at %.',
  'When % was mayor, the road from % to % was paved with stones from the quarry of %.',
  'The hill called % is known for its orchids, which the botanist % described first.',
  'A market is held at % every autumn, to which traders come from % and even from %.',
] as const
const namesOfParagraph = sentences.join('').split('%').length - 1
const consonants = [...'bdfghklmnprstvwz']
const vowels = [...'aeiou']

/** A text of so many paragraphs; books of other numbers up to 250 share no name with it as long as they have 100 or fewer. */
export function bookOf(paragraphs: number, number = 0): string {
  let names = number * 100 * namesOfParagraph
  const paragraph = () => sentences.map((line) => line.replaceAll('%', () => nameOf(names++))).join(' ')
  return Array.from({ length: paragraphs }, paragraph).join('\n\n')
}

/** No number gives the name of another one below 512,000. */
function nameOf(number: number): string {
  const syllable = (digit: number) => `${consonants[digit % 16]}${vowels[Math.floor(digit / 16)]}`
  // Neighbours are to look different: 7919 is prime to the number of names.
  const spread = (number * 7919) % 512_000
  const name = [spread % 80, Math.floor(spread / 80) % 80, Math.floor(spread / 6400)].map(syllable).join('')
  return `${name[0]!.toUpperCase()}${name.slice(1)}n`
}

/** The triples of the default graph in the N-Quads files of a folder (of those whose names begin so), each as one text. */
export async function readGraph(folder: string, prefix = ''): Promise<Set<string>> {
  const names = await readdir(folder).catch(() => [])
  const triples = new Set<string>()
  for (const name of names.filter((each) => each.startsWith(prefix) && each.endsWith('.nq'))) {
    // A crash may have torn the last line; whoever goes on with the file cuts it off.
    const text = await readFile(join(folder, name), 'utf8')
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    for (const quad of new Parser({ format: 'N-Quads' }).parse(whole))
      if (isDefault(quad.graph)) triples.add(textOf(quad))
  }
  return triples
}

const isDefault = (graph: Term): graph is DefaultGraph => graph.termType === 'DefaultGraph'

function textOf({ subject, predicate, object }: Quad): string {
  const shown = object.termType === 'Literal' ? JSON.stringify(object.value) : object.value
  return `${subject.value} ${predicate.value} ${shown}`
}

/** Our own triple as the same text. */
export function textOfTriple({ s, p, o }: Triple): string {
  return `${s.iri} ${p.iri} ${o.type === 'l' ? JSON.stringify(o.value) : o.iri}`
}

/** What `graph` lacks of `expected`, and what it has beyond it: how many, and some of them. */
export function difference(graph: ReadonlySet<string>, expected: ReadonlySet<string>) {
  const some = (triples: string[]) => ({ count: triples.length, some: triples.slice(0, 5) })
  return {
    missing: some([...expected].filter((triple) => !graph.has(triple))),
    invented: some([...graph].filter((triple) => !expected.has(triple))),
  }
}

/** The difference that is none. */
export const same = { missing: { count: 0, some: [] }, invented: { count: 0, some: [] } }
