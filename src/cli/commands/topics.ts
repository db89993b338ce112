// `graphmill topics`: creates the topics of flows, lists them, and prints the lag of each group.
import type { Command } from 'commander'
import { loadProcessors } from '../../../processors/modules.ts'
import type { Broker, GroupStart, TopicSpec } from '../../broker/broker.ts'
import { limitsTopic, schemasTopic, topicSpec } from '../../broker/topics.ts'
import type { Config } from '../../config/config.ts'
import type { OptionName } from '../../config/options.ts'
import { groupsOf, topicsOf } from '../../flow/run.ts'
import { brokerOptions, openFlowBroker } from '../broker.ts'
import { flowsOf, nameOf, serving, wireOf } from '../flows.ts'
import { addOptions, configOf } from '../options.ts'
import { requireFlow } from '../require-flow.ts'
import { printTable } from '../table.ts'
import { flowOfTopic } from '../topic-names.ts'

export function addTopics(topics: Command): void {
  add(
    topics,
    'create',
    'create the missing topics, and the first positions of the groups that read them',
    create,
  )
  add(topics, 'describe', 'list the existing topics', describe)
  add(topics, 'lag', 'print how many messages each group has not settled, and how many members it has', lag)
}

type Rows = readonly Readonly<Record<string, string | number>>[]

function add(
  parent: Command,
  name: string,
  description: string,
  act: (broker: Broker, config: Config) => Promise<Rows>,
): void {
  const command = parent
    .command(name)
    .description(description)
    .action(async () => {
      const config = configOf(command)
      const broker = await openFlowBroker(config)
      try {
        printTable(await act(broker, config), config.options.json)
      } finally {
        await broker.close()
      }
    })
  addOptions(command, [...brokerOptions, ...flowChoice, 'json'])
}

/** The options that determine the flows, and the extractors of each. */
const flowChoice = [
  'workspace',
  'flow',
  'flows',
  'extractors',
  'schemas',
  'ontologies',
  'rows',
  'text-retention',
  'limit-scope',
] as const satisfies readonly OptionName[]

/** Creates the topics that `run --all` with the same options needs, and a first position for each group that has none. */
async function create(broker: Broker, config: Config): Promise<Rows> {
  const { space, 'limit-scope': scope } = config.options
  const processors = await loadProcessors()
  const flows = flowsOf(config)
  const wire = wireOf(flows, config)
  const specs: TopicSpec[] = []
  const groups: GroupStart[] = []
  for (const flow of flows) {
    const place = { space, workspace: flow.options.workspace, flow: flow.options.flow }
    const served = serving(processors, flow)
    specs.push(...topicsOf(served, { ...place, topics: flow.topics, wire }))
    groups.push(...groupsOf(served, place))
  }
  specs.push(topicSpec(schemasTopic(space)))
  if (scope !== 'replica') specs.push(topicSpec(limitsTopic(space)))
  const before = new Set((await broker.listTopics(`${space}.`)).map(({ name }) => name))
  await broker.ensureTopics(specs)
  await broker.ensureGroups(groups)
  const found = new Map((await broker.listTopics(`${space}.`)).map((topic) => [topic.name, topic]))
  return specs.map(({ name, partitions }) => ({
    topic: name,
    partitions: found.get(name)?.partitions ?? partitions,
    created: before.has(name) ? 'no' : 'yes',
    groups: groups.filter(({ topic }) => topic === name).length,
  }))
}

/** The topics of the space, or of the flows that the options name. */
async function describe(broker: Broker, config: Config): Promise<Rows> {
  const { options, origins } = config
  const isNamed = (['workspace', 'flow', 'flows'] as const).some((name) => origins[name] !== 'default')
  const flows = isNamed ? flowsOf(config) : []
  if (isNamed && options.flows === undefined) await requireFlow(broker, options)
  const rows = (await broker.listTopics(`${options.space}.`))
    .filter(({ name }) => !isNamed || flows.some((flow) => nameOf(flow) === flowOfTopic(name)))
    .map(({ name, partitions }) => ({ topic: name, partitions }))
  if (rows.length === 0) process.stderr.write(`no topics of the space ${options.space} yet\n`)
  return rows
}

/**
 * The lag of each group that reads an existing topic. A group of a processor that the flow does not use is left out unless it has
 * members: nothing is published for it, or nobody would ever read it.
 */
export async function lag(broker: Broker, config: Config): Promise<Rows> {
  const { space, flows } = config.options
  if (flows === undefined) await requireFlow(broker, config.options)
  const existing = new Set((await broker.listTopics(`${space}.`)).map(({ name }) => name))
  const processors = await loadProcessors()
  const groups = flowsOf(config).flatMap((flow) => {
    const place = { space, workspace: flow.options.workspace, flow: flow.options.flow }
    const used = new Set(groupsOf(serving(processors, flow), place).map(({ group }) => group))
    return groupsOf(processors, place).map(({ topic, group }) => ({ topic, group, isUsed: used.has(group) }))
  })
  const rows = await Promise.all(
    groups
      .filter(({ topic }) => existing.has(topic))
      .map(async ({ topic, group, isUsed }) => {
        const { total, members } = await broker.lag(group, topic)
        return isUsed || members > 0 ? [{ group, topic, lag: total, members }] : []
      }),
  )
  return rows.flat()
}
