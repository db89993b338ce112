// Ports: the names that processors have for topics. A port has one payload type, one topic per flow and one kind of key.
import { groupName, parseTopic, type TopicOverrides, topicName, topicRoles } from '../broker/topics.ts'
import { GraphmillError } from '../errors.ts'
import type { Message } from '../messages/envelope.ts'
import type { PayloadInits } from '../messages/generated.ts'
import type { WirePort } from '../trustgraph/wire.ts'

/** The payload's name, for each port that a processor may yield to. */
export const payloadOf = {
  document: 'TextDocument',
  chunk: 'Chunk',
  prompt: 'PromptRequest',
  'prompt-live': 'PromptRequest',
  'text-completion': 'TextCompletionRequest',
  definitions: 'Definitions',
  relationships: 'Relationships',
  topics: 'Topics',
  rows: 'Rows',
  'ontology-entities': 'OntologyEntities',
  'ontology-relationships': 'OntologyRelationships',
  'ontology-attributes': 'OntologyAttributes',
  triples: 'Triples',
  'entity-contexts': 'EntityContexts',
  rejected: 'Rejected',
  progress: 'Progress',
  status: 'Status',
  contents: 'Contents',
  retractions: 'Retractions',
  reply: 'PromptResponse',
  'text-reply': 'TextCompletionResponse',
} as const

/** The ports whose messages go to the `replyTo` of the message that is handled. */
export type ReplyPort = 'reply' | 'text-reply'

/** What may be yielded, by the name of its payload. */
export type OutputPorts = typeof payloadOf

/** What arrives at a port, by the name of its payload. `prompt-reply` is the processor's own response topic. */
export type InputPorts = Omit<OutputPorts, ReplyPort> & { readonly 'prompt-reply': 'PromptResponse' }

/** A topic of a flow that a processor may read. */
export type InputPort = keyof InputPorts
/** A topic of a flow that a processor may write, or `reply`: that of the sender of a request. */
export type OutputPort = keyof OutputPorts

export const isReply = (port: OutputPort): port is ReplyPort => port === 'reply' || port === 'text-reply'

/** How the topics of a flow are made when not as usual, by port. */
export type TopicSettings = Readonly<Partial<Record<InputPort | WirePort, TopicOverrides>>>

/** The ports of compacted topics, which hold the newest message of each document. */
export type CompactedPort = 'status' | 'contents' | 'retractions'

/** The messages of a port. */
export type MessageOf<P extends InputPort> = Message<InputPorts[P]>

/** The payload that a port takes. */
export type PayloadOf<P extends OutputPort> = PayloadInits[OutputPorts[P]]

/** The payload that an input port takes. */
export function payloadAt(port: InputPort): InputPorts[InputPort] {
  return port === 'prompt-reply' ? 'PromptResponse' : payloadOf[port]
}

/** Every port that has a topic in a flow; `prompt-reply` has one for each processor that reads it. */
export const inputPorts: readonly InputPort[] = [
  ...(Object.keys(payloadOf) as OutputPort[]).filter((port) => !isReply(port)),
  'prompt-reply',
]

/** Where a port's messages go: a topic, and the envelope's field that keys them (`id` for requests). */
export interface Route {
  readonly topic: string
  readonly key: 'id' | 'correlationId' | 'documentId' | 'chunkId'
}

/** What the topic names of a flow have in common. */
export interface FlowTopics {
  readonly space: string
  readonly workspace: string
  readonly flow: string
}

/** The topic that a processor reads at a port. */
export function inputTopic(port: InputPort, topics: FlowTopics, processor: string): string {
  if (port === 'prompt-reply')
    return topicName({ ...pick(topics), class: 'response', role: 'prompt', receiver: processor })
  return outputRoute(port, topics).topic
}

/** The group by which the replicas of a processor share a port. */
export function inputGroup(port: InputPort, topics: FlowTopics, processor: string): string {
  return groupName({ ...pick(topics), processor, role: port === 'prompt-reply' ? 'prompt' : port })
}

/** Where the outputs of a port go. Replies go to their `replyTo` instead, see `replyRoute`. */
export function outputRoute(port: Exclude<OutputPort, ReplyPort>, topics: FlowTopics): Route {
  if (port === 'prompt' || port === 'prompt-live' || port === 'text-completion')
    return { topic: topicName({ ...pick(topics), class: 'request', role: port }), key: 'id' }
  if (port === 'status' || port === 'contents' || port === 'retractions')
    return { topic: topicName({ ...pick(topics), class: 'notify', role: port }), key: 'documentId' }
  return {
    topic: topicName({ ...pick(topics), class: 'flow', role: port }),
    key: topicRoles.flow[port].key as Route['key'],
  }
}

/** The route of a reply. Throws `reply_topic_refused` unless `replyTo` is a response topic of the same workspace and flow. */
export function replyRoute(replyTo: string | null, topics: FlowTopics): Route {
  const parts = replyTo ? parseTopic(replyTo) : undefined
  const fits =
    parts?.class === 'response' &&
    !parts.dead &&
    parts.space === topics.space &&
    parts.workspace === topics.workspace &&
    parts.flow === topics.flow
  if (!fits)
    throw new GraphmillError(
      'reply_topic_refused',
      `${replyTo ?? 'No replyTo'} is not a response topic of this flow.`,
    )
  return { topic: replyTo!, key: 'correlationId' }
}

const pick = ({ space, workspace, flow }: FlowTopics) => ({ space, workspace, flow })
