// `graphmill rejected`: how many items were rejected, by prompt, model and reason, from everything on the topic.
import type { Command } from 'commander'
import { toGraphmillError } from '../../errors.ts'
import { outputRoute } from '../../flow/ports.ts'
import { decodeEntry } from '../../flow/schemas-topic.ts'
import { type BrokerSession, brokerOptions, openSchemas, withBroker } from '../broker.ts'
import { addOptions, configOf } from '../options.ts'
import { readToEnd, reportSkipped } from '../read-to-end.ts'
import { requireFlow } from '../require-flow.ts'
import { printTable } from '../table.ts'

type RejectedRow = { readonly prompt: string; readonly model: string; readonly reason: string; items: number }

export function addRejected(command: Command): void {
  command.action(() =>
    withBroker(configOf(command), async (session) => {
      const { broker, config } = session
      await requireFlow(broker, config.options)
      const rows = await countRejected(session)
      if (rows.length === 0 && !config.options.json) process.stderr.write('nothing was rejected\n')
      printTable(rows, config.options.json)
    }),
  )
  addOptions(command, [...brokerOptions, 'workspace', 'flow', 'flows', 'json'])
}

/** The most frequent first. A message that was published twice counts once. */
async function countRejected({ broker, config, signal }: BrokerSession): Promise<RejectedRow[]> {
  const { topic } = outputRoute('rejected', config.options)
  const { schemas } = openSchemas(broker, config)
  const rows = new Map<string, RejectedRow>()
  const counted = new Set<string>()
  try {
    for await (const entry of readToEnd(broker, topic, signal)) {
      const message = await decodeEntry(entry, 'Rejected', { schemas, signal, onUnreadable: reportSkipped })
      if (!message || counted.has(message.id)) continue
      counted.add(message.id)
      const { promptId: prompt, model, items } = message.payload
      for (const { reason } of items) {
        const key = JSON.stringify([prompt, model, reason])
        const row = rows.get(key) ?? { prompt, model: model ?? '', reason, items: 0 }
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
