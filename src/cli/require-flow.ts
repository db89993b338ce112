// Whether the flow of a command exists: an empty answer about an unknown flow would look like good news.
import type { Broker } from '../broker/broker.ts'
import { suggest } from '../config/config.ts'
import { GraphmillError } from '../errors.ts'
import { type FlowName, flowOfTopic } from './topic-names.ts'

/** The most flows that an error names. */
const mostNamed = 10

/** Throws `flow_unknown`, with a suggestion, if the broker has no topic of the flow. */
export async function requireFlow(
  broker: Pick<Broker, 'listTopics'>,
  { space, workspace, flow }: FlowName,
): Promise<void> {
  const wanted = `${workspace}/${flow}`
  const topics = await broker.listTopics(`${space}.`)
  const flows = new Set(topics.flatMap(({ name }) => flowOfTopic(name) ?? []))
  if (flows.has(wanted)) return
  const known = [...flows].sort()
  const named = known.slice(0, mostNamed).join(', ') + (known.length > mostNamed ? ' and others' : '')
  throw new GraphmillError(
    'flow_unknown',
    `The broker has no topic of the flow ${wanted} in the space ${space}.${suggest(wanted, known) || (named && ` There is: ${named}.`)}`,
  )
}
