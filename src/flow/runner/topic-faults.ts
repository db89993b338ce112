// Topics that are missing or refused. A flow can't go on without one of its own topics. Without the response topic of a client only
// the requests of that client can't be served.
import type { Broker } from '../../broker/broker.ts'
import { parseTopic } from '../../broker/topics.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'

export interface TopicFaults {
  /** The topics of the runner's own flows that were found missing. */
  readonly missing: ReadonlySet<string>
  /** Takes what an access to `topic` threw, and returns the error that the work in flight fails with. */
  note(thrown: unknown, topic: string): unknown
  /** Throws `reply_topic_missing` or `reply_topic_refused` when no reply can be published to the topic. */
  checkReplyTopic(topic: string): Promise<void>
}

export interface TopicFaultsOptions {
  readonly broker: Broker
  /** The topics that the runner itself consumes. */
  readonly inputs: ReadonlySet<string>
  /** Called when one of the flows' own topics is missing. */
  readonly onMissing: (thrown: unknown) => void
}

export function createTopicFaults({ broker, inputs, onMissing }: TopicFaultsOptions): TopicFaults {
  const missing = new Set<string>()

  const isOfClient = (topic: string) => parseTopic(topic)?.class === 'response' && !inputs.has(topic)

  function note(thrown: unknown, topic: string): unknown {
    const { code } = toGraphmillError(thrown)
    if (code !== 'topic_missing' && code !== 'topic_refused') return thrown
    if (isOfClient(topic))
      return code === 'topic_missing' ? replyTopicMissing(topic, thrown) : replyTopicRefused(topic, thrown)
    if (code === 'topic_missing') {
      missing.add(topic)
      onMissing(thrown)
    }
    return thrown
  }

  return {
    missing,
    note,
    async checkReplyTopic(topic) {
      if (!isOfClient(topic)) return
      const exists = await broker.hasTopic(topic).catch((thrown: unknown) => {
        throw note(thrown, topic)
      })
      if (!exists) throw replyTopicMissing(topic)
    },
  }
}

const replyTopicRefused = (topic: string, cause: unknown) =>
  new GraphmillError('reply_topic_refused', `The broker does not let this process write to ${topic}.`, {
    cause,
  })

const replyTopicMissing = (topic: string, cause?: unknown) =>
  new GraphmillError('reply_topic_missing', `There is no topic ${topic} for the reply.`, { cause })
