// The command `load` on a generated text of so many megabytes, as a process of its own: what it says, and the most memory it took.
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { startGraphmill } from './processes.ts'

export interface MeasuredLoad {
  readonly parts: number
  /** The most memory that the process had, by the kernel's count, in bytes. */
  readonly peak: number
  /** From its start to its end. */
  readonly seconds: number
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

const tellPeak = `process.on('exit', () => process.stderr.write('peak ' + process.resourceUsage().maxRSS + ' KiB\\n'))`

/** `place` are the flags that say where to; the text is written to `folder` meanwhile. */
export async function measureLoad(
  megabytes: number,
  { folder, place }: { readonly folder: string; readonly place: readonly string[] },
): Promise<MeasuredLoad> {
  const file = join(folder, `${megabytes}.txt`)
  await pipeline(Readable.from(paragraphs(megabytes)), createWriteStream(file))
  const start = performance.now()
  const options = `${process.env['NODE_OPTIONS'] ?? ''} --import=data:text/javascript,${encodeURIComponent(tellPeak)}`
  const child = startGraphmill(['load', file, ...place], { NODE_OPTIONS: options })
  const { code } = await child.ended
  const seconds = (performance.now() - start) / 1000
  await rm(file)
  const [, kibibytes] = /^peak (\d+) KiB$/m.exec(child.stderr()) ?? []
  if (code !== 0 || kibibytes === undefined) throw new Error(`load ended with ${code}:\n${child.stderr()}`)
  const { parts } = JSON.parse(child.stdout()) as { parts: number }
  return { parts, peak: Number(kibibytes) * 1024, seconds }
}
