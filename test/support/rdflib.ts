// rdflib, in Python, as a second reader of files beside n3. The first time it is installed into .cache/rdflib.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { rdfNamespace, sorted, xsdString } from '../rdf/quads.ts'

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
  const { stdout, stderr, status } = spawnSync(python(), ['-c', program], {
    input: text,
    encoding: 'utf8',
    maxBuffer,
  })
  if (status !== 0 || stderr !== '') throw new Error(`rdflib ended with ${status}: ${stderr}`)
  return sorted(JSON.parse(stdout) as unknown[])
}

function python(): string {
  return join('.cache', 'rdflib', 'bin', 'python')
}

/** Installs rdflib where it is not; why it cannot be used, if it cannot. */
export function installRdflib(): string | undefined {
  const imports = () => existsSync(python()) && spawnSync(python(), ['-c', 'import rdflib']).status === 0
  if (imports()) return undefined
  const venv = spawnSync('python3', ['-m', 'venv', join('.cache', 'rdflib')], { timeout: 60_000 })
  if (venv.status !== 0) return 'python3 with venv is not installed'
  const pip = ['-m', 'pip', 'install', '--quiet', '--retries', '0', '--timeout', '10', 'rdflib==7.6.0']
  spawnSync(python(), pip, { timeout: 60_000 })
  return imports() ? undefined : 'rdflib could not be installed'
}
