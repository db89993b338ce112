// Which topics and groups of ours stand for which of TrustGraph's. Inside graphmill a flow on TrustGraph's wire has our names; only
// the broker (`broker.ts`) and the codec (`wire-codec.ts`) that are made from a wire know the others.
import {
  deadTopic,
  parseTopic,
  sourceOfDead,
  type TopicOverrides,
  type TopicParts,
  topicName,
} from '../broker/topics.ts'
import { GraphmillError } from '../errors.ts'
import type { WireType } from './codec.ts'
import { groupName, kafkaTopic, pulsarTopic, refuseCollisions, usualIdentifiers } from './names.ts'

/** A port of ours whose topic is TrustGraph's; `…-reply` for the replies to its requests. */
export type WirePort = keyof ReturnType<typeof usualIdentifiers>

/** The type of the messages of each port that is on TrustGraph's wire. */
export const wireTypes: Readonly<Record<WirePort, WireType>> = {
  document: 'TextDocument',
  chunk: 'Chunk',
  triples: 'Triples',
  'entity-contexts': 'EntityContexts',
  rows: 'Rows',
  prompt: 'PromptRequest',
  'prompt-reply': 'PromptResponse',
  'prompt-live': 'PromptRequest',
  'prompt-live-reply': 'PromptResponse',
  'text-completion': 'TextCompletionRequest',
  'text-completion-reply': 'TextCompletionResponse',
}

/** TrustGraph's processor ids as its templates give them, and the ports of their inputs, by our processor and port. */
export const counterparts: Readonly<
  Record<string, Readonly<Partial<Record<WirePort, { readonly processor: string; readonly port: string }>>>>
> = {
  'chunk-text': { document: { processor: 'chunker', port: 'input' } },
  'extract-definitions': { chunk: { processor: 'kg-extract-definitions', port: 'input' } },
  'extract-relationships': { chunk: { processor: 'kg-extract-relationships', port: 'input' } },
  'extract-topics': { chunk: { processor: 'kg-extract-topics', port: 'input' } },
  'extract-agent-kg': { chunk: { processor: 'kg-extract-agent', port: 'input' } },
  'extract-rows': { chunk: { processor: 'kg-extract-rows', port: 'input' } },
  'extract-ontology': { chunk: { processor: 'kg-extract-ontology', port: 'input' } },
  prompt: {
    prompt: { processor: 'prompt', port: 'request' },
    'prompt-live': { processor: 'prompt-rag', port: 'request' },
  },
  'text-completion': { 'text-completion': { processor: 'text-completion', port: 'request' } },
  'store-triples': { triples: { processor: 'triples-write', port: 'input' } },
}

/** The flow of TrustGraph that a flow of ours belongs to. */
export interface TrustGraphFlow {
  /** TrustGraph's ids. */
  readonly workspace: string
  readonly flow: string
  /** Of the topics that are not called as usual. */
  readonly identifiers?: Readonly<Partial<Record<WirePort, string>>>
  /**
   * `replace` (default): our processors join the groups of TrustGraph's, whose processes must have stopped. `beside`: they have
   * groups of their own, so that both sides handle every message.
   */
  readonly group?: 'replace' | 'beside'
  /** TrustGraph's processor ids that differ from those of its templates, by our processor; `prompt-live` for `prompt` on that port. */
  readonly processors?: Readonly<Record<string, string>>
}

/** A flow of ours on TrustGraph's wire. */
export interface WiredFlow {
  readonly workspace: string
  readonly flow: string
  readonly trustgraph: TrustGraphFlow
}

/** A topic of ours that is one of TrustGraph's, or holds the dead letters of one. */
export interface WiredTopic {
  /** Its name on the broker. */
  readonly name: string
  readonly identifier: string
  readonly port: WirePort
  readonly type: WireType
  readonly isDead: boolean
  /** Our names. */
  readonly workspace: string
  readonly flow: string
  /** Of a response topic: who of ours reads the replies there; undefined for TrustGraph's clients. */
  readonly receiver: string | undefined
}

export interface Wire {
  /** Undefined for a topic that has our name on the broker, too. */
  find(topic: string): WiredTopic | undefined
  /** The processor of TrustGraph's that has the place of ours in a group of ours; undefined when it has none like it. */
  counterpartOf(group: string): string | undefined
  /** The group of TrustGraph's in place of ours; undefined for a group that stays ours. */
  groupOf(group: string): string | undefined
  /** The topic of ours to which the reply to a request goes, and `receiver` reads. Default: that of TrustGraph's clients. */
  replyTopic(request: WiredTopic, receiver?: string): string
  /** The topic, shared by all clients, of the replies to a request topic; undefined for other topics. */
  repliesTo(topic: string): { readonly topic: string; readonly port: WirePort } | undefined
  /** How the topic is made if it is missing, where that differs from topics of our own. */
  settingsOf(topic: string): TopicOverrides
  /** Our names of the topics of the flows, one for each port. */
  readonly topics: readonly string[]
}

export interface WireOptions {
  /** What our topic names begin with. */
  readonly space: string
  /** How the broker's kind writes an identifier: `kafkaTopic`, also for the memory broker, or `pulsarTopic`. */
  readonly nameOf: (identifier: string) => string
}

/** How a kind of broker names the topic of an identifier, by the URL of the broker. */
export function topicNaming(url: string | undefined): WireOptions['nameOf'] {
  return url?.startsWith('pulsar') ? pulsarTopic : kafkaTopic
}

const replyPorts: Readonly<Partial<Record<WirePort, WirePort>>> = {
  prompt: 'prompt-reply',
  'prompt-live': 'prompt-live-reply',
  'text-completion': 'text-completion-reply',
}

/** The largest message on TrustGraph's topics, in bytes: what its deployments take. */
export const maxWireBytes = 10 * 1024 * 1024
/** TrustGraph's clients read all that a response topic holds when they start; ours may be stopped for so long. In milliseconds. */
const replyRetentionMs = 24 * 3600 * 1000

/** The reader of replies that TrustGraph's clients get; each of them knows its own by their id. */
const foreign = 'trustgraph'
/** A receiver whose name ends so asks on `prompt-live`. */
export const liveSuffix = '-live'
const isForeign = (receiver: string) => receiver === foreign || receiver === foreign + liveSuffix

/** Throws `configuration_invalid` for identifiers that are none, and for topics that share a name. */
export function createWire(flows: readonly WiredFlow[], { space, nameOf }: WireOptions): Wire {
  const byName = new Map(flows.map((each) => [`${each.workspace}/${each.flow}`, withIdentifiers(each)]))
  const identifiers = [...byName.values()].flatMap((each) => Object.values(each.identifiers))
  refuseShared(identifiers)
  refuseCollisions(identifiers, nameOf)
  for (const identifier of identifiers) refuseOurs(identifier, nameOf(identifier), space)

  function find(topic: string): WiredTopic | undefined {
    const parts = parseTopic(topic)
    if (parts === undefined || !('workspace' in parts) || parts.space !== space) return undefined
    const { workspace, flow, dead: isDead } = parts
    const known = byName.get(`${workspace}/${flow}`)
    const port = known && portOf(parts)
    if (port === undefined) return undefined
    const identifier = known!.identifiers[port]
    // Dead letters must be kept, also those of a topic that keeps nothing.
    const name = isDead ? deadTopic(nameOf(identifier).replace(/^non-/, '')) : nameOf(identifier)
    const receiver = 'receiver' in parts && !isForeign(parts.receiver) ? parts.receiver : undefined
    return { name, identifier, port, type: wireTypes[port], isDead, workspace, flow, receiver }
  }

  /** Of a group of ours: TrustGraph's flow, processor and port. */
  function placeOf(group: string) {
    const [ours, processor = '', role = '', workspace, flow, ...rest] = group.split('.')
    const trustgraph = byName.get(`${workspace}/${flow}`)?.trustgraph
    if (ours !== space || rest.length > 0 || !trustgraph || !Object.hasOwn(counterparts, processor))
      return undefined
    const theirs = counterparts[processor]![role as WirePort]
    return (
      theirs && {
        ...theirs,
        processor: trustgraph.processors?.[role === 'prompt-live' ? role : processor] ?? theirs.processor,
        trustgraph,
      }
    )
  }

  return {
    find,
    counterpartOf: (group) => placeOf(group)?.processor,
    groupOf(group) {
      const place = placeOf(group)
      if (place === undefined || place.trustgraph.group === 'beside') return undefined
      const { workspace, flow } = place.trustgraph
      return groupName(place.processor, workspace, flow, place.port)
    },
    replyTopic: (
      { port, workspace, flow },
      receiver = port === 'prompt-live' ? foreign + liveSuffix : foreign,
    ) =>
      topicName({
        ...{ space, workspace, flow, class: 'response', receiver },
        role: port === 'text-completion' ? 'text-completion' : 'prompt',
      }),
    repliesTo(topic) {
      const wired = find(topic)
      const port = wired && replyPorts[wired.port]
      return port && !wired.isDead ? { topic: ourTopic(port, { space, ...wired }), port } : undefined
    },
    settingsOf(topic) {
      const wired = find(topic)
      const isReply = wired && !wired.isDead && Object.values(replyPorts).includes(wired.port)
      return isReply ? { retentionMs: replyRetentionMs } : {}
    },
    topics: [...byName.values()].flatMap((each) =>
      (Object.keys(wireTypes) as WirePort[]).map((port) => ourTopic(port, { space, ...each })),
    ),
  }
}

const withIdentifiers = ({ workspace, flow, trustgraph }: WiredFlow) => {
  const usual = usualIdentifiers(trustgraph.workspace, trustgraph.flow)
  return { workspace, flow, trustgraph, identifiers: { ...usual, ...trustgraph.identifiers } }
}

/** The port of a topic of ours, if it is one on TrustGraph's wire. */
function portOf(parts: TopicParts): WirePort | undefined {
  if (parts.class !== 'response')
    return Object.hasOwn(wireTypes, parts.role) ? (parts.role as WirePort) : undefined
  if (parts.role === 'text-completion') return 'text-completion-reply'
  return parts.receiver.endsWith(liveSuffix) ? 'prompt-live-reply' : 'prompt-reply'
}

function ourTopic(
  port: WirePort,
  { space, workspace, flow }: { readonly space: string; readonly workspace: string; readonly flow: string },
): string {
  const scope = { space, workspace, flow }
  switch (port) {
    case 'prompt':
    case 'prompt-live':
    case 'text-completion':
      return topicName({ ...scope, class: 'request', role: port })
    case 'prompt-reply':
      return topicName({ ...scope, class: 'response', role: 'prompt', receiver: foreign })
    case 'prompt-live-reply':
      return topicName({ ...scope, class: 'response', role: 'prompt', receiver: foreign + liveSuffix })
    case 'text-completion-reply':
      return topicName({ ...scope, class: 'response', role: 'text-completion', receiver: foreign })
    default:
      return topicName({ ...scope, class: 'flow', role: port })
  }
}

function refuseShared(identifiers: readonly string[]): void {
  const seen = new Set<string>()
  for (const identifier of identifiers) {
    if (seen.has(identifier))
      throw invalid(`Two topics have the identifier "${identifier}". Each port of each flow needs its own.`)
    seen.add(identifier)
  }
}

/** A topic of TrustGraph's that has a name of ours would get messages of both kinds. Its dead letters need a suffix. */
function refuseOurs(identifier: string, name: string, space: string): void {
  const parts = parseTopic(name)
  if (parts?.space === space || sourceOfDead(name) !== undefined)
    throw invalid(`The identifier "${identifier}" stands for ${name}, which is a topic name of graphmill.`)
  if (!name.includes('://') && !/^[\w.-]{1,244}$/.test(name))
    throw invalid(
      `The identifier "${identifier}" stands for ${name}, which Kafka takes for no name of a topic.`,
    )
}

const invalid = (message: string) => new GraphmillError('configuration_invalid', message)
