// A flow on TrustGraph's wire, and the other side of it: bytes as TrustGraph's processes write them.
import type { Broker, ReadMessage } from '../../src/broker/broker.ts'
import { kafkaTopic, pulsarTopic } from '../../src/trustgraph/names.ts'
import { createWire, type TrustGraphFlow, type Wire } from '../../src/trustgraph/wire.ts'

export const usual: TrustGraphFlow = { workspace: 'default', flow: 'default' }

/** The wire of the flow default/default. */
export function wireOf(trustgraph: Partial<TrustGraphFlow> = {}, broker: 'kafka' | 'pulsar' = 'kafka'): Wire {
  const flows = [{ workspace: 'default', flow: 'default', trustgraph: { ...usual, ...trustgraph } }]
  return createWire(flows, { space: 'gm', nameOf: broker === 'pulsar' ? pulsarTopic : kafkaTopic })
}

/** Publishes JSON as TrustGraph's processes do: without a key. */
export function publishJson(
  broker: Broker,
  topic: string,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  const bytes = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
  return broker.publish({ topic, key: '', value: bytes, headers, anySize: true })
}

/** The next `count` messages of a topic from its beginning, with their bodies. */
export async function readJson(
  broker: Broker,
  topic: string,
  count = 1,
): Promise<(ReadMessage & { readonly body: Record<string, unknown> })[]> {
  const found = []
  const signal = AbortSignal.timeout(20_000)
  for await (const entry of broker.read({ topic, from: 'earliest', until: 'never' }, signal)) {
    found.push({ ...entry, body: JSON.parse(Buffer.from(entry.value).toString()) as Record<string, unknown> })
    if (found.length === count) return found
  }
  throw new Error(`${topic} has ${found.length} messages instead of ${count}`)
}
