// The command `load` with a folder of many small files, on a real Kafka: files a second, CPU and memory of the process.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../test/support/kafka-server.ts'
import { measureGraphmill } from '../test/support/load-memory.ts'
import { program } from './program.ts'
import { median, type Row, rounds } from './row.ts'

const files = 2000

/** So many files of some 2 KB, no two of which are the same. */
export async function writeFiles(folder: string, count: number): Promise<void> {
  await mkdir(folder)
  const sentence = 'The mill of the parish stands by the river and feeds the miller. '.repeat(30)
  for (let number = 0; number < count; number++)
    await writeFile(join(folder, `${number}.txt`), `${number}. ${sentence}`)
}

export async function bulkLoadBench(): Promise<Row[]> {
  const server = await startKafka()
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-bulk-'))
  try {
    const [many, one] = [join(folder, 'many'), join(folder, 'one')]
    await writeFiles(many, files)
    await writeFiles(one, 1)
    const place = (space: string) => ['--broker', `kafka://${server.bootstrap.join()}`, '--space', space]
    const passes: { readonly rate: number; readonly cpu: number; readonly peak: number }[] = []
    for (let round = 0; round < rounds; round++) {
      // What starting takes is not counted.
      const start = await measureGraphmill(['load', one, ...place(`bulk-${round}`)], program)
      const whole = await measureGraphmill(['load', many, ...place(`bulk-${round}`)], program)
      const rate = (files - 1) / (whole.seconds - start.seconds)
      passes.push({ rate, cpu: ((whole.cpu - start.cpu) / files) * 1000, peak: whole.resident / 1024 / 1024 })
    }
    const middle = (of: 'rate' | 'cpu' | 'peak') => median(passes.map((pass) => pass[of]))
    const note = `${files} files of 2 KB, without the start; median of ${rounds}`
    return [
      { name: 'kafka: load of a folder', value: middle('rate'), unit: 'files/s', bound: '>= 1000', note },
      { name: 'kafka: load of a folder, CPU', value: middle('cpu'), unit: 's/1,000 files' },
      {
        name: 'kafka: load of a folder, memory',
        value: middle('peak'),
        unit: 'MiB',
        note: 'the most that was resident',
      },
    ]
  } finally {
    await server.stop()
    await rm(folder, { recursive: true })
  }
}
