// `graphmill topics`: make the topics of a flow, see them, and see how far each group is behind.
import type { Command } from 'commander'
import { processors } from '../../processors/index.ts'
import type { Broker } from '../broker/broker.ts'
import { schemasTopic, topicSpec } from '../broker/topics.ts'
import type { Options } from '../config/options.ts'
import { inputGroup, inputTopic } from '../flow/ports.ts'
import { topicsOf } from '../flow/run.ts'
import { brokerOptions, openBroker } from './broker.ts'
import { addOptions, configOf } from './options.ts'
import { printTable } from './table.ts'

export function addTopics(program: Command): void {
  const topics = program.command('topics').description('create, describe and measure the topics of a flow')
  add(topics, 'create', 'make the topics that are missing', create)
  add(topics, 'describe', 'list the topics that there are', describe)
  add(topics, 'lag', 'how many messages each group has not settled', lag)
}

type Rows = readonly Readonly<Record<string, string | number>>[]

function add(
  parent: Command,
  name: string,
  description: string,
  act: (broker: Broker, options: Options) => Promise<Rows>,
): void {
  const command = parent
    .command(name)
    .description(description)
    .action(async () => {
      const config = configOf(command)
      const broker = await openBroker(config)
      try {
        printTable(await act(broker, config.options), config.options.json)
      } finally {
        await broker.close()
      }
    })
  addOptions(command, [...brokerOptions, 'workspace', 'flow', 'json'])
}

async function create(broker: Broker, { space, workspace, flow }: Options): Promise<Rows> {
  const names = [...topicsOf(processors, { space, workspace, flow }), schemasTopic(space)]
  const before = new Set((await broker.listTopics(`${space}.`)).map(({ name }) => name))
  const specs = names.map((name) => topicSpec(name))
  await broker.ensureTopics(specs)
  return specs.map(({ name, partitions }) => ({
    topic: name,
    partitions,
    created: before.has(name) ? 'no' : 'yes',
  }))
}

async function describe(broker: Broker, { space }: Options): Promise<Rows> {
  return (await broker.listTopics(`${space}.`)).map(({ name, partitions }) => ({ topic: name, partitions }))
}

async function lag(broker: Broker, { space, workspace, flow }: Options): Promise<Rows> {
  const place = { space, workspace, flow }
  const existing = new Set((await broker.listTopics(`${space}.`)).map(({ name }) => name))
  const lines = processors.flatMap((processor) =>
    processor.inputs.map((port) => ({
      topic: inputTopic(port, place, processor.name),
      group: inputGroup(port, place, processor.name),
    })),
  )
  const present = lines.filter(({ topic }) => existing.has(topic))
  return Promise.all(
    present.map(async ({ topic, group }) => ({ group, topic, lag: (await broker.lag(group, topic)).total })),
  )
}
