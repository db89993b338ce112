// What a bare loop needs to repeat a recorded execution: which messages follow from which, and the calls between them.
import type { ReadMessage } from '../src/broker/broker.ts'
import type { Message } from '../src/messages/envelope.ts'
import { loadCatalogue } from '../src/prompt/catalogue/catalogue.ts'
import { decodeTerms } from '../src/prompt/catalogue/terms.ts'

/** One input of one processor. */
export interface Line {
  readonly processor: string
  readonly topic: string
}

export interface Recorded extends ReadMessage {
  readonly message: Message
}

export interface RecordedFlow {
  readonly brokers: readonly string[]
  readonly llmUrl: string
  readonly lines: readonly Line[]
  readonly recorded: readonly Recorded[]
  /** Maps the topics of the recorded execution to those of this one. */
  readonly topicOf: (recorded: string) => string
}

export interface Outgoing {
  readonly topic: string
  readonly key: string
  readonly value: Uint8Array
  readonly headers: Readonly<Record<string, string>>
}

/** Plain data, so that it can be sent to a thread. */
export interface Script {
  readonly brokers: readonly string[]
  readonly llmUrl: string
  readonly lines: readonly Line[]
  /** The messages that no other message of the recording led to. */
  readonly first: readonly Outgoing[]
  /** The messages that a message leads to, by its processor and its id. */
  readonly children: ReadonlyMap<string, readonly Outgoing[]>
  /** Bodies of calls, by the id of their request. */
  readonly calls: ReadonlyMap<string, string>
  /** The number of messages to be read. */
  readonly expected: number
}

export async function scriptOf({ brokers, llmUrl, lines, recorded, topicOf }: RecordedFlow): Promise<Script> {
  const outgoing = ({ topic, key, value, headers }: Recorded): Outgoing => {
    return { topic: topicOf(topic), key, value, headers: { ...headers } }
  }
  const children = new Map<string, Outgoing[]>()
  const calls = new Map<string, string>()
  const prompts = await loadCatalogue()
  for (const one of recorded) {
    const { message } = one
    const cause = `${message.source} ${message.causationId}`
    children.set(cause, [...(children.get(cause) ?? []), outgoing(one)])
    if (message.type !== 'PromptRequest') continue
    const { system, user } = prompts.get(message.payload.promptId).render(decodeTerms(message.payload.terms))
    const messages = [
      { role: 'system', content: system },
      { role: 'user', content: user },
    ]
    const options = { stream: true, stream_options: { include_usage: true } }
    calls.set(message.id, JSON.stringify({ model: 'test-model', messages, ...options }))
  }
  const readOf = ({ topic }: Line) => recorded.filter((entry) => entry.topic === topic).length
  return {
    brokers,
    llmUrl,
    lines: lines.map(({ processor, topic }) => ({ processor, topic: topicOf(topic) })),
    first: recorded.filter(({ message }) => message.type === 'TextDocument').map(outgoing),
    children,
    calls,
    expected: lines.reduce((sum, line) => sum + readOf(line), 0),
  }
}
