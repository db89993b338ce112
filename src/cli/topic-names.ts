// From what a person types to the name of a topic, and from a topic to its flow.
import { limitsTopic, parseTopic, schemasTopic, topicName, topicRoles } from '../broker/topics.ts'
import { suggest } from '../config/config.ts'
import type { Options } from '../config/options.ts'
import { GraphmillError } from '../errors.ts'

/** What the topic names of a flow are made from. */
export type FlowName = Pick<Options, 'space' | 'workspace' | 'flow'>

const classes = ['flow', 'request', 'notify'] as const

/** `workspace/flow` of a topic; undefined if the topic belongs to no flow. */
export function flowOfTopic(topic: string): string | undefined {
  const parts = parseTopic(topic)
  return parts && 'workspace' in parts ? `${parts.workspace}/${parts.flow}` : undefined
}

/** The topic of a role such as `chunk`, or `given` itself if it is the name of a topic. Throws `usage`. */
export function topicOf(given: string, { space, workspace, flow }: FlowName): string {
  if (parseTopic(given)) return given
  if (given === 'schemas') return schemasTopic(space)
  if (given === 'limits') return limitsTopic(space)
  const topicClass = classes.find((each) => Object.hasOwn(topicRoles[each], given))
  if (topicClass) return topicName({ space, workspace, flow, class: topicClass, role: given } as never)
  const roles = classes.flatMap((each) => Object.keys(topicRoles[each]))
  throw new GraphmillError(
    'usage',
    `${given} is neither a role nor the name of a topic.${suggest(given, roles) || suggestName(given, roles)} Roles: ${roles.join(', ')}.`,
  )
}

/** ` Did you mean <name>?` for a name in which only the role is wrong, as in `gm.flow.chnk.default.default`. */
function suggestName(given: string, roles: readonly string[]): string {
  const [space, topicClass, wrong = '', ...rest] = given.split('.')
  const named = roles
    .map((role) => [space, topicClass, role, ...rest].join('.'))
    .filter((name) => parseTopic(name))
  return suggest(wrong, roles) === '' ? '' : suggest(given, named)
}
