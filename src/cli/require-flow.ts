// Whether there is the flow that a command is about: an empty answer about one that is not would look like good news.
import type { Broker } from '../broker/broker.ts'
import { parseTopic } from '../broker/topics.ts'
import { suggest } from '../config/config.ts'
import type { Options } from '../config/options.ts'
import { GraphmillError } from '../errors.ts'

/** Flows that an error names, at most. */
const mostNamed = 10

/** Throws `flow_unknown`, with a suggestion, where the broker has no topic of the flow. */
export async function requireFlow(
  broker: Pick<Broker, 'listTopics'>,
  { space, workspace, flow }: Pick<Options, 'space' | 'workspace' | 'flow'>,
): Promise<void> {
  const wanted = `${workspace}/${flow}`
  const flows = new Set<string>()
  for (const { name } of await broker.listTopics(`${space}.`)) {
    const parts = parseTopic(name)
    if (parts && 'workspace' in parts) flows.add(`${parts.workspace}/${parts.flow}`)
  }
  if (flows.has(wanted)) return
  const known = [...flows].sort()
  const named = known.slice(0, mostNamed).join(', ') + (known.length > mostNamed ? ' and others' : '')
  throw new GraphmillError(
    'flow_unknown',
    `The broker has no topic of the flow ${wanted} in the space ${space}.${suggest(wanted, known) || (named && ` There is: ${named}.`)}`,
  )
}
