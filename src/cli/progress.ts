// What `extract` shows while it works: a line of progress, and what it waits for.
import type { GraphmillError } from '../errors.ts'
import { documentCounts, type ErrorResult } from '../extraction/summary.ts'
import type { Circuits } from '../flow/runner/circuits.ts'
import type { Pause, RateLimiter } from '../llm/limits/rate-limiter.ts'
import type { Llm } from '../llm/llm.ts'
import type { DocumentStatus } from '../progress/document-status.ts'
import { failureText } from './failure.ts'
import { progressLine } from './summary.ts'

/** Pauses of a rate-limited model up to this length are not shown, in milliseconds. */
const shortPauseMs = 5000

interface ProgressSources {
  readonly documents: () => readonly DocumentStatus[]
  readonly circuits: Circuits
  readonly rateLimiter: RateLimiter
  readonly llm: Llm
}

/** Shows a line that is rewritten on a terminal; elsewhere one every few seconds, and one at the end. */
export function showProgress({ documents, circuits, rateLimiter, llm }: ProgressSources): { stop(): void } {
  const terminal = process.stderr.isTTY
  const explain = createExplanations()
  let shown = ''
  function waits(): string[] {
    const open = circuits.open().map((key) => {
      explain.circuit(nameOf(key), circuits.reason(key)!)
      return nameOf(key)
    })
    const pause = rateLimiter.paused()
    // A pause that was explained is shown until it ends.
    if (!pause || (pause.leftMs <= shortPauseMs && !explain.isExplained(pause))) return open
    explain.pause(nameOf(llm.circuit), pause)
    // A countdown would make every line different when lines are not rewritten.
    return [...open, `${nameOf(llm.circuit)}${terminal ? `: next try in ${durationText(pause.leftMs)}` : ''}`]
  }
  function show() {
    const waiting = waits().map((name) => `, waiting for ${name}`)
    const line = progressLine(documentCounts(documents())) + waiting.join('')
    if (line === shown) return
    shown = line
    process.stderr.write(terminal ? `\r${line}\u001b[K` : `${line}\n`)
  }
  const timer = setInterval(show, terminal ? 200 : 2000)
  return {
    stop() {
      clearInterval(timer)
      if (!terminal) show()
      else if (shown) process.stderr.write('\r\u001b[K')
    },
  }
}

/** Says why something is waited for: once for each circuit and error code, and once for each pause of the model. */
function createExplanations() {
  const explained = new Set<string>()
  let explainedPause = 0
  return {
    isExplained: ({ id }: Pause) => id === explainedPause,
    circuit(name: string, error: GraphmillError) {
      const key = `${name} ${error.code}`
      if (explained.has(key)) return
      explained.add(key)
      say(`graphmill: waiting for ${name}: ${failureText(error)} ${error.remedy}`)
    },
    pause(name: string, { id, error, leftMs }: Pause) {
      if (id === explainedPause) return
      explainedPause = id
      const when = `next try in ${durationText(leftMs)}`
      say(`graphmill: waiting for ${name}: ${failureText(error)}, ${when}. ${error.remedy}`)
    },
  }
}

/** The name of the circuit's resource, for people. */
const nameOf = (circuit: string) => circuit.replace(/^\w+:/, '')

/** `59 min 58 s`, `2 h 5 min`: seconds are rounded up, and omitted with hours. */
export function durationText(ms: number): string {
  const seconds = Math.ceil(ms / 1000)
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}

/** Shows the first error of each kind that cost a message. */
export function createDeathNotes(): (error: ErrorResult) => void {
  const shown = new Set<string>()
  return ({ code, message, remedy }) => {
    if (shown.has(code)) return
    shown.add(code)
    say(`graphmill: ${message} [${code}] ${remedy}`)
  }
}

/** Writes a line to standard error, over the line of progress. */
export function say(line: string): void {
  // On a terminal, the line of progress may be on the current line.
  process.stderr.write(process.stderr.isTTY ? `\r\u001b[K${line}\n` : `${line}\n`)
}
