// Reading everything on a topic, for commands that print a complete result.
import type { Broker, ReadMessage } from '../broker/broker.ts'
import type { OnUnreadable } from '../flow/schemas-topic.ts'
import { failureText } from './failure.ts'

/** Reports on standard error which entry is skipped, and why. */
export const reportSkipped: OnUnreadable = ({ topic, partition, position }, error) =>
  void process.stderr.write(`skipped ${topic}:${partition}:${position}: ${failureText(error)}\n`)

/** The current content of the topic. Throws the signal's reason when that aborts first, because the result would be incomplete. */
export async function* readToEnd(
  broker: Broker,
  topic: string,
  signal: AbortSignal,
): AsyncGenerator<ReadMessage, void> {
  yield* broker.read({ topic, from: 'earliest', until: 'end' }, signal)
  signal.throwIfAborted()
}
