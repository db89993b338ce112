// A store for formats that are made of the whole graph: it keeps all triples, and writes the file when it is closed.
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, extname } from 'node:path'
import { GraphmillError } from '../errors.ts'
import { systemCall } from '../system-calls.ts'
import { dot } from './dot.ts'
import { createGraphBuilder } from './graph.ts'
import { graphPage } from './graph-page.ts'
import { jsonLd } from './json-ld.ts'
import type { TripleStore } from './store.ts'
import type { Triple } from './term.ts'
import type { GraphFormat } from './write.ts'

/** Triples that are kept, at most: some 100,000 chunks without provenance, 4,000 with it. */
const mostTriples = 2_000_000

/** Writes to the file, which appears as a whole, or to standard output. Throws `store_failed`, also for more than 2 million triples. */
export function openGraphStore(path: string | undefined, format: GraphFormat): TripleStore {
  const destination = path ?? 'standard output'
  const kept: Triple[] = []
  let begun = false
  return {
    destination,
    async write(triples) {
      begun = true
      if (kept.length + triples.length > mostTriples)
        throw new GraphmillError(
          'store_failed',
          `${destination}: a graph of more than ${mostTriples} triples cannot be written as ${format}; nquads has no limit.`,
        )
      for (const each of triples) kept.push(each)
    },
    async close() {
      if (!begun) return
      const text = textOf(kept, format, path)
      if (path === undefined) await print(text)
      else await replaceFile(path, text)
    },
  }
}

function textOf(triples: readonly Triple[], format: GraphFormat, path: string | undefined): string {
  if (format === 'jsonld') return jsonLd(triples)
  const builder = createGraphBuilder()
  builder.add(triples)
  const graph = builder.build()
  return format === 'dot' ? dot(graph) : graphPage(graph, titleOf(path))
}

const titleOf = (path = 'graph.html') => basename(path, extname(path))

function print(text: string): Promise<void> {
  return new Promise((resolve, reject) =>
    process.stdout.write(text, (cause) =>
      cause
        ? reject(new GraphmillError('store_failed', `standard output: ${cause.message}.`, { cause }))
        : resolve(),
    ),
  )
}

async function replaceFile(path: string, text: string): Promise<void> {
  const beside = `${path}.${process.pid}.tmp`
  try {
    await mkdir(dirname(path), { recursive: true })
    await systemCall(`write ${beside}`, writeFile(beside, text))
    await systemCall(`rename ${beside}`, rename(beside, path))
  } catch (cause) {
    await rm(beside, { force: true }).catch(() => undefined)
    throw new GraphmillError('store_failed', `${path}: ${(cause as Error).message}.`, { cause })
  }
}
