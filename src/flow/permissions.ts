// What a processor may do on a broker, at least: derived from its ports, as the runner uses them. docs/permissions.md is the
// table, and a test runs every processor on a Kafka that allows no more.
import { deadTopic, parseTopic, schemasTopic, topicName, topicRoles } from '../broker/topics.ts'
import { type InputPort, inputGroup, inputTopic, isReply, type OutputPort, outputRoute } from './ports.ts'
import type { AnyProcessor, Scope } from './processor.ts'

/** `create` and `configs` (reading a topic's configuration) are needed only while the dead-letter topic does not exist. */
export type Right = 'read' | 'write' | 'create' | 'configs'

export interface Permission {
  readonly kind: 'topic' | 'group'
  readonly name: string
  readonly right: Right
}

/**
 * The permissions of a processor in a flow, all of whose topics exist but those for dead letters. Rights to read and write let
 * a program see that the topic or group is there.
 * @param receivers the processors and clients that `prompt` and `text-completion` answer
 */
export function permissionsOf(
  processor: AnyProcessor,
  place: Scope & { readonly space: string },
  receivers: readonly string[],
): Permission[] {
  const topic = (name: string, ...rights: Right[]): Permission[] =>
    rights.map((right) => ({ kind: 'topic', name, right }))
  const inputs = (processor.inputs as readonly InputPort[]).flatMap((port): Permission[] => {
    const name = inputTopic(port, place, processor.name)
    return [
      ...topic(name, 'read', 'configs'),
      { kind: 'group', name: inputGroup(port, place, processor.name), right: 'read' },
      ...topic(deadTopic(name), 'write', 'create'),
    ]
  })
  const outputs = (processor.outputs as readonly OutputPort[]).flatMap((port): Permission[] => {
    if (isReply(port))
      return receivers.flatMap((receiver) => topic(replyTopic(port, place, receiver), 'write'))
    const { topic: name } = outputRoute(port, place)
    return topic(name, 'write', ...(isReadBack(name) ? (['read'] as const) : []))
  })
  const runner = [
    // The death of a message is reported there, regardless of its addressee.
    ...topic(outputRoute('progress', place).topic, 'write'),
    ...topic(schemasTopic(place.space), 'read', 'write'),
  ]
  const distinct = new Map([...inputs, ...outputs, ...runner].map((each) => [JSON.stringify(each), each]))
  return [...distinct.values()].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
}

const keyOf = ({ kind, name, right }: Permission) => `${kind} ${name} ${right}`

/** A compacted topic holds the state of the processor that writes it. */
function isReadBack(name: string): boolean {
  const parts = parseTopic(name)
  return parts?.class === 'notify' && topicRoles.notify[parts.role].compacted
}

function replyTopic(
  port: 'reply' | 'text-reply',
  { space, workspace, flow }: Scope & { readonly space: string },
  receiver: string,
): string {
  const role = port === 'reply' ? 'prompt' : 'text-completion'
  return topicName({ space, workspace, flow, class: 'response', role, receiver })
}
