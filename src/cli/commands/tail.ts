// `graphmill tail`: the messages of a topic as JSON lines, for people and for jq.
import type { Command } from 'commander'
import { brokerOptions, openSchemas, withBroker } from '../broker.ts'
import { addOptions, choiceOption, configOf } from '../options.ts'
import { show } from '../show-message.ts'
import { printLine } from '../table.ts'
import { topicOf } from '../topic-names.ts'

interface TailFlags {
  readonly from: 'earliest' | 'latest'
  readonly untilEnd?: boolean
}

export function addTail(command: Command): void {
  command
    .argument('<role>', 'a role, such as chunk or triples, or the full name of a topic')
    .addOption(choiceOption('--from <WHERE>', 'where to start', ['earliest', 'latest']).default('latest'))
    .option('--until-end', 'stop at the current end of the topic')
    .action(async (role: string, { from, untilEnd = false }: TailFlags) => {
      const config = configOf(command)
      const topic = topicOf(role, config.options)
      await withBroker(config, async ({ broker, signal }) => {
        const { schemas } = openSchemas(broker, config)
        const range = { topic, from, until: untilEnd ? 'end' : 'never' } as const
        for await (const entry of broker.read(range, signal))
          printLine(JSON.stringify(await show(entry, { topic, schemas, signal })))
        if (untilEnd) signal.throwIfAborted()
      })
    })
  addOptions(command, [...brokerOptions, 'workspace', 'flow', 'flows'])
}
