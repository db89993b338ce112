// `graphmill trustgraph`: which topics, groups and processors of TrustGraph's those of a flow stand for.
import type { Command } from 'commander'
import { loadProcessors } from '../../../processors/modules.ts'
import type { Config } from '../../config/config.ts'
import { GraphmillError } from '../../errors.ts'
import { type InputPort, inputGroup } from '../../flow/ports.ts'
import type { AnyProcessor } from '../../flow/processor.ts'
import type { Wire, WiredTopic } from '../../trustgraph/wire.ts'
import { flowsOf, wireOf } from '../flows.ts'
import { addOptions, configOf } from '../options.ts'
import { printTable } from '../table.ts'

export function addTrustGraph(command: Command): void {
  const describe = command
    .command('describe')
    .description("print the topics, groups and processors of TrustGraph's that those of the flows stand for")
    .action(async () => {
      const config = configOf(describe)
      printTable(await describeWire(config), config.options.json)
    })
  addOptions(describe, ['broker', 'space', 'flows', 'workspace', 'flow', 'json'])
}

/** One row for each port, and for each processor that reads there. */
async function describeWire(config: Config) {
  const wire = wireOf(flowsOf(config), config)
  if (!wire) throw new GraphmillError('usage', 'No flow of the flows file (--flows) has wire: trustgraph.')
  const processors = await loadProcessors()
  return wire.topics.flatMap((topic) => rowsOf(topic, wire.find(topic)!, { wire, processors, config }))
}

interface Description {
  readonly wire: Wire
  readonly processors: readonly AnyProcessor[]
  readonly config: Config
}

function rowsOf(topic: string, wired: WiredTopic, { wire, processors, config }: Description) {
  const { workspace, flow, port, name, identifier } = wired
  const common = { flow: `${workspace}/${flow}`, port, identifier, topic: name, ours: topic }
  const { space } = config.options
  const readers = processors.filter(({ inputs }) => inputs.includes(port as InputPort))
  const rows = readers.map((reader) => {
    const group = inputGroup(port as InputPort, { space, workspace, flow }, reader.name)
    const counterpart = wire.counterpartOf(group) ?? ''
    return { ...common, processor: reader.name, group: wire.groupOf(group) ?? group, counterpart }
  })
  return rows.length > 0 ? rows : [{ ...common, processor: '', group: '', counterpart: '' }]
}
