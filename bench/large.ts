// One document of 50 MB on a real Kafka: `load`, then chunk-text in a process of its own. The most memory that each process had, and
// its CPU time from its start to its last message.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Broker } from '../src/broker/broker.ts'
import { connectKafka } from '../src/broker/kafka/kafka.ts'
import { inputGroup, inputTopic } from '../src/flow/ports.ts'
import { startKafka } from '../test/support/kafka-server.ts'
import { measureLoad } from '../test/support/load-memory.ts'
import { startGraphmill } from '../test/support/processes.ts'
import { cpuOf, peakOf } from './process-usage.ts'
import { program } from './program.ts'
import { median, type Row, rounds } from './row.ts'

const megabytes = 50
const mebibyte = 1024 * 1024

/** What a process has taken: MiB and seconds. */
interface Usage {
  readonly peak: number
  readonly cpu: number
}

export async function largeBench(): Promise<Row[]> {
  const server = await startKafka()
  const broker = await connectKafka({ brokers: server.bootstrap })
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-large-'))
  const [loads, chunkings]: [Usage[], Usage[]] = [[], []]
  try {
    for (let round = 0; round < rounds; round++) {
      const space = `large-${round}`
      const place = ['--broker', `kafka://${server.bootstrap.join()}`, '--space', space]
      const { resident, cpu } = await measureLoad(megabytes, { folder, place, program })
      loads.push({ peak: resident / mebibyte, cpu })
      chunkings.push(await chunk(broker, { space, place }))
    }
  } finally {
    await rm(folder, { recursive: true })
    await broker.close()
    await server.stop()
  }
  return [
    ...rowsOf('large-load', loads, { peak: '<= 120' }),
    ...rowsOf('large-chunk', chunkings, { peak: '<= 200', cpu: '<= 10' }),
  ]
}

async function chunk(
  broker: Broker,
  { space, place }: { readonly space: string; readonly place: readonly string[] },
): Promise<Usage> {
  const scope = { space, workspace: 'default', flow: 'default' }
  const group = inputGroup('document', scope, 'chunk-text')
  const { pid, end, says } = startGraphmill(['run', 'chunk-text', ...place, '--http', 'off'], {}, program)
  await says('"running"')
  while ((await broker.lag(group, inputTopic('document', scope, 'chunk-text'))).total > 0) await delay(100)
  const usage = { peak: peakOf(pid), cpu: cpuOf(pid) }
  await end('SIGTERM')
  return usage
}

function rowsOf(
  name: string,
  usages: readonly Usage[],
  bounds: { readonly peak: string; readonly cpu?: string },
): Row[] {
  const note = `${megabytes} MB of text; median of ${rounds}`
  const { peak, cpu } = bounds
  return [
    {
      name: `${name}: memory`,
      value: median(usages.map((usage) => usage.peak)),
      unit: 'MiB',
      bound: peak,
      note,
    },
    {
      name: `${name}: CPU`,
      value: median(usages.map((usage) => usage.cpu)),
      unit: 's',
      ...(cpu && { bound: cpu }),
    },
  ]
}
