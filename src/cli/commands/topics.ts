// `graphmill topics`: make the topics of a flow, see them, and see how far each group is behind.
import type { Command } from 'commander'
import { processors } from '../../../processors/index.ts'
import type { Broker } from '../../broker/broker.ts'
import { parseTopic, schemasTopic, topicSpec } from '../../broker/topics.ts'
import type { Config } from '../../config/config.ts'
import type { OptionName } from '../../config/options.ts'
import { inputGroup, inputTopic } from '../../flow/ports.ts'
import { topicsOf } from '../../flow/run.ts'
import { brokerOptions, openBroker } from '../broker.ts'
import { flowsOf, serving } from '../flows.ts'
import { addOptions, configOf } from '../options.ts'
import { requireFlow } from '../require-flow.ts'
import { printTable } from '../table.ts'

export function addTopics(program: Command): void {
  const topics = program.command('topics').description('create, describe and measure the topics of flows')
  add(topics, 'create', 'make the topics that are missing', create)
  add(topics, 'describe', 'list the topics that there are', describe)
  add(
    topics,
    'lag',
    'how many messages each group has not settled, and how many members it has to do so',
    lag,
  )
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
      const broker = await openBroker(config)
      try {
        printTable(await act(broker, config), config.options.json)
      } finally {
        await broker.close()
      }
    })
  addOptions(command, [...brokerOptions, ...flowChoice, 'json'])
}

/** What says which flows there are, and which extractors each wants. */
const flowChoice = [
  'workspace',
  'flow',
  'flows',
  'extractors',
  'schemas',
  'ontologies',
] as const satisfies readonly OptionName[]

/** The topics of all that `run --all` with the same options serves. */
async function create(broker: Broker, config: Config): Promise<Rows> {
  const { space } = config.options
  const specs = flowsOf(config).flatMap((flow) => {
    const { workspace, flow: name } = flow.options
    return topicsOf(serving(processors, flow), { space, workspace, flow: name, topics: flow.topics })
  })
  specs.push(topicSpec(schemasTopic(space)))
  const before = new Set((await broker.listTopics(`${space}.`)).map(({ name }) => name))
  await broker.ensureTopics(specs)
  const found = new Map((await broker.listTopics(`${space}.`)).map((topic) => [topic.name, topic]))
  return specs.map(({ name, partitions }) => ({
    topic: name,
    partitions: found.get(name)?.partitions ?? partitions,
    created: before.has(name) ? 'no' : 'yes',
  }))
}

/** All of the space, or those of the flows that are named. */
async function describe(broker: Broker, config: Config): Promise<Rows> {
  const { options, origins } = config
  const isNamed = (['workspace', 'flow', 'flows'] as const).some((name) => origins[name] !== 'default')
  const flows = isNamed ? flowsOf(config) : []
  if (isNamed && options.flows === undefined) await requireFlow(broker, options)
  const rows = (await broker.listTopics(`${options.space}.`))
    .filter(({ name }) => !isNamed || flows.some((flow) => isOf(name, flow)))
    .map(({ name, partitions }) => ({ topic: name, partitions }))
  if (rows.length === 0) process.stderr.write(`no topics of the space ${options.space} yet\n`)
  return rows
}

function isOf(topic: string, { options: { workspace, flow } }: Config): boolean {
  const parts = parseTopic(topic)
  return parts !== undefined && 'workspace' in parts && parts.workspace === workspace && parts.flow === flow
}

async function lag(broker: Broker, config: Config): Promise<Rows> {
  const { space, flows } = config.options
  if (flows === undefined) await requireFlow(broker, config.options)
  const existing = new Set((await broker.listTopics(`${space}.`)).map(({ name }) => name))
  const lines = flowsOf(config).flatMap(({ options: { workspace, flow } }) =>
    processors.flatMap((processor) =>
      processor.inputs.map((port) => ({
        topic: inputTopic(port, { space, workspace, flow }, processor.name),
        group: inputGroup(port, { space, workspace, flow }, processor.name),
      })),
    ),
  )
  const present = lines.filter(({ topic }) => existing.has(topic))
  return Promise.all(
    present.map(async ({ topic, group }) => {
      const { total, members } = await broker.lag(group, topic)
      return { group, topic, lag: total, members }
    }),
  )
}
