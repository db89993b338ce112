// Reading all that a topic holds, for commands that print a whole.
import type { Broker, ReadMessage } from '../broker/broker.ts'
import type { OnUnreadable } from '../flow/schemas-topic.ts'
import { failureText } from './failure.ts'

/** Says which entry is left out, and why. */
export const passOver: OnUnreadable = ({ topic, partition, position }, error) =>
  void process.stderr.write(`passed over ${topic}:${partition}:${position}: ${failureText(error)}\n`)

/** What the topic holds now. Throws the signal's reason where that aborts first: what came until then is not the whole. */
export async function* readToEnd(
  broker: Broker,
  topic: string,
  signal: AbortSignal,
): AsyncGenerator<ReadMessage, void> {
  yield* broker.read({ topic, from: 'earliest', until: 'end' }, signal)
  signal.throwIfAborted()
}
