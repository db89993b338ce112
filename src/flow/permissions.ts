// The least rights that a processor needs on a broker, derived from its ports as the runner uses them. docs/permissions.md is the
// table, and a test runs every processor on a Kafka that allows no more.
import { deadTopic, schemasTopic, topicName } from '../broker/topics.ts'
import {
  type FlowTopics,
  type InputPort,
  inputGroup,
  inputTopic,
  isReply,
  type OutputPort,
  outputRoute,
} from './ports.ts'
import type { AnyProcessor } from './processor.ts'

/** `create` and `configs` (reading a topic's configuration) are needed only while the dead-letter topic does not exist. */
export type Right = 'read' | 'write' | 'create' | 'configs'

export interface Permission {
  readonly kind: 'topic' | 'group'
  readonly name: string
  readonly right: Right
}

/**
 * The permissions of a processor in a flow whose topics exist, but for those of dead letters. The rights to read and write include
 * seeing that the topic or group exists.
 * @param receivers the processors and clients that `prompt` and `text-completion` answer
 */
export function permissionsOf(
  processor: AnyProcessor,
  flow: FlowTopics,
  receivers: readonly string[],
): Permission[] {
  const topic = (name: string, ...rights: Right[]): Permission[] =>
    rights.map((right) => ({ kind: 'topic', name, right }))
  const inputs = (processor.inputs as readonly InputPort[]).flatMap((port): Permission[] => {
    const name = inputTopic(port, flow, processor.name)
    return [
      ...topic(name, 'read', 'configs'),
      { kind: 'group', name: inputGroup(port, flow, processor.name), right: 'read' },
      ...topic(deadTopic(name), 'write', 'create'),
    ]
  })
  const outputs = (processor.outputs as readonly OutputPort[]).flatMap((port): Permission[] => {
    if (isReply(port))
      return receivers.flatMap((receiver) => topic(replyTopic(port, flow, receiver), 'write'))
    const { topic: name } = outputRoute(port, flow)
    return topic(name, 'write')
  })
  const reads = (processor.reads ?? []).flatMap((port) => topic(outputRoute(port, flow).topic, 'read'))
  const runner = [
    // The death of a message is reported there, regardless of its addressee.
    ...topic(outputRoute('progress', flow).topic, 'write'),
    ...topic(schemasTopic(flow.space), 'read', 'write'),
  ]
  const distinct = new Map(
    [...inputs, ...outputs, ...reads, ...runner].map((each) => [JSON.stringify(each), each]),
  )
  return [...distinct.values()].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
}

const keyOf = ({ kind, name, right }: Permission) => `${kind} ${name} ${right}`

function replyTopic(
  port: 'reply' | 'text-reply',
  { space, workspace, flow }: FlowTopics,
  receiver: string,
): string {
  const role = port === 'reply' ? 'prompt' : 'text-completion'
  return topicName({ space, workspace, flow, class: 'response', role, receiver })
}
