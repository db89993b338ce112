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

/** What prompts and replies are checked with: JSON Schema, patterns, and the event streams of model servers. */
const modelPackages = [
  'ajv',
  'ajv-draft-04',
  'ajv-formats',
  'eventsource-parser',
  'fast-deep-equal',
  'fast-uri',
  'json-schema-traverse',
  're2js',
]
/** Templates, and the cache of replies. */
const promptPackages = [
  '@npmcli/fs',
  'a-sync-waterfall',
  'asap',
  'cacache',
  'fs-minipass',
  'glob',
  'lru-cache',
  'minipass',
  'minipass-collect',
  'minipass-flush',
  'minipass-pipeline',
  'nunjucks',
  'semver',
  'ssri',
]

test.each<[name: string, more: readonly string[], mostHeap: number]>([
  // 18, 21 and 26 MB were measured.
  ['chunk-text', [], 25e6],
  ['text-completion', modelPackages, 30e6],
  ['prompt', [...modelPackages, ...promptPackages], 37e6],
])('%s loads only what it handles', async (name, more, mostHeap) => {
  const { packages, own, hasFetch, heap } = await loadedBy(name)
  expect(packages.filter((each) => !common.includes(each) && !more.includes(each))).toEqual([])
  expect(own.filter((file) => /^src\/(evaluation|documents\/(html|pdf|read))/.test(file))).toEqual([])
  expect(own).not.toContain('src/ontology/parse')
  expect(hasFetch).toBe(false)
  expect(heap).toBeLessThan(mostHeap)
})

test('a process with all processors loads no parser of documents or RDF, and no client package', async () => {
  const { packages, own } = await loadedBy()
  const refused = ['n3', 'jsonld-streaming-parser', 'rdfxml-streaming-parser', 'html-to-text', 'unpdf']
  for (const name of [...refused, 'openai', 'fastify', 'compromise', 'minisearch', 'yaml', 'ws'])
    expect(packages).not.toContain(name)
  expect(own).not.toContain('src/ontology/parse')
})
