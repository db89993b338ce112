// What a person sees while `extract` works: one line of progress, and a word on what is waited for.
import type { GraphmillError } from '../errors.ts'
import type { Circuits } from '../flow/runner/circuits.ts'
import type { Pause, RateLimiter } from '../llm/limits/rate-limiter.ts'
import type { Llm } from '../llm/llm.ts'
import type { ProgressAggregate } from '../progress/progress-aggregate.ts'
import { failureText } from './failure.ts'
import { progressLine } from './summary.ts'

/** Shorter waits for a model's limit pass without a word, in milliseconds. */
const shortPauseMs = 5000

interface Shown {
  readonly aggregate: ProgressAggregate
  readonly circuits: Circuits
  readonly rateLimiter: RateLimiter
  readonly llm: Llm
}

/** A line that is rewritten on a terminal; elsewhere one every few seconds, and one at the end. */
export function showProgress({ aggregate, circuits, rateLimiter, llm }: Shown): { stop(): void } {
  const terminal = process.stderr.isTTY
  const explained = new Set<string>()
  let explainedPause = 0
  let shown = ''
  /** Why something is waited for, once for each code. */
  function explain(name: string, error: GraphmillError) {
    const key = `${name} ${error.code}`
    if (explained.has(key)) return
    explained.add(key)
    say(`graphmill: waiting for ${name}: ${failureText(error)} ${error.remedy}`)
  }
  /** Until when a model is waited for that limits its calls, once for each pause. */
  function explainPause(name: string, { id, error, leftMs }: Pause) {
    if (id === explainedPause) return
    explainedPause = id
    say(
      `graphmill: waiting for ${name}: ${failureText(error)}, next try in ${durationText(leftMs)}. ${error.remedy}`,
    )
  }
  function show() {
    const away = circuits.open().map((key) => {
      const name = nameOf(key)
      explain(name, circuits.reason(key)!)
      return `, waiting for ${name}`
    })
    const pause = rateLimiter.paused()
    // One that was explained is shown to its end.
    if (pause && (pause.leftMs > shortPauseMs || pause.id === explainedPause)) {
      const name = nameOf(llm.circuit)
      explainPause(name, pause)
      // Elsewhere the line would never be twice the same.
      away.push(`, waiting for ${name}${terminal ? `: next try in ${durationText(pause.leftMs)}` : ''}`)
    }
    const line = progressLine(aggregate.documents()) + away.join('')
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

/** What a circuit stands for, as a person knows it. */
const nameOf = (circuit: string) => circuit.replace(/^\w+:/, '')

/** `59 min 58 s`, `2 h 5 min`: seconds are rounded up, and left out beside hours. */
export function durationText(ms: number): string {
  const seconds = Math.ceil(ms / 1000)
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}

export function say(line: string): void {
  // On a terminal the progress line may stand where this begins.
  process.stderr.write(process.stderr.isTTY ? `\r\u001b[K${line}\n` : `${line}\n`)
}
