import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readOntologyBounded } from '../../src/ontology/bounded-load.ts'
import { readOntology } from '../../src/ontology/load.ts'
import { openOntologies } from '../../src/ontology/ontologies.ts'

const file = (path: string, text: string) => ({ path, bytes: Buffer.from(text) })
const good = file(
  'good.ttl',
  `@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<urn:Mill> a owl:Class; rdfs:label "Mill". <urn:turns> a owl:ObjectProperty; rdfs:domain <urn:Mill> .`,
)
const levels = 20_000
const arrays = file(
  'arrays.jsonld',
  `{"@context":{"@vocab":"urn:"},"@id":"urn:a","p":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
)
const nested = file(
  'nested.rdf',
  `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="urn:">${'<e:A><e:p>'.repeat(levels / 2)}${'</e:p></e:A>'.repeat(levels / 2)}</rdf:RDF>`,
)
/** Lists that hold one another many times over: few statements, and more ways through them than can be gone. */
const lists = file(
  'lists.ttl',
  `@prefix owl: <http://www.w3.org/2002/07/owl#> .
<urn:A> a owl:Class; <http://www.w3.org/2000/01/rdf-schema#subClassOf> _:l0 .
${Array.from({ length: 9 }, (_, level) => `_:l${level} owl:intersectionOf (${`_:l${level + 1} `.repeat(50)}) .`).join('\n')}`,
)

test('gives what reading in this process gives', async () => {
  const broken = file('broken.ttl', '<urn:a> <urn:b>')
  for (const files of [[good], [good, broken], []])
    expect(await readOntologyBounded(files)).toEqual(await readOntology(files))
})

test.each([arrays, lists])(
  'a hostile file is a problem with its name, and does no harm to this process: $path',
  async (hostile) => {
    const before = process.memoryUsage().rss
    const { problems } = await readOntologyBounded([good, hostile], { memoryMb: 256, seconds: 6 })
    expect(problems).toEqual([
      {
        code: 'ontology_too_large',
        file: hostile.path,
        message: expect.stringMatching(/--document-(memory|timeout)/),
      },
    ])
    expect(process.memoryUsage().rss - before).toBeLessThan(256 * 1024 * 1024)
  },
)

test('RDF/XML of 20,000 levels is read, or is a problem with its name', async () => {
  const { problems } = await readOntologyBounded([good, nested], { memoryMb: 256, seconds: 6 })
  expect(problems).toEqual([expect.objectContaining({ file: nested.path })])
  expect(['ontology_invalid', 'ontology_too_large']).toContain(problems[0]!.code)
})

test.skipIf(process.platform === 'win32')(
  'a special file in a folder of ontologies, or one that is too large, is a problem with its name',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'graphmill-bounded-'))
    const at = (name: string) => join(folder, name)
    try {
      await writeFile(at(good.path), good.bytes)
      execFileSync('mkfifo', [at('pipe.ttl')])
      await symlink('/dev/zero', at('zero.ttl'))
      const message = 'it is a pipe, a socket or a device'
      expect((await readOntologyBounded([folder])).problems).toEqual([
        { code: 'ontology_invalid', file: at('pipe.ttl'), message },
        { code: 'ontology_invalid', file: at('zero.ttl'), message },
      ])
      await writeFile(at('large.nt'), '')
      await truncate(at('large.nt'), 33 * 1024 * 1024)
      const { problems } = await readOntologyBounded([at('large.nt')], { memoryMb: 128, seconds: 60 })
      expect(problems).toEqual([
        {
          code: 'ontology_too_large',
          file: at('large.nt'),
          message: 'the ontologies have more than 32 MiB, a quarter of --document-memory.',
        },
      ])
    } finally {
      await rm(folder, { recursive: true })
    }
  },
)

test('the limits apply to the ontologies of a flow, which stay unchanged', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-bounded-'))
  const path = join(folder, good.path)
  await writeFile(path, good.bytes)
  const ontologies = await openOntologies({ paths: [folder], budget: 2000 })
  try {
    const { version } = ontologies.current().summary
    await writeFile(join(folder, lists.path), lists.bytes)
    const limits = { memoryMb: 256, seconds: 5 }
    await expect(ontologies.reload({ paths: [folder], budget: 2000, limits })).rejects.toMatchObject({
      code: 'ontology_too_large',
    })
    expect(ontologies.current().summary.version).toBe(version)
  } finally {
    await ontologies.close()
    await rm(folder, { recursive: true })
  }
})
