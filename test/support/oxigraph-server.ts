// Oxigraph, in Python behind HTTP, as a second SPARQL 1.1 store beside Fuseki. The first time it is installed into .cache/oxigraph.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const folder = join('.cache', 'oxigraph')
const python = join(folder, 'bin', 'python')

export interface OxigraphServer {
  /** The endpoint for updates. */
  readonly update: string
  /** All quads, as N-Quads. */
  dump(): Promise<string>
  clear(): Promise<void>
  stop(): Promise<void>
}

/** Installs pyoxigraph where it is not; why it cannot be used, if it cannot. */
export function installOxigraph(): string | undefined {
  const imports = () => existsSync(python) && spawnSync(python, ['-c', 'import pyoxigraph']).status === 0
  if (imports()) return undefined
  const venv = spawnSync('python3', ['-m', 'venv', folder], { timeout: 60_000 })
  if (venv.status !== 0) return 'python3 with venv is not installed'
  const pip = ['-m', 'pip', 'install', '--quiet', '--retries', '0', '--timeout', '10', 'pyoxigraph==0.5.13']
  spawnSync(python, pip, { timeout: 60_000 })
  return imports() ? undefined : 'pyoxigraph could not be installed'
}

/** Resolves when it takes requests. */
export async function startOxigraph(): Promise<OxigraphServer> {
  const child = spawn(python, [join(import.meta.dirname, 'oxigraph-server.py')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  // A test that dies takes its servers with it.
  const killOnExit = () => child.kill('SIGKILL')
  process.once('exit', killOnExit)
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const lines = createInterface(child.stdout)
  const first = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    ended.then(() => Promise.reject(new Error('Oxigraph ended before it was ready'))),
  ])
  const origin = `http://127.0.0.1:${Number(first)}`
  return {
    update: `${origin}/update`,
    dump: async () => (await fetch(origin)).text(),
    async clear() {
      await fetch(`${origin}/update`, { method: 'POST', body: 'CLEAR ALL' })
    },
    async stop() {
      process.off('exit', killOnExit)
      child.kill('SIGKILL')
      await ended
    },
  }
}
