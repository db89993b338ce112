// The command `load` on a generated text of so many megabytes, as a process of its own: what it says, and the most memory it took.
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { startGraphmill } from './processes.ts'

export interface MeasuredCommand {
  readonly stdout: string
  /** The most memory by `maxRSS`, in bytes: at least what the process had that started this one. */
  readonly peak: number
  /** The most memory that the program itself had by Linux's `VmHWM`, in bytes; NaN on other systems. */
  readonly resident: number
  /** CPU time in seconds. */
  readonly cpu: number
  /** From its start to its end. */
  readonly seconds: number
}

export interface MeasuredLoad extends MeasuredCommand {
  readonly parts: number
}

/** Paragraphs of some thousand characters, of which no two are the same. */
function* paragraphs(megabytes: number): Generator<string> {
  const sentences = 'The mill of the parish stands by the river and feeds the miller. '.repeat(15)
  let length = 0
  for (let number = 0; length < megabytes * 1e6; number++) {
    const paragraph = `${number}. ${sentences}\n\n`
    length += paragraph.length
    yield paragraph
  }
}

const tellUsage = `import { readFileSync } from 'node:fs'
process.on('exit', () => {
  const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage()
  let resident = NaN
  try {
    resident = Number(/VmHWM:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1])
  } catch {}
  const cpu = userCPUTime + systemCPUTime
  process.stderr.write('took ' + maxRSS + ' KiB, ' + resident + ' KiB resident, ' + cpu + ' µs\\n')
})`

/** Runs `graphmill` to its end; rejects with what it wrote when it fails. */
export async function measureGraphmill(
  parameters: readonly string[],
  program?: string,
): Promise<MeasuredCommand> {
  const start = performance.now()
  const options = `${process.env['NODE_OPTIONS'] ?? ''} --import=data:text/javascript,${encodeURIComponent(tellUsage)}`
  const child = startGraphmill(parameters, { NODE_OPTIONS: options }, program)
  const { code } = await child.ended
  const seconds = (performance.now() - start) / 1000
  const took = /^took (\d+) KiB, (\w+) KiB resident, (\d+) µs$/m.exec(child.stderr())
  if (code !== 0 || took === null) throw new Error(`load ended with ${code}:\n${child.stderr()}`)
  const [peak, resident, microseconds] = took.slice(1).map(Number) as [number, number, number]
  const memory = { peak: peak * 1024, resident: resident * 1024 }
  return { stdout: child.stdout(), ...memory, cpu: microseconds / 1e6, seconds }
}

export interface LoadPlace {
  /** Where the text is written meanwhile. */
  readonly folder: string
  /** The flags that say where to. */
  readonly place: readonly string[]
  /** Default: these sources. */
  readonly program?: string
}

export async function measureLoad(
  megabytes: number,
  { folder, place, program }: LoadPlace,
): Promise<MeasuredLoad> {
  const file = join(folder, `${megabytes}.txt`)
  await pipeline(Readable.from(paragraphs(megabytes)), createWriteStream(file))
  const measured = await measureGraphmill(['load', file, ...place], program)
  await rm(file)
  const { parts } = JSON.parse(measured.stdout) as { parts: number }
  return { parts, ...measured }
}
