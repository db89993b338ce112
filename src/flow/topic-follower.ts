// Follows a compacted topic of a flow, from its beginning and for as long as the process runs. What it tells is not needed to handle
// messages: without it, more is done than necessary. So no fault of it ends the process.
import type { Logger } from 'pino'
import type { Broker } from '../broker/broker.ts'
import { toGraphmillError } from '../errors.ts'
import type { Message } from '../messages/envelope.ts'
import { pause } from '../wait.ts'
import { type CompactedPort, type FlowTopics, type OutputPorts, outputRoute, payloadOf } from './ports.ts'
import { decodeEntry, type SchemasTopic } from './schemas-topic.ts'

/** How long a topic that is missing, or a fault, is waited for. */
const againMs = 30_000

export interface FollowedTopic<P extends CompactedPort> {
  readonly port: P
  readonly flow: FlowTopics
  /** Takes the next message. */
  readonly take: (message: Message<OutputPorts[P]>) => Promise<void> | void
  /** What is logged when the topic can't be read. */
  readonly warning: string
}

export interface TopicFollowerOptions {
  readonly broker: Broker
  readonly schemas: SchemasTopic
  readonly log: Logger
}

/** Ends when the signal aborts. */
export async function followTopic<P extends CompactedPort>(
  { port, flow, take, warning }: FollowedTopic<P>,
  { broker, schemas, log }: TopicFollowerOptions,
  signal: AbortSignal,
): Promise<void> {
  const { topic } = outputRoute(port, flow)
  const onUnreadable = () => undefined // the processor that writes the topic reads it too, and reports this
  let positions: Record<number, string> = {}
  while (!signal.aborted) {
    try {
      for await (const entry of broker.read({ topic, from: positions, until: 'never' }, signal)) {
        const message = await decodeEntry(entry, payloadOf[port], { schemas, signal, onUnreadable })
        if (message) await take(message)
        positions = { ...positions, [entry.partition]: entry.position }
      }
    } catch (thrown) {
      const err = toGraphmillError(thrown)
      // Before the first process that writes it runs, there is no such topic.
      if (err.code !== 'topic_missing' && !signal.aborted) log.warn({ topic, err }, warning)
      await pause(againMs, signal)
    }
  }
}
