// Ports: the names by which processors speak of topics. A port has one payload type, one topic per flow and one kind of key.
import { groupName, parseTopic, type TopicOverrides, topicName, topicRoles } from '../broker/topics.ts'
import { GraphmillError } from '../errors.ts'
import type { Message } from '../messages/envelope.ts'
import type { PayloadInits } from '../messages/generated.ts'

/** What arrives at a port, by the name of its payload. `prompt-reply` is the processor's own response topic. */
export interface InputPorts {
  readonly document: 'TextDocument'
  readonly chunk: 'Chunk'
  readonly prompt: 'PromptRequest'
  readonly 'prompt-live': 'PromptRequest'
  readonly 'prompt-reply': 'PromptResponse'
  readonly 'text-completion': 'TextCompletionRequest'
  readonly definitions: 'Definitions'
  readonly relationships: 'Relationships'
  readonly topics: 'Topics'
  readonly rows: 'Rows'
  readonly 'ontology-entities': 'OntologyEntities'
  readonly 'ontology-relationships': 'OntologyRelationships'
  readonly 'ontology-attributes': 'OntologyAttributes'
  readonly triples: 'Triples'
  readonly 'entity-contexts': 'EntityContexts'
  readonly rejected: 'Rejected'
  readonly progress: 'Progress'
  readonly status: 'Status'
}

/** What may be yielded, by the name of its payload. `reply` and `text-reply` go to the `replyTo` of the message in hand. */
export interface OutputPorts extends Omit<InputPorts, 'prompt-reply'> {
  readonly reply: 'PromptResponse'
  readonly 'text-reply': 'TextCompletionResponse'
}

export type InputPort = keyof InputPorts
export type OutputPort = keyof OutputPorts

/** The ports whose messages go where the message in hand wants its answer. */
export type ReplyPort = 'reply' | 'text-reply'

export const isReply = (port: OutputPort): port is ReplyPort => port === 'reply' || port === 'text-reply'

/** How the topics of a flow are made where that is not the usual, by port. */
export type TopicSettings = Readonly<Partial<Record<InputPort, TopicOverrides>>>

/** The messages of a port. */
export type MessageOf<P extends InputPort> = Message<InputPorts[P]>

/** The payload that a port takes. */
export type PayloadOf<P extends OutputPort> = PayloadInits[OutputPorts[P]]

/** The payload's name, for each output port. */
export const payloadOf: { readonly [P in OutputPort]: OutputPorts[P] } = {
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
  reply: 'PromptResponse',
  'text-reply': 'TextCompletionResponse',
}

/** The payload that an input port takes. */
export function payloadAt(port: InputPort): InputPorts[InputPort] {
  return port === 'prompt-reply' ? 'PromptResponse' : payloadOf[port]
}

/** Every port that has a topic of its own in a flow, or one for each of its readers: `prompt-reply`. */
export const inputPorts: readonly InputPort[] = [
  ...(Object.keys(payloadOf) as OutputPort[]).filter((port) => !isReply(port)),
  'prompt-reply',
]

/** Where a port's messages go: a topic, and the envelope's field that keys them (`id` for requests). */
export interface Route {
  readonly topic: string
  readonly key: 'id' | 'correlationId' | 'documentId' | 'chunkId'
}

interface Place {
  readonly space: string
  readonly workspace: string
  readonly flow: string
}

/** The topic that a processor reads at a port. */
export function inputTopic(port: InputPort, place: Place, processor: string): string {
  if (port === 'prompt-reply')
    return topicName({ ...pick(place), class: 'response', role: 'prompt', receiver: processor })
  return outputRoute(port, place).topic
}

/** The group by which the replicas of a processor share a port. */
export function inputGroup(port: InputPort, place: Place, processor: string): string {
  return groupName({ ...pick(place), processor, role: port === 'prompt-reply' ? 'prompt' : port })
}

/** Where the outputs of a port go; replies go to their `replyTo` instead, see `replyRoute`. */
export function outputRoute(port: Exclude<OutputPort, ReplyPort>, place: Place): Route {
  if (port === 'prompt' || port === 'prompt-live' || port === 'text-completion')
    return { topic: topicName({ ...pick(place), class: 'request', role: port }), key: 'id' }
  if (port === 'status')
    return { topic: topicName({ ...pick(place), class: 'notify', role: port }), key: 'documentId' }
  return {
    topic: topicName({ ...pick(place), class: 'flow', role: port }),
    key: topicRoles.flow[port].key as Route['key'],
  }
}

/** The route of a reply. Throws `reply_topic_refused` unless `replyTo` is a response topic of the same workspace and flow. */
export function replyRoute(replyTo: string | null, place: Place): Route {
  const parts = replyTo ? parseTopic(replyTo) : undefined
  const fits =
    parts?.class === 'response' &&
    !parts.dead &&
    parts.space === place.space &&
    parts.workspace === place.workspace &&
    parts.flow === place.flow
  if (!fits)
    throw new GraphmillError(
      'reply_topic_refused',
      `${replyTo ?? 'No replyTo'} is not a response topic of this flow.`,
    )
  return { topic: replyTo!, key: 'correlationId' }
}

const pick = ({ space, workspace, flow }: Place) => ({ space, workspace, flow })
