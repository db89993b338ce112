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

const ports = {
  chunk: { compacted: false, wired: true },
  prompt: { compacted: false, wired: true },
  status: { compacted: true },
}
const base = readConfig({ flags: { 'chunk-size': '1500' }, environment: {} })
const read = (text: string) => {
  const path = join(folder, 'flows.yaml')
  writeFileSync(path, text)
  return readFlows(path, base, { ports, processors: ['prompt', 'chunk-text'] })
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
  test('gives each flow its own options in addition to those of the process', () => {
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

  test('is JSON too', () => {
    const [flow] = read('{"flows": [{"workspace": "acme", "chunk-size": 900}]}')
    expect(flow!.options).toMatchObject({ workspace: 'acme', 'chunk-size': 900 })
  })

  test('may say how the topics of a flow are made', () => {
    const flows = read(
      'flows:\n  - {flow: a, topics: {chunk: {partitions: 24}, prompt: {partitions: 6, retention-days: 2}}}\n  - {flow: b}\n',
    )
    expect(flows.map(({ topics }) => topics)).toEqual([
      { chunk: { partitions: 24 }, prompt: { partitions: 6, retentionMs: 2 * 24 * 3600 * 1000 } },
      {},
    ])
  })

  test.each([
    ['[chunk]', /flow 1: topics must be an object, such as/],
    ['{chnk: {partitions: 1}}', /flow 1: topics: there is no topic chnk\. Did you mean chunk\?/],
    [
      '{gm.flow.chunk: {partitions: 1}}',
      /there is no topic gm\.flow\.chunk\. There are: chunk, prompt, status\./,
    ],
    ['{chunk: 24}', /topics: chunk must be an object, such as \{partitions: 24\}/],
    ['{chunk: {partition: 24}}', /topics: chunk: a topic has no key partition\. Did you mean partitions\?/],
    ['{chunk: {partitions: 0}}', /topics: chunk: partitions must be a whole number from 1 on, not 0/],
    ['{chunk: {retention-days: long}}', /chunk: retention-days must be a whole number from 1 on, not "long"/],
    ['{status: {retention-days: 1}}', /topics: status: retention-days: it keeps the latest/],
    ['&t {chunk: *t}', /topics: chunk: a topic has no key chunk\. There are: partitions, retention-days/],
  ])('is refused for topics that are %s', (topics, reason) => {
    const text = `flows:\n  - workspace: a\n    topics: ${topics}\n`
    expect(refusal(text)).toMatch(/^configuration_invalid: .*flows\.yaml: flow 1: topics/)
    expect(refusal(text)).toMatch(reason)
  })

  test('is refused with file, flow and a suggestion for an unknown key', () => {
    expect(refusal('flows:\n  - {workspace: a, chunk-sise: 9}\n')).toMatch(
      /^configuration_invalid: .*flows\.yaml: flow 1: .*chunk-sise.*Did you mean chunk-size\?/,
    )
    expect(refusal('flows:\n  - {workspace: a}\n  - {workspace: b, colour: red}\n')).toMatch(
      /flow 2: a flow has no key colour\. There are: workspace, flow, .*text-retention, topics, wire, trustgraph\./,
    )
    expect(refusal('flow: []\n')).toMatch(/there is no key flow\. Did you mean flows\?/)
    expect(refusal('flows: []\nspace: gm\n')).toMatch(/there is no key space\. There is: flows\./)
    expect(refusal('{}\n')).toMatch(/must hold a list `flows`/)
    expect(refusal('flows:\n  - {workspace: a, concurrency: 9}\n')).toMatch(
      /a flow has no key concurrency: it is one of the whole process, --concurrency\./,
    )
  })

  test('is refused when two flows would share their topics', () => {
    expect(refusal('flows: [{workspace: a, flow: b}, {flow: b}, {workspace: a, flow: b}]\n')).toMatch(
      /^configuration_invalid: .*flows\.yaml: flows 1 and 3 are both called a\/b, .*Give one of them another workspace or flow\./,
    )
    expect(refusal('flows: [{}, {workspace: default}]\n')).toMatch(/1 and 2 are both called default\/default/)
  })

  test('is refused when Kafka would take the names of two flows for one; Pulsar does not', () => {
    const text = 'flows: [{workspace: a_b, flow: c}, {workspace: a, flow: b_c}]\n'
    expect(refusal(text)).toMatch(
      /flows 1 and 2, a_b\/c and a\/b_c, would share their topics: .*Use - instead/,
    )
    const onPulsar = readConfig({ flags: { broker: 'pulsar+ws://127.0.0.1:8080' }, environment: {} })
    const path = join(folder, 'pulsar.yaml')
    writeFileSync(path, text)
    expect(readFlows(path, onPulsar, { ports })).toHaveLength(2)
  })

  test('is refused when a name cannot be part of a topic', () => {
    expect(refusal('flows: [{workspace: "A b"}]\n')).toMatch(/workspace may hold/)
  })

  test('with a cycle, a wrong value, no flow or no YAML is refused', () => {
    expect(refusal('flows: &a\n  - {workspace: x, chunk-size: *a}\n')).toMatch(
      /chunk-size .*must be a whole number/,
    )
    expect(refusal('flows: &a\n  - *a\n')).toMatch(/must be an object/)
    expect(refusal('flows: []\n')).toMatch(/no flow/)
    expect(refusal('flows: [{workspace: , temperature: null, topics: }]\n')).toBe('taken')
    expect(refusal('flows: {a: 1\n')).toMatch(/configuration_invalid/)
    expect(refusal('flows: [{workspace: a, chunk-size: many}]\n')).toMatch(/chunk-size/)
  })
})

describe('a flow on TrustGraph’s wire', () => {
  test('has TrustGraph’s ids, which are its own names by default, and the identifiers of topics', () => {
    const [plain, full] = read(
      'flows:\n  - {workspace: acme, flow: papers, wire: trustgraph}\n' +
        '  - {flow: two, wire: trustgraph, trustgraph: {workspace: Acme.Corp, flow: Papers.v1, group: beside, processors: {prompt: p}},' +
        ' topics: {chunk: {identifier: "flow:tg:c", partitions: 2}}}\n',
    )
    expect(plain!.trustgraph).toEqual({
      ...{ workspace: 'acme', flow: 'papers', group: 'replace', processors: {}, follow: false },
    })
    expect(full!.trustgraph).toMatchObject({
      ...{ workspace: 'Acme.Corp', flow: 'Papers.v1', group: 'beside', processors: { prompt: 'p' } },
    })
    expect(full!.topics).toEqual({ chunk: { identifier: 'flow:tg:c', partitions: 2 } })
    expect(read('flows: [{flow: a}]\n')[0]!.trustgraph).toBeUndefined()
  })

  test.each([
    ['{wire: tg}', /wire must be graphmill or trustgraph, not "tg"/],
    ['{trustgraph: {workspace: A}}', /counts for a flow with wire: trustgraph only/],
    ['{wire: trustgraph, trustgraph: [A]}', /trustgraph must be an object/],
    ['{wire: trustgraph, trustgraph: {workspaces: A}}', /no key workspaces.* mean workspace\?/],
    ['{wire: trustgraph, trustgraph: {flow: "a:b"}}', /without colons/],
    ['{wire: trustgraph, trustgraph: {group: both}}', /group must be replace or beside/],
    ['{wire: trustgraph, trustgraph: {processors: {promt: x}}}', /no processor promt.* mean prompt\?/],
    ['{topics: {chunk: {identifier: "flow:tg:c"}}}', /counts for a flow with wire: trustgraph only/],
    ['{wire: trustgraph, topics: {status: {identifier: "flow:tg:c"}}}', /always our own/],
    ['{wire: trustgraph, topics: {chunk: {identifier: 5}}}', /must be a text/],
  ])('is refused: %s', (flow, message) => {
    expect(refusal(`flows: [${flow}]\n`)).toMatch(message)
  })
})
