// A shell that runs the commands of a page one after the other, as a reader would type them: exports last to the next command.
// Commands that do not end by themselves (`run`, `tail`) run in the background.
import { type ChildProcess, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

export interface Session {
  /** Resolves to its standard output. Rejects with all its output unless it ends with 0 within two minutes. */
  run(command: string): Promise<string>
  /** Resolves to its standard output so far once the expected text was written. Rejects if the process ends before, or after two minutes. */
  start(command: string, says: { readonly stdout?: RegExp; readonly stderr?: RegExp }): Promise<Started>
}

export interface Started {
  readonly stdout: () => string
  /** Sends the signal. Rejects with all its output unless it ends with 0 within two minutes. */
  end(signal: NodeJS.Signals): Promise<void>
}

const patienceMs = 120_000

interface Shell {
  readonly child: ChildProcess
  readonly written: { stdout: string; stderr: string }
  /** Called with its output so far, whenever there is more. */
  onMore: () => void
  /** Resolves when it has ended in any way. */
  readonly ended: Promise<void>
}

/** Opens a session in a folder, with only these variables. */
export function openSession(folder: string, environment: Readonly<Record<string, string>>): Session {
  let variables = environment

  function bash(code: string): Shell {
    // Its own process group, so that all its processes can be ended. Standard input is empty.
    const child = spawn('bash', ['-c', code], {
      cwd: folder,
      env: variables,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const killOnExit = () => kill(child, 'SIGKILL')
    process.once('exit', killOnExit)
    const ended = new Promise<void>((resolve) => {
      child.once('error', () => resolve())
      child.once('close', () => {
        process.off('exit', killOnExit)
        resolve()
      })
    })
    const shell: Shell = { child, written: { stdout: '', stderr: '' }, onMore: () => undefined, ended }
    for (const stream of ['stdout', 'stderr'] as const)
      child[stream]!.setEncoding('utf8').on('data', (text: string) => {
        shell.written[stream] += text
        shell.onMore()
      })
    return shell
  }

  /** Waits for the end. Rejects unless the exit code is 0. */
  async function toEnd(command: string, { child, written, ended }: Shell): Promise<void> {
    const timer = setTimeout(() => kill(child, 'SIGKILL'), patienceMs)
    await ended
    clearTimeout(timer)
    if (child.exitCode !== 0) throw failure(command, child, written)
  }

  return {
    async run(command) {
      const state = join(folder, '.variables')
      const shell = bash(`${command}\nstatus=$?; env -0 > .variables; exit $status`)
      await toEnd(command, shell)
      const pairs = (await readFile(state, 'utf8')).split('\0').filter((pair) => pair.includes('='))
      variables = Object.fromEntries(
        pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
      )
      return shell.written.stdout
    },
    async start(command, says) {
      // bash replaces itself by a single command, so signals reach the command.
      const shell = bash(command)
      const { child, written, ended } = shell
      await new Promise<void>((resolve, reject) => {
        const fail = () => reject(failure(command, child, written))
        const timer = setTimeout(fail, patienceMs)
        shell.onMore = () => {
          const isSaid = ([stream, what]: [string, RegExp]) =>
            what.test(written[stream as 'stdout' | 'stderr'])
          if (!Object.entries(says).every(isSaid)) return
          clearTimeout(timer)
          resolve()
        }
        void ended.then(() => {
          clearTimeout(timer)
          fail()
        })
      }).catch((error) => {
        kill(child, 'SIGKILL')
        throw error
      })
      return {
        stdout: () => written.stdout,
        async end(signal) {
          kill(child, signal)
          await toEnd(command, shell)
        },
      }
    },
  }
}

function kill({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal)
  } catch {
    // It has ended.
  }
}

function failure(command: string, child: ChildProcess, written: { stdout: string; stderr: string }): Error {
  const how = child.exitCode ?? child.signalCode ?? 'not ended'
  return new Error(
    `${command}\n(${how})\n${written.stdout.slice(-2000)}\n${written.stderr.slice(-4000)}`.trim(),
  )
}
