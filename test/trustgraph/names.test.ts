import { expect, test } from 'vitest'
import {
  groupName,
  kafkaTopic,
  pulsarTopic,
  refuseCollisions,
  usualIdentifiers,
} from '../../src/trustgraph/names.ts'

test.each([
  ['flow:tg:chunk-load:ws:f', 'tg.flow.chunk-load.ws.f', 'persistent://tg/flow/chunk-load:ws:f'],
  [
    'request:tg:prompt:My.Ws:F-2',
    'tg.request.prompt.My.Ws.F-2',
    'non-persistent://tg/request/prompt:My.Ws:F-2',
  ],
  ['notify:tg:config', 'tg.notify.config', 'non-persistent://tg/notify/config'],
  ['plain', 'tg.flow.plain', 'persistent://tg/flow/plain'],
])('%s is %s on Kafka and %s on Pulsar', (identifier, onKafka, onPulsar) => {
  expect(kafkaTopic(identifier)).toBe(onKafka)
  expect(pulsarTopic(identifier)).toBe(onPulsar)
})

test('an identifier that is a name on Pulsar is used as it is', () => {
  expect(pulsarTopic('persistent://public/default/x:y')).toBe('persistent://public/default/x:y')
})

test.each(['flow:tg', 'flow::x', 'other:tg:x', ':tg:x'])('%s is no identifier', (identifier) => {
  expect(() => kafkaTopic(identifier)).toThrow('is no identifier of TrustGraph')
})

test('the group of a processor is TrustGraph’s', () => {
  expect(groupName('kg-extract-definitions', 'My.Ws', 'F', 'input')).toBe(
    'kg-extract-definitions--My.Ws--F--input',
  )
})

test('a flow has TrustGraph’s usual topics', () => {
  expect(usualIdentifiers('default', 'f')).toMatchObject({
    chunk: 'flow:tg:chunk-load:default:f',
    rows: 'flow:tg:rows-store:default:f',
    prompt: 'request:tg:prompt:default:f',
    'prompt-live-reply': 'response:tg:prompt-rag:default:f',
  })
})

test('two identifiers with one name on Kafka are refused, and the same twice is not', () => {
  const [a, b] = ['flow:tg:chunk-load:a:b.c', 'flow:tg:chunk-load:a.b:c']
  expect(() => refuseCollisions([a, b], kafkaTopic)).toThrow('are the same topic, tg.flow.chunk-load.a.b.c')
  expect(() => refuseCollisions([a, b], pulsarTopic)).not.toThrow()
  expect(() => refuseCollisions([a, a], kafkaTopic)).not.toThrow()
})
