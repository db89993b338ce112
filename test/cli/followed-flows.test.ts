import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { entriesOf, flowsOf, serving } from '../../src/cli/flows.ts'
import { followedFlows } from '../../src/cli/followed-flows.ts'
import { readConfig } from '../../src/config/config.ts'
import type { FlowConfig } from '../../src/config/flows.ts'
import type { AnyProcessor } from '../../src/flow/processor.ts'
import { snapshotOf } from '../support/trustgraph-config.ts'

let folder: string
let files = 0
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-followed-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function configOf(entries: readonly object[], flags: Record<string, unknown> = {}) {
  const path = join(folder, `${files++}.json`)
  writeFileSync(path, JSON.stringify({ flows: entries.map((entry) => ({ wire: 'trustgraph', ...entry })) }))
  return readConfig({ flags: { flows: path, ...flags }, environment: {} })
}

const every = { trustgraph: { workspace: '*', flow: '*', follow: true } }
const running = ['prompt', 'extract-definitions', 'extract-rows', 'extract-ontology', 'emit-triples']

function found(entries: readonly object[], content: Parameters<typeof snapshotOf>[0], names = running) {
  return followedFlows(entriesOf(configOf(entries)), snapshotOf(content), names)
}
function flowIn(entries: readonly object[], types: Record<string, Record<string, unknown>>, names = running) {
  const [one] = found(entries, { w: types }, names)
  if (!one || 'error' in one) throw one?.error ?? new Error('There is no flow.')
  return one.flow
}
const servedBy = (flow: FlowConfig, names: readonly string[]) =>
  serving(
    names.map((name) => ({ name }) as AnyProcessor),
    flow,
  ).map(({ name }) => name)

const prompt = { 'processor:prompt': { f: {} } }

describe('an entry for every workspace and flow', () => {
  test('stands for those that the service has, under names of ours that differ when theirs do', () => {
    const content = { w: prompt, W: prompt, 'w.': { 'processor:prompt': { F: {} } }, empty: {} }
    const names = found([every], content).map(({ name }) => name)
    expect(names).toEqual([
      expect.stringMatching(/^w-[0-9a-f]{8}\/f$/),
      'w/f',
      expect.stringMatching(/^w--[0-9a-f]{8}\/f-[0-9a-f]{8}$/),
    ])
    expect(new Set(names).size).toBe(3)
  })

  test('stands for no flow that an entry before it names', () => {
    const own = { workspace: 'w', flow: 'f', trustgraph: { follow: true }, model: 'mine' }
    const flows = found([own, every], { w: { 'processor:prompt': { f: {}, g: {} } } })
    expect(flows.map((each) => 'flow' in each && each.flow.options.model)).toEqual(['mine', undefined])
  })

  test('stands for no flow that another entry names by names of ours, whether that follows or not', () => {
    const types = { 'Acme.Corp': { 'processor:prompt': { F: {}, G: {}, H: {} } } }
    const named = (flow: string, follow: boolean) => ({
      ...{ workspace: 'acme', flow: flow.toLowerCase() },
      trustgraph: { workspace: 'Acme.Corp', flow, follow },
    })
    const flows = found([named('F', true), named('G', false), every], types)
    expect(flows.map((each) => 'flow' in each && each.flow.trustgraph?.flow)).toEqual(['F', 'H'])
    expect(flows[0]!.name).toBe('acme/f')
  })

  test('refuses a flow that would have the name of another one, and says which', () => {
    const own = { workspace: 'w', flow: 'f', trustgraph: { workspace: 'x', flow: 'y', follow: false } }
    const twice = { workspace: 'same', trustgraph: { workspace: '*', flow: '*', follow: true } }
    const flows = found([own, every, { ...twice, flow: 'one' }], { w: prompt })
    expect(flows).toEqual([
      {
        name: "w/f of TrustGraph's w/f",
        error: expect.objectContaining({
          code: 'configuration_invalid',
          message: expect.stringContaining("TrustGraph's flow w/f would have the name of another flow, w/f"),
        }),
      },
    ])
  })

  test('refuses a flow that has a topic of another one', () => {
    const request = 'request:tg:prompt:shared'
    const types = { 'processor:prompt': { f: { topics: { request } }, g: { topics: { request } } } }
    const flows = found([every], { w: types })
    expect(flows.map((each) => ('error' in each ? each.error.message : each.name))).toEqual([
      'w/f',
      expect.stringContaining(`Another flow has the topic ${request} too.`),
    ])
  })

  test('leaves out a flow whose topics have the names of another one', () => {
    const types = {
      'a.b': { 'processor:prompt': { c: {} } },
      a: { 'processor:prompt': { 'b.c': {}, d: {} } },
    }
    const flows = found([every], types, ['prompt'])
    expect(flows.map((each) => ('error' in each ? each.error.message : each.flow.trustgraph?.flow))).toEqual([
      'b.c',
      'd',
      expect.stringMatching(/same topic, tg\.flow\.text-document-load\.a\.b\.c/),
    ])
  })

  test('is no flow for other commands, and needs follow', () => {
    expect(flowsOf(configOf([every, { workspace: 'w', flow: 'f' }]))).toMatchObject([
      { options: { workspace: 'w', flow: 'f' } },
    ])
    expect(() => flowsOf(configOf([{ trustgraph: { flow: '*' } }]))).toThrow('flow: * needs follow: true')
  })
})

describe('a followed flow', () => {
  test('has the processors that the service has for it, and ours that have no counterpart there', () => {
    const flow = flowIn([every], { ...prompt, 'processor:kg-extract-definitions': { f: {} } })
    expect(servedBy(flow, [...running, 'text-completion', 'extract-relationships'])).toEqual([
      'prompt',
      'extract-definitions',
      'emit-triples',
    ])
  })

  test('has no extractor that has nothing to extract by, or that the entry leaves out', () => {
    const extractors = { 'processor:kg-extract-rows': { f: {} }, 'processor:kg-extract-ontology': { f: {} } }
    const without = flowIn([every], { ...prompt, ...extractors })
    expect(servedBy(without, running)).toEqual(['prompt', 'emit-triples'])
    const schema = { s: { name: 's', fields: [{ name: 'a', type: 'string' }] } }
    const ontology = { o: { classes: { A: {} } } }
    const withBoth = flowIn([every], { ...prompt, ...extractors, schema, ontology })
    expect(servedBy(withBoth, running)).toEqual([
      'prompt',
      'extract-rows',
      'extract-ontology',
      'emit-triples',
    ])
    const chosen = flowIn([{ ...every, extractors: ['rows'] }], {
      ...prompt,
      ...extractors,
      schema,
      ontology,
    })
    expect(servedBy(chosen, running)).toEqual(['prompt', 'extract-rows', 'emit-triples'])
  })

  test('has the parameters of the processors that run here', () => {
    const types = {
      'processor:chunker': { f: { parameters: { 'chunk-size': '500', 'chunk-overlap': '10' } } },
      'processor:text-completion': { f: { parameters: { model: 'theirs', temperature: '0.5' } } },
    }
    const chunking = flowIn([every], types, ['chunk-text', 'prompt']).options
    expect([chunking['chunk-size'], chunking['chunk-overlap'], chunking.model]).toEqual([500, 10, undefined])
    const { model, temperature } = flowIn([every], types, ['text-completion']).options
    expect([model, temperature]).toEqual(['theirs', 0.5])
  })

  test('has the topics of the service, unless the entry names them', () => {
    const types = {
      'processor:prompt': { f: { topics: { request: 'request:tg:theirs', response: 'response:tg:theirs' } } },
    }
    const topics = {
      prompt: { identifier: 'request:tg:mine', partitions: 4 },
      'prompt-reply': { partitions: 2 },
    }
    expect(flowIn([{ ...every, topics }], types).topics).toEqual({
      prompt: { identifier: 'request:tg:mine', partitions: 4 },
      'prompt-reply': { identifier: 'response:tg:theirs', partitions: 2 },
    })
  })

  test('that cannot be read leaves the others as they are', () => {
    const flows = found([every], {
      bad: { 'processor:chunker': { f: { parameters: { 'chunk-size': 'many' } } } },
      good: prompt,
    })
    expect(flows).toHaveLength(2)
    expect(found([every], { bad: { 'processor:prompt': { f: '{' } }, good: prompt })).toMatchObject([
      {
        name: 'bad/f',
        error: { code: 'configuration_invalid', message: expect.stringMatching(/^bad\/f: .*no JSON/) },
      },
      { name: 'good/f', flow: { options: { workspace: 'good', flow: 'f' } } },
    ])
    const chunking = found(
      [every],
      { bad: { 'processor:chunker': { f: { parameters: { 'chunk-size': 'many' } } } } },
      ['chunk-text'],
    )
    expect(chunking).toMatchObject([
      { error: { message: expect.stringContaining('parameters: chunk-size') } },
    ])
  })
})
