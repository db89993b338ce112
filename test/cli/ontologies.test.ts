import { rmSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import { file, fixture, newFolder, turtle } from '../ontology/support/files.ts'
import { graphmill } from '../support/command.ts'

const folder = newFolder()
afterAll(() => rmSync(folder, { recursive: true }))

const document = file('mill.txt', 'The mill stands by the river.', folder)
const broken = file('broken.ttl', turtle('e:A a owl:Class ;\n  rdfs:label .'), folder)

describe('check', () => {
  test('names the ontologies that it read', async () => {
    const { code, stdout } = await graphmill(['check', '--ontologies', fixture('mills.ttl')], { cwd: folder })
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^ontologies: mills$/m) })
  })

  test('reports the file and line of an error, and exits with 1', async () => {
    const { code, stderr } = await graphmill(['check', '--ontologies', broken], { cwd: folder })
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(`${broken}:6: not Turtle`) })
  })
})

describe('extract', () => {
  test('refuses an invalid ontology before it does anything else', async () => {
    const { code, stdout, stderr } = await graphmill(['extract', document, '--ontologies', broken], {
      cwd: folder,
    })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toContain(`${broken}:6: not Turtle`)
    expect(stderr).toContain('[ontology_invalid]')
  })

  test('requires ontologies for the extractor ontology, and runs it by default if there are ontologies', async () => {
    const without = await graphmill(['extract', document, '--extractors', 'ontology'], { cwd: folder })
    expect(without).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/ontologies must name .*\[configuration_invalid\]/),
    })
    const { stdout } = await graphmill(['extract', document, '--ontologies', fixture('mills.ttl')], {
      cwd: folder,
    })
    expect(stdout).toContain(
      '<http://example.org/mills#Mill> <http://www.w3.org/2000/01/rdf-schema#subClassOf>',
    )
  })

  test('requires a model for embeddings', async () => {
    const flags = ['--ontologies', fixture('mills.ttl'), '--embeddings', 'http://127.0.0.1:9/v1']
    const { code, stderr } = await graphmill(['extract', document, ...flags], { cwd: folder })
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/embeddings-model .*\[configuration_invalid\]/),
    })
  })
})
