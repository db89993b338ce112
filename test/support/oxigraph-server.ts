// Oxigraph, in Python behind HTTP, as a second SPARQL 1.1 store beside Fuseki. The first time it is installed into .cache/oxigraph.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { installPackage, programOf } from './python-package.ts'

export interface OxigraphServer {
  readonly pid: number
  /** The endpoint for updates. */
  readonly update: string
  /** All quads, as N-Quads. */
  dump(): Promise<string>
  clear(): Promise<void>
  stop(): Promise<void>
}

/** Installs pyoxigraph where it is not; why it cannot be used, if it cannot. */
export const installOxigraph = () => installPackage('oxigraph', 'pyoxigraph', 'pyoxigraph==0.5.13')

/** Resolves when it takes requests. */
export async function startOxigraph(): Promise<OxigraphServer> {
  const child = spawn(programOf('oxigraph', 'python'), [join(import.meta.dirname, 'oxigraph-server.py')], {
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
    pid: child.pid!,
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
