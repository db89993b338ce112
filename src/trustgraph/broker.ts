// A broker on which some topics of ours have TrustGraph's names: it translates the names of topics and groups on the way in and out.
// A response topic has the replies for all clients there; a receiver of ours gets only its own.
import type {
  Broker,
  Delivery,
  GroupStart,
  OutgoingBytes,
  ReadMessage,
  Subscription,
  TopicSpec,
} from '../broker/broker.ts'
import { deadTopic, parseTopic, sourceOfDead } from '../broker/topics.ts'
import { receiverOf } from './request-id.ts'
import { maxWireBytes, type Wire, type WiredTopic } from './wire.ts'

const deadTopicHeader = 'dead-topic'

export function trustGraphBroker(broker: Broker, wire: Wire): Broker {
  const nameOf = (topic: string) => wire.find(topic)?.name ?? topic

  /** Of each flow whose topics were ensured here: whether it had been served before. */
  const served = new Map<string, boolean>()

  async function noteServed(specs: readonly TopicSpec[]): Promise<void> {
    for (const { name } of specs) {
      const flow = flowOfProgress(name)
      if (flow !== undefined && !served.has(flow)) served.set(flow, await broker.hasTopic(name))
    }
  }

  /**
   * A group of TrustGraph's begins at the end, as its own processors do. In a flow that was served before, a group without a position
   * lost it together with its topic, which TrustGraph deletes when it stops a flow: all that the topic holds now is new.
   */
  function theirStart(start: GroupStart): GroupStart {
    const group = wire.groupOf(start.group)
    const wired = wire.find(start.topic)
    const from = wired && served.get(`${wired.workspace}/${wired.flow}`) ? 'earliest' : 'latest'
    return { ...start, topic: nameOf(start.topic), ...(group !== undefined && { group, from }) }
  }

  async function* deliveries(
    subscription: Subscription,
    wired: WiredTopic,
    signal: AbortSignal,
  ): AsyncGenerator<Delivery, void> {
    const { topic, onLost } = subscription
    const translated: Subscription = {
      ...subscription,
      ...theirStart(subscription),
      ...(onLost && { onLost: (lost) => onLost({ ...lost, topic }) }),
    }
    for await (const delivery of broker.consume(translated, signal)) {
      if (isForOthers(delivery, wired)) await delivery.ack()
      else yield deliveryOn(topic, delivery, wired)
    }
  }

  async function* messages(
    range: Parameters<Broker['read']>[0],
    wired: WiredTopic,
    signal: AbortSignal,
  ): AsyncGenerator<ReadMessage, void> {
    for await (const message of broker.read({ ...range, topic: wired.name }, signal))
      if (!isForOthers(message, wired))
        yield { ...message, topic: range.topic, headers: ourHeaders(message, range.topic, wired) }
  }

  function deliveryOn(topic: string, delivery: Delivery, wired: WiredTopic): Delivery {
    const { partition, position, key, value, timestamp, signal, attempt, suspect } = delivery
    return {
      ...{ topic, partition, position, key, value, timestamp, signal, attempt, suspect },
      headers: ourHeaders(delivery, topic, wired),
      ack: () => delivery.ack(),
      retryLater: (delayMs) => delivery.retryLater(delayMs),
    }
  }

  return {
    async ensureTopics(specs) {
      await noteServed(specs)
      await broker.ensureTopics(theirSpecs(specs, wire))
    },
    ensureGroups: (starts) => broker.ensureGroups(starts.map(theirStart)),
    hasTopic: (topic) => broker.hasTopic(nameOf(topic)),
    async listTopics(prefix) {
      const ours = [...(await broker.listTopics(prefix))]
      const wired = wire.topics
        .flatMap((topic) => [topic, deadTopic(topic)])
        .filter((topic) => topic.startsWith(prefix))
      const folders = new Set(wired.map((topic) => folderOf(nameOf(topic))))
      const found = await Promise.all([...folders].map((folder) => broker.listTopics(folder)))
      const partitions = new Map(found.flat().map((topic) => [topic.name, topic.partitions]))
      for (const name of wired) {
        const count = partitions.get(nameOf(name))
        if (count !== undefined) ours.push({ name, partitions: count })
      }
      return ours.sort((one, other) => (one.name < other.name ? -1 : 1))
    },
    publish(message) {
      const wired = wire.find(message.topic)
      return broker.publish(wired ? theirMessage(message, wired, wire) : message)
    },
    consume(subscription, signal) {
      const wired = wire.find(subscription.topic)
      return wired ? deliveries(subscription, wired, signal) : broker.consume(subscription, signal)
    },
    read(range, signal) {
      const wired = wire.find(range.topic)
      return wired ? messages(range, wired, signal) : broker.read(range, signal)
    },
    async lag(group, topic) {
      const { partitions, ...lag } = await broker.lag(wire.groupOf(group) ?? group, nameOf(topic))
      return { ...lag, partitions: partitions.map((each) => ({ ...each, topic })) }
    },
    ends: (topic) => broker.ends(nameOf(topic)),
    deleteSettled: (deletion) => broker.deleteSettled({ ...deletion, topic: nameOf(deletion.topic) }),
    /** TrustGraph's topics stay. */
    deleteTopics: (topics) => broker.deleteTopics(topics.filter((topic) => !wire.find(topic))),
    close: () => broker.close(),
  }
}

/** One spec for each name: all receivers of replies share a topic. */
function theirSpecs(specs: readonly TopicSpec[], wire: Wire): TopicSpec[] {
  const made = new Map<string, TopicSpec>()
  for (const spec of specs) {
    const wired = wire.find(spec.name)
    const { name = spec.name, isDead = false } = wired ?? {}
    const room = wired && !isDead ? { maxBytes: maxWireBytes } : {}
    if (!made.has(name)) made.set(name, { ...room, ...spec, name })
  }
  return [...made.values()]
}

/** A dead letter names the topic that it came from as the broker does. */
function theirMessage(message: OutgoingBytes, { name, isDead }: WiredTopic, wire: Wire): OutgoingBytes {
  const source = isDead ? wire.find(message.headers[deadTopicHeader] ?? '')?.name : undefined
  const headers = source === undefined ? message.headers : { ...message.headers, [deadTopicHeader]: source }
  return { ...message, topic: name, headers, anySize: true }
}

function ourHeaders(message: ReadMessage, topic: string, { isDead }: WiredTopic): ReadMessage['headers'] {
  const source = isDead ? sourceOfDead(topic) : undefined
  return source === undefined ? message.headers : { ...message.headers, [deadTopicHeader]: source }
}

const isForOthers = ({ headers }: ReadMessage, { receiver, isDead }: WiredTopic) =>
  receiver !== undefined && !isDead && receiverOf(headers['id'] ?? '') !== receiver

/** Every processor makes the topic `progress` of its flow, which stays ours. */
function flowOfProgress(topic: string): string | undefined {
  const parts = parseTopic(topic)
  if (parts?.class !== 'flow' || parts.role !== 'progress' || parts.dead) return undefined
  return `${parts.workspace}/${parts.flow}`
}

/** What is listed to find a topic: a namespace of Pulsar, or all. */
const folderOf = (name: string) => (name.includes('://') ? name.slice(0, name.lastIndexOf('/') + 1) : '')
