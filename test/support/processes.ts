// graphmill as processes of their own, started from the sources: to be killed, stopped and started again by their pid.
import { type ChildProcess, spawn } from 'node:child_process'
import { resolve } from 'node:path'

const current = resolve(import.meta.dirname, '../../src/cli/main.ts')
const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

export interface ProcessEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface GraphmillProcess {
  readonly pid: number
  /** What it has written so far. */
  readonly stdout: () => string
  readonly stderr: () => string
  /** Resolves when stderr holds `text`; rejects when the process ends before. */
  says(text: string): Promise<void>
  /** Sends the signal and resolves when the process is gone. */
  end(signal: NodeJS.Signals): Promise<ProcessEnd>
  readonly ended: Promise<ProcessEnd>
}

/** Starts `graphmill`, by default from these sources, with these parameters; it dies with this process. */
export function startGraphmill(
  parameters: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  program = current,
): GraphmillProcess {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program, ...parameters], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  })
  running.add(child)
  let [stdout, stderr] = ['', '']
  const heard = new Set<() => void>()
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
    for (const look of heard) look()
  })
  const ended = new Promise<ProcessEnd>((done, failed) => {
    child.once('error', failed)
    child.once('close', (code, signal) => {
      running.delete(child)
      done({ code, signal })
    })
  })
  ended.catch(() => {})
  return {
    pid: child.pid ?? -1,
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    says(text) {
      return new Promise((found, failed) => {
        const look = () => {
          if (!stderr.includes(text)) return
          heard.delete(look)
          found()
        }
        heard.add(look)
        look()
        ended.then(
          ({ code, signal }) => failed(new Error(`graphmill ended with ${code ?? signal}:\n${stderr}`)),
          failed,
        )
      })
    },
    async end(signal) {
      child.kill(signal)
      return ended
    },
  }
}

/** Runs `graphmill` to its end; rejects with what it wrote when it fails. */
export async function graphmill(...parameters: readonly string[]): Promise<string> {
  const child = startGraphmill(parameters)
  const { code, signal } = await child.ended
  if (code === 0) return child.stdout()
  throw new Error(`graphmill ${parameters.join(' ')} ended with ${code ?? signal}:\n${child.stderr()}`)
}
