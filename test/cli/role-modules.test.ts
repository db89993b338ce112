// What a process of `graphmill run` loads, by the role of its processors, and its heap: memory is paid for by each replica.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const script = fileURLToPath(new URL('../support/role-modules.mjs', import.meta.url))

interface Loaded {
  readonly packages: readonly string[]
  readonly own: readonly string[]
  readonly hasFetch: boolean
  readonly heap: number
}

async function loadedBy(...names: readonly string[]): Promise<Loaded> {
  const { stdout } = await promisify(execFile)(process.execPath, [script, ...names])
  return JSON.parse(stdout) as Loaded
}

/** Packages of every role, with what they bring. */
const common = [
  '@opentelemetry/api',
  '@pinojs/redact',
  'atomic-sleep',
  'avsc',
  'bintrees',
  'commander',
  'fastest-levenshtein',
  'kafkajs',
  'on-exit-leak-free',
  'pino',
  'pino-std-serializers',
  'prom-client',
  'quick-format-unescaped',
  'safe-stable-stringify',
  'sonic-boom',
  'tdigest',
  'thread-stream',
  'uuid',
]

test.each([
  'extract-definitions',
  'extract-relationships',
  'extract-topics',
  'extract-agent-kg',
  'extract-ontology',
  'extract-rows',
  'emit-triples',
  'store-triples',
  'store-rows',
  'ledger',
])(
  '%s loads no model client, no prompt compiler, no parser of documents or RDF, and no fetch',
  async (name) => {
    const { packages, own, hasFetch, heap } = await loadedBy(name)
    expect(packages.filter((each) => !common.includes(each))).toEqual([])
    const rooms =
      /^src\/(llm\/(openai|ollama|anthropic|gemini|offline|cache)|complete|evaluation|documents)\//
    expect(own.filter((file) => rooms.test(file))).toEqual([])
    expect(own).not.toContain('src/ontology/parse')
    expect(hasFetch).toBe(false)
    // 17 MB were measured.
    expect(heap).toBeLessThan(25e6)
  },
)

test('a process with all processors loads no parser of documents or RDF, and no client package', async () => {
  const { packages, own } = await loadedBy()
  const refused = ['n3', 'jsonld-streaming-parser', 'rdfxml-streaming-parser', 'html-to-text', 'unpdf']
  for (const name of [...refused, 'openai', 'fastify', 'compromise', 'minisearch', 'yaml', 'ws'])
    expect(packages).not.toContain(name)
  expect(own).not.toContain('src/ontology/parse')
})
