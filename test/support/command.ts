// Runs `graphmill` as a process of its own, as a user does.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('../../bin/graphmill.js', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface CommandOptions {
  /** Only these variables, beside PATH and HOME, reach the process; nothing is remembered unless they say so. */
  readonly env?: Readonly<Record<string, string>>
  readonly stdin?: string | Uint8Array
  readonly cwd?: string
  /** Called with all of standard error so far, whenever there is more. */
  readonly onStderr?: (text: string, kill: (signal: NodeJS.Signals) => void) => void
}

/** Resolves when the process has ended. It is killed after a minute. */
export function graphmill(
  args: readonly string[],
  { env = {}, stdin, cwd, onStderr }: CommandOptions = {},
): Promise<Ended> {
  const { PATH = '', HOME = '' } = process.env
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH, HOME, GRAPHMILL_NO_CACHE: 'true', ...env },
    cwd,
    timeout: 60_000,
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
    onStderr?.(stderr, (signal) => child.kill(signal))
  })
  child.stdin.on('error', () => undefined)
  child.stdin.end(stdin ?? '')
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
  })
}
