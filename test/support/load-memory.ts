// The command `load` on a generated text of so many megabytes, as a process of its own: what it says, and the most memory it took.
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { startGraphmill } from './processes.ts'

export interface MeasuredCommand {
  readonly stdout: string
  /** The most memory that the process had, by the kernel's count, in bytes. */
  readonly peak: number
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

/** Linux's `VmHWM` is the peak of this program; `maxRSS` may be that of the process that started it. */
const tellUsage = `import { readFileSync } from 'node:fs'
process.on('exit', () => {
  let { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage()
  try {
    maxRSS = /VmHWM:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]
  } catch {}
  process.stderr.write('took ' + maxRSS + ' KiB, ' + (userCPUTime + systemCPUTime) + ' µs\\n')
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
  const [, kibibytes, microseconds] = /^took (\d+) KiB, (\d+) µs$/m.exec(child.stderr()) ?? []
  if (code !== 0 || kibibytes === undefined) throw new Error(`load ended with ${code}:\n${child.stderr()}`)
  return { stdout: child.stdout(), peak: Number(kibibytes) * 1024, cpu: Number(microseconds) / 1e6, seconds }
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
