// A real Apache Jena Fuseki with one dataset in memory, on a free loopback port. Its folder goes when it stops.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { mavenArtifacts } from './maven.ts'
import { freePorts } from './ports.ts'

// The last one for Java 17.
const version = '5.6.0'
// Fuseki without its pages and their access control.
const main = 'org.apache.jena.fuseki.main.cmds.FusekiMainCmd'
const startTimeoutMs = 60_000

export interface FusekiServer {
  /** The dataset, `http://127.0.0.1:port/ds`: `/update`, `/data` and `/query` are its endpoints. */
  readonly dataset: string
  /** All quads, as N-Quads. */
  dump(): Promise<string>
  clear(): Promise<void>
  /** SIGKILL; the data goes with it. */
  kill(): Promise<void>
  /** Starts it again on its old port, empty. */
  restart(): Promise<void>
  stop(): Promise<void>
}

export interface FusekiOptions {
  /** Only this user may do anything. */
  readonly user?: { readonly name: string; readonly password: string }
  /** It takes no updates. */
  readonly readOnly?: boolean
  /** In MB. Default 256. */
  readonly heap?: number
}

/** Resolves when it takes requests. */
export async function startFuseki({ user, readOnly, heap = 256 }: FusekiOptions = {}): Promise<FusekiServer> {
  const jars = await mavenArtifacts({
    name: `fuseki-${version}`,
    artifacts: [`org.apache.jena:jena-fuseki-server:${version}`],
  })
  const jar = join(jars, (await readdir(jars)).find((file) => file.endsWith('.jar'))!)
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-fuseki-'))
  const [port] = await freePorts(1)
  const access: string[] = []
  if (user) {
    await writeFile(join(folder, 'passwd'), `${user.name}: ${user.password}\n`)
    access.push('--passwd=passwd', '--auth=basic')
  }
  if (readOnly) await writeFile(join(folder, 'empty.nt'), '')
  const data = readOnly ? '--file=empty.nt' : '--mem'
  const dataset = `http://127.0.0.1:${port}/ds`
  const headers = user && {
    authorization: `Basic ${Buffer.from(`${user.name}:${user.password}`).toString('base64')}`,
  }
  let child = await start()

  async function start(): Promise<ChildProcess> {
    const limits = [`-Xmx${heap}m`, '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']
    const server = ['-cp', jar, main, '--localhost', `--port=${port}`, ...access, data, '/ds']
    const started = spawn('java', [...limits, ...server], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    // A test that dies takes its servers with it.
    const killOnExit = () => started.kill('SIGKILL')
    process.once('exit', killOnExit)
    started.once('exit', () => process.off('exit', killOnExit))
    const lastLines: string[] = []
    const ready = Promise.withResolvers<void>()
    for (const stream of [started.stdout, started.stderr])
      createInterface(stream).on('line', (line) => {
        if (line.includes('Start Fuseki')) ready.resolve()
        if (lastLines.push(line) > 40) lastLines.shift()
      })
    const fail = (what: string) => ready.reject(new Error(`Fuseki ${what}\n${lastLines.join('\n')}`))
    started.once('error', (error) => fail(error.message))
    started.once('close', (code) => fail(`ended with code ${code}`))
    const timer = setTimeout(() => fail('did not start in time'), startTimeoutMs)
    try {
      await ready.promise
    } finally {
      clearTimeout(timer)
    }
    return started
  }

  async function kill(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    await new Promise<void>((resolve) => {
      child.once('exit', () => resolve())
      child.kill('SIGKILL')
    })
  }

  async function ask(path: string, init: RequestInit): Promise<string> {
    const response = await fetch(dataset + path, {
      ...init,
      headers: { ...headers, ...(init.headers as object) },
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`Fuseki answered ${response.status}: ${text}`)
    return text
  }

  return {
    dataset,
    dump: () => ask('', { headers: { accept: 'application/n-quads' } }),
    async clear() {
      await ask('/update', {
        method: 'POST',
        headers: { 'content-type': 'application/sparql-update' },
        body: 'CLEAR ALL',
      })
    },
    kill,
    async restart() {
      child = await start()
    },
    async stop() {
      await kill()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
