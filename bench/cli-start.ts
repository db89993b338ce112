// The CPU time of the command line: from its start to the end of `--version` and `--help`, and until `run` is ready on a real Kafka.
import { spawnSync } from 'node:child_process'
import { openExecution } from '../test/faults/execution.ts'
import { type Machines, withMachines } from './kafka.ts'
import { cpuOf } from './process-usage.ts'
import { program } from './program.ts'
import { median, type Row, rounds } from './row.ts'

const unit = 's of CPU'
const note = `median of ${rounds}`

export const cliStartBench = () => withMachines(starts)

async function starts(machines: Machines): Promise<Row[]> {
  const rows: Row[] = ['--version', '--help'].map((flag) => {
    const value = median(Array.from({ length: rounds }, () => secondsOf([flag])))
    return { name: `cli-start: ${flag}`, value, unit, bound: '<= 0.25', note }
  })
  for (const name of ['--all', 'extract-definitions']) {
    const seconds: number[] = []
    for (let round = 0; round < rounds; round++) seconds.push(await secondsToReady(machines, name, round))
    rows.push({
      name: `cli-start: run ${name}, until it is ready`,
      value: median(seconds),
      unit,
      bound: '<= 1.5',
      note,
    })
  }
  return rows
}

const tell = `process.on('exit', () => { const { user, system } = process.cpuUsage(); process.stderr.write('cpu ' + (user + system) + '\\n') })`

/** The CPU time of a command from its start to its end, in seconds. */
function secondsOf(parameters: readonly string[]): number {
  const preload = `--import=data:text/javascript,${encodeURIComponent(tell)}`
  const { stderr } = spawnSync(process.execPath, [preload, program, ...parameters], { encoding: 'utf8' })
  return Number(/^cpu (\d+)$/m.exec(stderr)?.[1]) / 1e6
}

async function secondsToReady({ site, llm }: Machines, name: string, round: number): Promise<number> {
  const execution = await openExecution(site, {
    space: `start${name.replace('--', '')}${round}`,
    llmUrl: llm.url,
  })
  try {
    const { pid } = await execution.startProcess([name], ['--http', '127.0.0.1:0'], program)
    return cpuOf(pid)
  } finally {
    await execution.close()
  }
}
