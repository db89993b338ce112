// `graphmill tail`: the messages of a topic as JSON lines, for people and for jq.
import type { Command } from 'commander'
import { createSchemasTopic } from '../../flow/schemas-topic.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { createCodec } from '../../messages/codec.ts'
import { loadSchemas } from '../../messages/registry.ts'
import { brokerOptions, openBroker, openRegistry } from '../broker.ts'
import { addOptions, choiceOption, configOf } from '../options.ts'
import { show } from '../show-message.ts'
import { printLine } from '../table.ts'
import { topicOf } from '../topic-names.ts'

export function addTail(program: Command): void {
  const command = program
    .command('tail')
    .description(
      'print the messages of a topic, one JSON object a line, and go on with new ones until stopped',
    )
    .argument('<role>', 'a role, such as chunk or triples, or the whole name of a topic')
    .addOption(choiceOption('--from <WHERE>', 'where to begin', ['earliest', 'latest']).default('latest'))
    .option('--until-end', 'stop at what is the end now')
    .action(async (role: string, flags: { from: 'earliest' | 'latest'; untilEnd?: boolean }) => {
      const config = configOf(command)
      const topic = topicOf(role, config.options)
      const shutdown = onShutdown()
      const broker = await openBroker(config, shutdown.asked)
      const codec = createCodec(loadSchemas())
      const schemas = createSchemasTopic(broker, codec, config.options.space, openRegistry(config))
      try {
        const range = { topic, from: flags.from, until: flags.untilEnd ? 'end' : 'never' } as const
        for await (const entry of broker.read(range, shutdown.asked)) {
          printLine(JSON.stringify(await show(entry, { topic, schemas, signal: shutdown.asked })))
        }
        if (flags.untilEnd) shutdown.asked.throwIfAborted()
      } finally {
        await broker.close()
        shutdown.dispose()
      }
    })
  addOptions(command, [...brokerOptions, 'workspace', 'flow'])
}
