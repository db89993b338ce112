import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { readFlows } from '../../src/config/flows.ts'
import { GraphmillError } from '../../src/errors.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const base = readConfig({ flags: { 'chunk-size': '1500' }, environment: {} })
const read = (text: string) => {
  const path = join(folder, 'flows.yaml')
  writeFileSync(path, text)
  return readFlows(path, base)
}
const refusal = (text: string) => {
  try {
    read(text)
  } catch (error) {
    expect(error).toBeInstanceOf(GraphmillError)
    return `${(error as GraphmillError).code}: ${(error as Error).message}`
  }
  return 'taken'
}

describe('a flows file', () => {
  test('gives each flow its own options on top of those of the process', () => {
    const flows = read(
      'flows:\n  - {workspace: acme, flow: papers, chunk-size: 900, extractors: [topics]}\n  - {workspace: beta}\n',
    )
    expect(
      flows.map(({ options }) => [
        options.workspace,
        options.flow,
        options['chunk-size'],
        options.extractors,
      ]),
    ).toEqual([
      ['acme', 'papers', 900, ['topics']],
      ['beta', 'default', 1500, ['definitions', 'relationships', 'topics']],
    ])
  })

  test('may give a flow row schemas, ontologies and provenance of its own', () => {
    const text =
      'flows:\n  - {schemas: [rows], ontologies: [a.ttl, b.ttl], provenance: none, extractors: [rows]}\n'
    const [flow] = read(text)
    expect(flow!.options).toMatchObject({
      schemas: ['rows'],
      ontologies: ['a.ttl', 'b.ttl'],
      provenance: 'none',
    })
    expect(flow!.origins.extractors).toBe('file')
    expect(flow!.origins['chunk-size']).toBe('flag')
  })

  test('may give a flow a model and a temperature of its own', () => {
    const flows = read('flows:\n  - {flow: a, llm: ollama, model: m, temperature: 0}\n  - {flow: b}\n')
    expect(flows.map(({ options: { llm, model, temperature } }) => [llm, model, temperature])).toEqual([
      ['ollama', 'm', 0],
      [undefined, undefined, undefined],
    ])
    expect(refusal('flows: [{temperature: hot}]\n')).toMatch(
      /^configuration_invalid: .*flow 1: temperature must be a number from 0 on, not "hot"\./,
    )
  })

  test('is refused with file, flow and a suggestion for an unknown key', () => {
    expect(refusal('flows:\n  - {workspace: a, chunk-sise: 9}\n')).toMatch(
      /^configuration_invalid: .*flows\.yaml: flow 1: .*chunk-sise.*Did you mean chunk-size\?/,
    )
    expect(refusal('flow: []\n')).toMatch(/flows/)
    expect(refusal('flows:\n  - {workspace: a, broker: x}\n')).toMatch(/broker/)
  })

  test('is refused when two flows would share their topics', () => {
    expect(refusal('flows: [{workspace: a, flow: b}, {workspace: a, flow: b}]\n')).toMatch(
      /two flows are called a\/b/,
    )
  })

  test('is refused when a name cannot be part of a topic', () => {
    expect(refusal('flows: [{workspace: "A b"}]\n')).toMatch(/workspace may hold/)
  })

  test('with a loop, a wrong value, no flow or no YAML is refused, not followed', () => {
    expect(refusal('flows: &a\n  - {workspace: x, chunk-size: *a}\n')).toMatch(
      /chunk-size .*must be a whole number/,
    )
    expect(refusal('flows: &a\n  - *a\n')).toMatch(/must be an object/)
    expect(refusal('flows: []\n')).toMatch(/no flow/)
    expect(refusal('flows: {a: 1\n')).toMatch(/configuration_invalid/)
    expect(refusal('flows: [{workspace: a, chunk-size: many}]\n')).toMatch(/chunk-size/)
  })
})
