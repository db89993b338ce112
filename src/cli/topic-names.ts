// From what a person types to the name of a topic: a role of the flow, or a whole name.
import { parseTopic, schemasTopic, topicName, topicRoles } from '../broker/topics.ts'
import { suggest } from '../config/config.ts'
import type { Options } from '../config/options.ts'
import { GraphmillError } from '../errors.ts'

type Place = Pick<Options, 'space' | 'workspace' | 'flow'>

/** The name of the topic for a role such as `chunk`, or `given` itself when it is a topic's name. Throws `usage`. */
export function topicOf(given: string, { space, workspace, flow }: Place): string {
  if (parseTopic(given)) return given
  if (given === 'schemas') return schemasTopic(space)
  for (const kind of ['flow', 'request', 'notify'] as const)
    if (Object.hasOwn(topicRoles[kind], given))
      return topicName({ space, workspace, flow, class: kind, role: given } as never)
  const roles = [
    ...Object.keys(topicRoles.flow),
    ...Object.keys(topicRoles.request),
    ...Object.keys(topicRoles.notify),
  ]
  throw new GraphmillError(
    'usage',
    `${given} is neither a role nor the name of a topic.${suggest(given, roles) || suggestName(given, roles)} Roles: ${roles.join(', ')}.`,
  )
}

/** ` Did you mean <name>?` for a name whose role alone is not one, as in `gm.flow.chnk.default.default`. */
function suggestName(given: string, roles: readonly string[]): string {
  const [space, kind, wrong = '', ...rest] = given.split('.')
  const named = roles.map((role) => [space, kind, role, ...rest].join('.')).filter((name) => parseTopic(name))
  const near = suggest([space, kind, wrong, ...rest].join('.'), named)
  return suggest(wrong, roles) === '' ? '' : near
}
