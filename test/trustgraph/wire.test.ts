// Which topics and groups of ours stand for which of TrustGraph's, and which names are refused.
import { describe, expect, test } from 'vitest'
import { kafkaTopic, pulsarTopic } from '../../src/trustgraph/names.ts'
import { createWire, type TrustGraphFlow, topicNaming, type WiredFlow } from '../../src/trustgraph/wire.ts'

const flowOf = (trustgraph: Partial<TrustGraphFlow> = {}, flow = 'f'): WiredFlow => ({
  ...{ workspace: 'w', flow },
  trustgraph: { workspace: 'Acme.Corp', flow: 'Papers.v1', ...trustgraph },
})
const wireOf = (...flows: WiredFlow[]) => createWire(flows, { space: 'gm', nameOf: kafkaTopic })

describe('the wire of a flow', () => {
  test('has a topic of TrustGraph’s for each port that TrustGraph has, and for no other', () => {
    const wire = wireOf(flowOf())
    expect(wire.topics.map((topic) => wire.find(topic)!.name)).toEqual(
      [
        ...['flow.text-document-load', 'flow.chunk-load', 'flow.triples-store', 'flow.entity-contexts-load'],
        ...[
          'flow.rows-store',
          'request.prompt',
          'response.prompt',
          'request.prompt-rag',
          'response.prompt-rag',
        ],
        ...['request.text-completion', 'response.text-completion'],
      ].map((name) => `tg.${name}.Acme.Corp.Papers.v1`),
    )
    for (const role of ['definitions', 'relationships', 'topics', 'rejected', 'progress'])
      expect(wire.find(`gm.flow.${role}.w.f`)).toBeUndefined()
    for (const topic of [
      'gm.notify.status.w.f',
      'gm.notify.schemas',
      'gm.flow.chunk.w.other',
      'xx.flow.chunk.w.f',
    ])
      expect(wire.find(topic)).toBeUndefined()
  })

  test('has one response topic for all receivers of a lane', () => {
    const wire = wireOf(flowOf())
    const found = ['extract-rows', 'trustgraph', 'trustgraph-live', 'client-1-live'].map((receiver) =>
      wire.find(`gm.response.prompt.${receiver}.w.f`),
    )
    expect(found.map((each) => each!.port)).toEqual([
      ...['prompt-reply', 'prompt-reply'],
      ...['prompt-live-reply', 'prompt-live-reply'],
    ])
    expect(found.map((each) => each!.receiver)).toEqual([
      'extract-rows',
      undefined,
      undefined,
      'client-1-live',
    ])
  })

  test('has the dead letters of a topic beside it, and persistent ones of a topic that is not', () => {
    expect(wireOf(flowOf()).find('gm.flow.chunk.w.f.dead')).toMatchObject({
      name: 'tg.flow.chunk-load.Acme.Corp.Papers.v1.dead',
      isDead: true,
    })
    const onPulsar = createWire([flowOf()], { space: 'gm', nameOf: pulsarTopic })
    expect(onPulsar.find('gm.request.prompt.w.f')!.name).toBe(
      'non-persistent://tg/request/prompt:Acme.Corp:Papers.v1',
    )
    expect(onPulsar.find('gm.request.prompt.w.f.dead')!.name).toBe(
      'persistent://tg/request/prompt:Acme.Corp:Papers.v1.dead',
    )
  })

  test('has the groups of TrustGraph’s processors, or groups of its own beside them', () => {
    const groups = ['extract-definitions.chunk', 'prompt.prompt', 'prompt.prompt-live', 'extract-rows.prompt']
    const groupsOf = (flow: WiredFlow) => groups.map((group) => wireOf(flow).groupOf(`gm.${group}.w.f`))
    expect(groupsOf(flowOf({ processors: { prompt: 'my-prompt' } }))).toEqual([
      'kg-extract-definitions--Acme.Corp--Papers.v1--input',
      'my-prompt--Acme.Corp--Papers.v1--request',
      'prompt-rag--Acme.Corp--Papers.v1--request',
      undefined, // TrustGraph's clients read replies in groups that live as long as they do
    ])
    expect(groupsOf(flowOf({ group: 'beside' }))).toEqual([undefined, undefined, undefined, undefined])
    expect(wireOf(flowOf()).groupOf('gm.emit-triples.definitions.w.f')).toBeUndefined()
  })

  test.each([
    [
      'two identifiers with one name',
      { identifiers: { chunk: 'flow:tg:a:b', rows: 'flow:tg:a.b' } },
      /same topic/,
    ],
    [
      'one identifier for two ports',
      { identifiers: { chunk: 'flow:tg:a', rows: 'flow:tg:a' } },
      /have the identifier/,
    ],
    ['a name of ours', { identifiers: { chunk: 'flow:gm:definitions:w:f' } }, /topic name of graphmill/],
    ['no identifier', { identifiers: { chunk: 'stream:tg:x' } }, /no identifier of TrustGraph/],
    ['a name that Kafka refuses', { workspace: 'käse' }, /Kafka/],
  ])('is refused for %s', (_, trustgraph, message) => {
    expect(() => wireOf(flowOf(trustgraph))).toThrow(message)
    expect(() => wireOf(flowOf(trustgraph))).toThrow(
      expect.objectContaining({ code: 'configuration_invalid' }),
    )
  })

  test('is refused for two flows with the same topics', () => {
    expect(() => wireOf(flowOf(), flowOf({}, 'g'))).toThrow(/Each port of each flow needs its own/)
  })

  test('names topics as the kind of broker does', () => {
    const name = (url: string | undefined) => topicNaming(url)('flow:tg:chunk-load:W:F')
    expect(['kafka://h', 'pulsar+ws://h', 'pulsar+ssl://h'].map(name)).toEqual([
      'tg.flow.chunk-load.W.F',
      ...Array(2).fill('persistent://tg/flow/chunk-load:W:F'),
    ])
  })
})
