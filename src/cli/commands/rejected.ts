// `graphmill rejected`: how many items were rejected, by prompt, model and reason, from all that the topic holds.
import type { Command } from 'commander'
import type { Broker } from '../../broker/broker.ts'
import type { Config } from '../../config/config.ts'
import { toGraphmillError } from '../../errors.ts'
import { outputRoute } from '../../flow/ports.ts'
import { createSchemasTopic, decodeEntry } from '../../flow/schemas-topic.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { createCodec } from '../../messages/codec.ts'
import { loadSchemas } from '../../messages/registry.ts'
import { brokerOptions, openBroker, openRegistry } from '../broker.ts'
import { addOptions, configOf } from '../options.ts'
import { passOver, readToEnd } from '../read-to-end.ts'
import { requireFlow } from '../require-flow.ts'
import { printTable } from '../table.ts'

interface Row {
  readonly prompt: string
  readonly model: string
  readonly reason: string
  items: number
}

export function addRejected(program: Command): void {
  const command = program
    .command('rejected')
    .description('count the items that were rejected, by prompt, model and reason')
    .action(async () => {
      const config = configOf(command)
      const { json } = config.options
      const shutdown = onShutdown()
      const broker = await openBroker(config, shutdown.asked)
      try {
        await requireFlow(broker, config.options)
        const rows = await countRejected(broker, config, shutdown.asked)
        if (rows.length === 0 && !json) process.stderr.write('nothing was rejected\n')
        printTable(
          rows.map((row) => ({ ...row })),
          json,
        )
      } finally {
        await broker.close()
        shutdown.dispose()
      }
    })
  addOptions(command, [...brokerOptions, 'workspace', 'flow', 'json'])
}

/** The most frequent first. A message that was published twice counts once. */
async function countRejected(broker: Broker, config: Config, signal: AbortSignal): Promise<Row[]> {
  const { topic } = outputRoute('rejected', config.options)
  const schemas = createSchemasTopic(
    broker,
    createCodec(loadSchemas()),
    config.options.space,
    openRegistry(config),
  )
  const rows = new Map<string, Row>()
  const counted = new Set<string>()
  try {
    for await (const entry of readToEnd(broker, topic, signal)) {
      const message = await decodeEntry(entry, 'Rejected', { schemas, signal, onUnreadable: passOver })
      if (!message || counted.has(message.id)) continue
      const { id, payload } = message
      counted.add(id)
      for (const { reason } of payload.items) {
        const key = JSON.stringify([payload.promptId, payload.model, reason])
        const row = rows.get(key) ?? {
          prompt: payload.promptId,
          model: payload.model ?? '',
          reason,
          items: 0,
        }
        row.items++
        rows.set(key, row)
      }
    }
  } catch (thrown) {
    // Nothing was rejected yet.
    if (toGraphmillError(thrown).code !== 'topic_missing') throw thrown
  }
  return [...rows.values()].sort((one, other) => other.items - one.items)
}
