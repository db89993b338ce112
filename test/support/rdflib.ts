// rdflib, in Python, as a second reader of files beside n3. The first time it is installed into .cache/rdflib.
import { spawnSync } from 'node:child_process'
import { rdfNamespace, sorted, xsdString } from '../rdf/quads.ts'
import { installPackage, programOf } from './python-package.ts'

/** What rdflib reads from a file, as `keys` gives it. */
export function readInRdflib(text: string, format: string): string[] {
  const program = `
import json, sys, logging, rdflib
logging.disable(logging.CRITICAL)
rdflib.NORMALIZE_LITERALS = False
def key(term):
    if not isinstance(term, rdflib.Literal): return ['i', str(term)]
    if term.language: return ['l', str(term), '${rdfNamespace}langString', term.language.lower()]
    return ['l', str(term), str(term.datatype or '${xsdString}'), '']
data = rdflib.Dataset()
data.parse(data=sys.stdin.buffer.read(), format='${format}')
graph = lambda g: '' if g is None or g == rdflib.graph.DATASET_DEFAULT_GRAPH_ID else str(g)
print(json.dumps([[key(s), key(p), key(o), graph(g)] for s, p, o, g in data.quads()]))
`
  const maxBuffer = 256 * 1024 * 1024
  const { stdout, stderr, status } = spawnSync(programOf('rdflib', 'python'), ['-c', program], {
    input: text,
    encoding: 'utf8',
    maxBuffer,
  })
  if (status !== 0 || stderr !== '') throw new Error(`rdflib ended with ${status}: ${stderr}`)
  return sorted(JSON.parse(stdout) as unknown[])
}

/** Installs rdflib where it is not; why it cannot be used, if it cannot. */
export const installRdflib = () => installPackage('rdflib', 'rdflib', 'rdflib==7.6.0')
