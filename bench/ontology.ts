// A generated ontology of 10,000 classes and 1,000 properties, 2.5 MB of Turtle: read and indexed in its thread, then asked for the part
// that a chunk needs, one chunk after the other, by words and by embeddings (a server in this process that answers at once).
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { type Ontologies, openOntologies } from '../src/ontology/ontologies.ts'
import { chunkText, largeOntology } from '../test/ontology/support/large.ts'
import { median, type Row } from './row.ts'

const classes = 10_000
const chunks = 51
const rounds = 3
const budget = 2000
/** Length of a vector, as in common models. */
const vectorSize = 768

export async function ontologyBench(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-bench-'))
  try {
    const path = join(folder, 'large.ttl')
    writeFileSync(path, largeOntology(classes))
    return [...(await byWords(path)), ...(await byEmbeddings(path, folder))]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function byWords(path: string): Promise<Row[]> {
  const loads: number[] = []
  const times: number[] = []
  const stops: number[] = []
  for (let round = 0; round < rounds; round++) {
    const delay = monitorEventLoopDelay({ resolution: 5 })
    delay.enable()
    const start = performance.now()
    const ontologies = await openOntologies({ paths: [path], budget })
    loads.push(performance.now() - start)
    delay.disable()
    stops.push(delay.max / 1e6)
    times.push(...(await selectAll(ontologies)))
    await ontologies.close()
  }
  return [
    {
      name: 'ontology: 10,000 classes of Turtle read and indexed',
      value: median(loads) / 1000,
      unit: 's',
      bound: '<= 3',
    },
    {
      name: 'ontology: longest stop of the main thread meanwhile',
      value: Math.max(...stops),
      unit: 'ms',
      bound: '<= 50',
    },
    { name: 'ontology: lexical selection for a chunk', value: median(times), unit: 'ms', bound: '<= 50' },
    {
      name: 'ontology: lexical selection, the slowest of all chunks',
      value: Math.max(...times),
      unit: 'ms',
      bound: '<= 50',
    },
  ]
}

async function byEmbeddings(path: string, folder: string): Promise<Row[]> {
  let vectors = 0
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (part) => (body += part))
    request.on('end', () => {
      const { input } = JSON.parse(body) as { input: string[] }
      vectors += input.length
      response.end(JSON.stringify({ embeddings: input.map(vectorOf) }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/embed`
  const embeddings = {
    url,
    model: 'm',
    apiKey: undefined,
    timeoutMs: 60_000,
    cacheDir: join(folder, 'vectors'),
  }
  const ontologies = await openOntologies({ paths: [path], budget, embeddings })
  try {
    await ontologies.current().select('the first text, for which all elements are embedded')
    const before = vectors
    const times = await selectAll(ontologies)
    return [
      {
        name: 'ontology: vectors asked for a chunk',
        value: (vectors - before) / chunks,
        unit: 'vectors',
        bound: '<= 1',
      },
      { name: 'ontology: selection by embeddings for a chunk', value: median(times), unit: 'ms' },
    ]
  } finally {
    await ontologies.close()
    server.closeAllConnections()
    server.close()
  }
}

/** Milliseconds per chunk. */
async function selectAll(ontologies: Ontologies): Promise<number[]> {
  const times: number[] = []
  for (let seed = 0; seed < chunks; seed++) {
    const text = `${seed} ${chunkText(seed)}`
    const start = performance.now()
    await ontologies.current().select(text)
    times.push(performance.now() - start)
  }
  return times
}

/** Vectors that depend only on the text's length and first letters: similarity does not matter here. */
function vectorOf(text: string): number[] {
  return Array.from({ length: vectorSize }, (_, place) =>
    Math.sin(text.length * 31 + (text.charCodeAt(place % text.length) + 1) * (place + 1)),
  )
}
